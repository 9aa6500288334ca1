/** What a caller asks of a file beyond its own claims. */

import { InputError } from "./errors.js";

/** What a file must hold beyond its own claims. */
export interface Requirement {
  /** The largest budget that is accepted. */
  epsilonAtMost?: number;
  /** The smallest distance of neighbours that is accepted; regions have none. */
  etaAtLeast?: number;
  metric?: string;
  /** The certificate's fingerprint, or its first 16 or more digits. */
  fingerprint?: string;
}

/** Return why a requirement is not met; empty if it is. */
export function unmet(require: Requirement, epsilon: number, eta: number, metric: string, fingerprint: string): string {
  for (const key of Object.keys(require)) {
    if (!["epsilonAtMost", "etaAtLeast", "metric", "fingerprint"].includes(key)) {
      throw new InputError(`the requirement ${key} is unknown: use epsilonAtMost, etaAtLeast, metric or fingerprint`);
    }
  }
  const digits = require.fingerprint;
  if (digits !== undefined && !/^[0-9a-f]{16,64}$/.test(digits)) {
    throw new InputError("a fingerprint must be given by its first 16 or more hexadecimal digits");
  }
  if (require.epsilonAtMost !== undefined && !(epsilon <= require.epsilonAtMost)) return `epsilon is ${epsilon}`;
  if (require.etaAtLeast !== undefined && !(eta >= require.etaAtLeast)) return `eta is ${eta}`;
  if (require.metric !== undefined && metric !== require.metric) return `the metric is ${metric}`;
  return digits === undefined || fingerprint.startsWith(digits) ? "" : `the fingerprint is ${fingerprint}`;
}

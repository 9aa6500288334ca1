/** Exact comparisons with exp(epsilon d): section "Comparing" of docs/file-format.md. */

import { units } from "./distances.js";

const BITS = 96n;
const FINE = 256n; // bits of the series
const TERMS = 50n;
export const TRIVIAL_EXPONENT = 44; // exp(44) is above 2^63
/** Relative; roundings of both weights, their quotient, epsilon d below 44, and the exponential are below 2^-46. */
export const FLOAT_GUARD = 2 ** -44;

/** Return a whole number that is not above exp(epsilon distance) 2^96, and short of it by less than 2. */
export function factor(epsilon: number, distance: number): bigint {
  if (epsilon * distance > TRIVIAL_EXPONENT) return 1n << 159n;
  // the product of two floats over 2^2148, exact
  const product = units(epsilon) * units(distance);
  let s = 0n;
  while (product > 1n << (2148n + s)) s += 1n;
  const y = shifted(product, 2148n + s + 8n - FINE);
  let sum = 0n;
  let term = 1n << FINE;
  for (let n = 1n; n <= TERMS; n += 1n) {
    sum += term;
    term = (term * y) / (n << FINE);
  }
  for (let k = 0n; k < s + 8n; k += 1n) sum = (sum * sum) >> FINE;
  return sum >> (FINE - BITS);
}

function shifted(value: bigint, by: bigint): bigint {
  return by >= 0n ? value >> by : value << -by;
}

/** Return whether a weight is above exp(epsilon d) times another, by whole numbers. */
export function exceeds(larger: bigint, smaller: bigint, E: bigint): boolean {
  return larger << BITS > E * smaller;
}

/** An error whose message is one line, names the remedy where there is one, and never a secret value. */
export class MetricDPError extends Error {
  override name = "MetricDPError";
}

/** The file is damaged, cut short, edited, or of a kind that this version does not know. */
export class FileFormatError extends MetricDPError {
  override name = "FileFormatError";
}

/** The file is well-formed and does not hold what it claims. */
export class CertificationError extends MetricDPError {
  override name = "CertificationError";
}

/** What a caller asked for cannot be done, or is not covered by the promise. */
export class InputError extends MetricDPError {
  override name = "InputError";
}

/** There is no randomness; nothing is drawn, and there is no fallback. */
export class RandomnessError extends MetricDPError {
  override name = "RandomnessError";
}

const LONGEST_SHOWN = 120;

/** Return a shortened text for a message: a damaged file may hold values of any length. */
export function short(text: unknown): string {
  const words = String(text);
  return words.length <= LONGEST_SHOWN ? words : `${words.slice(0, LONGEST_SHOWN)}...`;
}

/** Refuse a file as damaged unless `condition` holds. */
export function need(condition: boolean, message: string): asserts condition {
  if (!condition) throw new FileFormatError(`damaged: ${message}`);
}

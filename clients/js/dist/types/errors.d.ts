/** An error whose message is one line, names the remedy where there is one, and never a secret value. */
export declare class MetricDPError extends Error {
    name: string;
}
/** The file is damaged, cut short, edited, or of a kind that this version does not know. */
export declare class FileFormatError extends MetricDPError {
    name: string;
}
/** The file is well-formed and does not hold what it claims. */
export declare class CertificationError extends MetricDPError {
    name: string;
}
/** What a caller asked for cannot be done, or is not covered by the promise. */
export declare class InputError extends MetricDPError {
    name: string;
}
/** There is no randomness; nothing is drawn, and there is no fallback. */
export declare class RandomnessError extends MetricDPError {
    name: string;
}
/** Return a shortened text for a message: a damaged file may hold values of any length. */
export declare function short(text: unknown): string;
/** Refuse a file as damaged unless `condition` holds. */
export declare function need(condition: boolean, message: string): asserts condition;

/** Exact comparisons with exp(epsilon d): section "Comparing" of docs/file-format.md. */
export declare const TRIVIAL_EXPONENT = 44;
/** Relative; roundings of both weights, their quotient, epsilon d below 44, and the exponential are below 2^-46. */
export declare const FLOAT_GUARD: number;
/** Return a whole number that is not above exp(epsilon distance) 2^96, and short of it by less than 2. */
export declare function factor(epsilon: number, distance: number): bigint;
/** Return whether a weight is above exp(epsilon d) times another, by whole numbers. */
export declare function exceeds(larger: bigint, smaller: bigint, E: bigint): boolean;

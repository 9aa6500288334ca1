/** Randomness of the operating system, and no other. */
/** Return whole numbers below 2^63, each in two words: the high one and the low one. */
export declare function systemNumbers(count: number): (readonly [number, number])[];

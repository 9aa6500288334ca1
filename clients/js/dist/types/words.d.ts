/** Whole numbers of 64 bits as two words of 32: typed arrays of them are compared and summed without allocating. */
/** A tensor of 64-bit whole numbers, little endian: the low word of entry k is words[2 k]. */
export type Words = Uint32Array;
/** Return an entry as a float, rounded once. */
export declare function asFloat(words: Words, k: number): number;
export declare function asBigInt(words: Words, k: number): bigint;
/** Return the sum of entries from `begin` up to `end`, exactly. */
export declare function sum(words: Words, begin: number, end: number): bigint;
/** Return the running sums of entries from `begin` up to `end`, modulo 2^64, written from `to` on. */
export declare function runningSums(words: Words, begin: number, end: number, result: Words, to: number): void;
/** Return 1 if a is below b, both of 32 bits without sign, and 0 if not: no branch. */
export declare function isBelow(a: number, b: number): number;
/** Return 1 if a is at least b, both of 64 bits in two words, and 0 if not: no branch. */
export declare function isAtLeast(aHigh: number, aLow: number, bHigh: number, bLow: number): number;
/** Return the high word of the product of two words: no branch. */
export declare function highProduct(a: number, b: number): number;

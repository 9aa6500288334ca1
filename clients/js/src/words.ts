/** Whole numbers of 64 bits as two words of 32: typed arrays of them are compared and summed without allocating. */

/** A tensor of 64-bit whole numbers, little endian: the low word of entry k is words[2 k]. */
export type Words = Uint32Array;

const TWO_32 = 2 ** 32;

/** Return an entry as a float, rounded once. */
export function asFloat(words: Words, k: number): number {
  return words[2 * k + 1] * TWO_32 + words[2 * k];
}

export function asBigInt(words: Words, k: number): bigint {
  return (BigInt(words[2 * k + 1]) << 32n) | BigInt(words[2 * k]);
}

/** Return the sum of entries from `begin` up to `end`, exactly. */
export function sum(words: Words, begin: number, end: number): bigint {
  let [low, high] = [0, 0]; // each exact: fewer than 2^21 summands at a time
  let total = 0n;
  for (let k = begin; k < end; k += 1) {
    low += words[2 * k];
    high += words[2 * k + 1];
    if ((k & 0xfffff) === 0) {
      total += (BigInt(high) << 32n) + BigInt(low);
      [low, high] = [0, 0];
    }
  }
  return total + (BigInt(high) << 32n) + BigInt(low);
}

/** Return the running sums of entries from `begin` up to `end`, modulo 2^64, written from `to` on. */
export function runningSums(words: Words, begin: number, end: number, result: Words, to: number): void {
  let [low, high] = [0, 0];
  for (let k = begin; k < end; k += 1) {
    const added = low + words[2 * k];
    low = added >>> 0;
    high = (high + words[2 * k + 1] + (added >= TWO_32 ? 1 : 0)) >>> 0;
    result[2 * (to + k - begin)] = low;
    result[2 * (to + k - begin) + 1] = high;
  }
}

/** Return 1 if a is below b, both of 32 bits without sign, and 0 if not: no branch. */
export function isBelow(a: number, b: number): number {
  return ((~a & b) | ((~a | b) & (a - b))) >>> 31;
}

/** Return 1 if a is at least b, both of 64 bits in two words, and 0 if not: no branch. */
export function isAtLeast(aHigh: number, aLow: number, bHigh: number, bLow: number): number {
  const isLess = isBelow(aHigh, bHigh) | ((1 - (isBelow(aHigh, bHigh) | isBelow(bHigh, aHigh))) & isBelow(aLow, bLow));
  return 1 - isLess;
}

/** Return the high word of the product of two words: no branch. */
export function highProduct(a: number, b: number): number {
  const [a0, a1, b0, b1] = [a & 0xffff, a >>> 16, b & 0xffff, b >>> 16];
  const low = a0 * b0;
  const middle = a1 * b0 + (low >>> 16); // below 2^32
  const other = a0 * b1 + (middle & 0xffff); // below 2^32
  return (a1 * b1 + (middle >>> 16) + (other >>> 16)) >>> 0;
}

/** Randomness of the operating system, and no other. */

import { RandomnessError } from "./errors.js";

const NUMBERS_AT_ONCE = 4096; // browsers give at most 65,536 bytes at a time

/** Whole numbers below 2^63, each in two words: the high one and the low one. */
export function* systemNumbers(count: number): Generator<readonly [number, number]> {
  for (let left = count; left > 0; left -= NUMBERS_AT_ONCE) {
    const words = filled(2 * Math.min(left, NUMBERS_AT_ONCE));
    for (let w = 0; w < words.length; w += 2) {
      const [low, high] = [words[w], words[w + 1]];
      yield [high >>> 1, ((high << 31) | (low >>> 1)) >>> 0]; // 64 bits, shifted right by one
    }
  }
}

function filled(count: number): Uint32Array {
  const source = globalThis.crypto as Crypto | undefined;
  if (typeof source?.getRandomValues !== "function") {
    throw new RandomnessError("crypto.getRandomValues is not available: nothing was drawn");
  }
  const words = new Uint32Array(count);
  let given: unknown;
  try {
    given = source.getRandomValues(words);
  } catch {
    throw new RandomnessError("the system's randomness failed: nothing was drawn");
  }
  if (given !== words) throw new RandomnessError("the system's randomness gave nothing: nothing was drawn");
  return words;
}

/** Randomness of the operating system, and no other. */

import { RandomnessError } from "./errors.js";

const WORDS_AT_ONCE = 8192; // browsers give at most 65,536 bytes at a time

/** Return whole numbers below 2^63, each in two words: the high one and the low one. */
export function systemNumbers(count: number): (readonly [number, number])[] {
  const words = new Uint32Array(2 * count);
  for (let w = 0; w < words.length; w += WORDS_AT_ONCE) fill(words.subarray(w, w + WORDS_AT_ONCE));
  return Array.from({ length: count }, (_, k) => {
    const [low, high] = [words[2 * k], words[2 * k + 1]];
    return [high >>> 1, ((high << 31) | (low >>> 1)) >>> 0]; // 64 bits, shifted right by one
  });
}

function fill(words: Uint32Array): void {
  const source = globalThis.crypto as Crypto | undefined;
  if (typeof source?.getRandomValues !== "function") {
    throw new RandomnessError("crypto.getRandomValues is not available: nothing was drawn");
  }
  let given: unknown;
  try {
    given = source.getRandomValues(words);
  } catch {
    throw new RandomnessError("the system's randomness failed: nothing was drawn");
  }
  if (given !== words) throw new RandomnessError("the system's randomness gave nothing: nothing was drawn");
}

/** The tables of both formats: sums, comparisons of two rows, and the output that a number stands for. */

import type { Parts } from "./container.js";
import { integers } from "./contents.js";
import { CertificationError, need } from "./errors.js";
import { FLOAT_GUARD, TRIVIAL_EXPONENT, exceeds, factor } from "./exact.js";
import { type Words, asBigInt, asFloat, highProduct, isAtLeast, runningSums, sum } from "./words.js";

const TOTAL = 1n << 63n;

/** What a comparison of two rows found: where they are too far apart, or -1, and how much was compared. */
export interface Compared {
  isBroken: boolean;
  nCompared: number;
  nExact: number;
}

export interface Table {
  readonly nRecords: number;
  readonly nOutputs: number;
  readonly nStored: number;
  /** Compare rows i and j at all outputs, both ways, at exp(epsilon distance). */
  compare(i: number, j: number, epsilon: number, distance: number): Compared;
  /** Return the output that a number below 2^63, in two words, stands for; every number takes the same steps. */
  output(row: number, high: number, low: number): number;
  /** Return the weight of an output; its probability is that over 2^63. */
  weight(row: number, output: number): bigint;
}

export function tableOf(parts: Parts): Table {
  return parts.tensors.has("scale") ? new SparseTable(parts) : new DenseTable(parts);
}

function words(parts: Parts, name: string): Words {
  return new Uint32Array(parts.tensors.get(name)!.bytes.buffer as ArrayBuffer);
}

function wrongSum(row: number): CertificationError {
  return new CertificationError(`row ${row} does not sum to 2^63`);
}

/** The limit on quotients of floats that needs no whole numbers, and the exact factor if it is asked for. */
class Limit {
  readonly sure: number;
  nExact = 0;
  private E: bigint | null = null;

  constructor(
    private readonly epsilon: number,
    private readonly distance: number,
  ) {
    const exponent = Math.min(epsilon * distance, TRIVIAL_EXPONENT + 1);
    this.sure = Math.exp(exponent) / (1 + FLOAT_GUARD);
  }

  /** Return whether one of two weights is above the factor times the other, which is at least 1. */
  isBroken(one: bigint, other: bigint): boolean {
    this.nExact += 1;
    if (one === other) return false;
    this.E ??= factor(this.epsilon, this.distance);
    return one > other ? exceeds(one, other, this.E) : exceeds(other, one, this.E);
  }
}

export class DenseTable implements Table {
  readonly nRecords: number;
  readonly nOutputs: number;
  readonly nStored = 0;
  readonly table: Words;
  readonly floats: Float64Array;
  private readonly steps: Words; // running sums of each row

  constructor(parts: Parts) {
    [this.nRecords, this.nOutputs] = parts.shapes.get("table")!;
    const K = this.nOutputs;
    this.table = words(parts, "table");
    for (let row = 0; row < this.nRecords; row += 1) {
      if (sum(this.table, row * K, (row + 1) * K) !== TOTAL) throw wrongSum(row);
    }
    const size = this.nRecords * K;
    this.floats = new Float64Array(size);
    for (let e = 0; e < size; e += 1) this.floats[e] = asFloat(this.table, e);
    this.steps = new Uint32Array(2 * size);
    for (let row = 0; row < this.nRecords; row += 1) runningSums(this.table, row * K, (row + 1) * K, this.steps, row * K);
  }

  compare(i: number, j: number, epsilon: number, distance: number): Compared {
    const { floats, table, nOutputs: K } = this;
    const limit = new Limit(epsilon, distance);
    const sure = limit.sure;
    let isBroken = false;
    for (let k = 0, a = i * K, b = j * K; k < K && !isBroken; k += 1, a += 1, b += 1) {
      const x = floats[a];
      const y = floats[b];
      if (x <= sure * y && y <= sure * x) continue;
      isBroken = limit.isBroken(asBigInt(table, a), asBigInt(table, b));
    }
    return { isBroken, nCompared: 2 * K, nExact: limit.nExact };
  }

  output(row: number, high: number, low: number): number {
    const { steps, nOutputs: K } = this;
    let reached = 0;
    for (let k = 0, e = 2 * row * K; k < K; k += 1, e += 2) reached += isAtLeast(high, low, steps[e + 1], steps[e]);
    return reached;
  }

  weight(row: number, output: number): bigint {
    return asBigInt(this.table, row * this.nOutputs + output);
  }
}

export class SparseTable implements Table {
  readonly nRecords: number;
  readonly nOutputs: number;
  readonly nStored: number;
  private readonly starts: Int32Array;
  private readonly columns: Int32Array;
  private readonly weights: Words;
  private readonly background: Words;
  private readonly scale: Words;
  private readonly nShared: number; // outputs with a positive background
  private readonly stored: Words; // running sums of the stored weights of each row
  private readonly shared: Words; // running sums of the background
  private readonly longest: number;
  private readonly localFloats: Float64Array;
  private readonly sharedFloats: Float64Array;

  constructor(parts: Parts) {
    [this.nRecords] = parts.shapes.get("scale")!;
    [this.nOutputs] = parts.shapes.get("background")!;
    [this.nStored] = parts.shapes.get("weights")!;
    const [n, K, M] = [this.nRecords, this.nOutputs, this.nStored];
    this.columns = integers(parts, "columns");
    this.weights = words(parts, "weights");
    this.background = words(parts, "background");
    this.scale = words(parts, "scale");
    this.starts = startsOf(words(parts, "indptr"), n, M);
    const total = sum(this.background, 0, K);
    this.stored = new Uint32Array(2 * M);
    this.longest = 0;
    for (let row = 0; row < n; row += 1) {
      const [begin, end] = [this.starts[row], this.starts[row + 1]];
      for (let e = begin; e < end; e += 1) {
        const isColumn = this.columns[e] >= 0 && this.columns[e] < K;
        need(isColumn && (e === begin || this.columns[e] > this.columns[e - 1]), "its columns do not ascend");
        need((this.weights[2 * e] | this.weights[2 * e + 1]) !== 0, "it stores a weight of 0");
      }
      const scale = asBigInt(this.scale, row);
      need(scale > 0n || total === 0n, `the scale of row ${row} is 0`);
      if (sum(this.weights, begin, end) + scale * total !== TOTAL) throw wrongSum(row);
      runningSums(this.weights, begin, end, this.stored, begin);
      this.longest = Math.max(this.longest, end - begin);
    }
    this.shared = new Uint32Array(2 * K);
    runningSums(this.background, 0, K, this.shared, 0);
    this.localFloats = Float64Array.from({ length: M }, (_, e) => asFloat(this.weights, e));
    this.sharedFloats = Float64Array.from({ length: K }, (_, k) => asFloat(this.background, k));
    this.nShared = this.sharedFloats.reduce((count, b) => count + (b > 0 ? 1 : 0), 0);
  }

  compare(i: number, j: number, epsilon: number, distance: number): Compared {
    const { starts, columns, localFloats, sharedFloats } = this;
    const limit = new Limit(epsilon, distance);
    const sure = limit.sure;
    const [scaleI, scaleJ] = [asFloat(this.scale, i), asFloat(this.scale, j)];
    const [endA, endB] = [starts[i + 1], starts[j + 1]];
    let [a, b, nCompared, nShared, isBroken] = [starts[i], starts[j], 0, 0, false];
    while (!isBroken && (a < endA || b < endB)) {
      const columnA = a < endA ? columns[a] : Infinity;
      const columnB = b < endB ? columns[b] : Infinity;
      const k = Math.min(columnA, columnB);
      const common = sharedFloats[k];
      // a product and a sum of positive numbers: three roundings more than a weight itself
      const x = scaleI * common + (columnA === k ? localFloats[a] : 0);
      const y = scaleJ * common + (columnB === k ? localFloats[b] : 0);
      nCompared += 2;
      nShared += common > 0 ? 1 : 0;
      if (!(x <= sure * y && y <= sure * x)) {
        isBroken = limit.isBroken(this.whole(i, k, columnA === k ? a : -1), this.whole(j, k, columnB === k ? b : -1));
      }
      a += columnA === k ? 1 : 0;
      b += columnB === k ? 1 : 0;
    }
    if (!isBroken && nShared < this.nShared) {
      nCompared += 2; // one comparison of the scales stands for all other outputs
      if (!(scaleI <= sure * scaleJ && scaleJ <= sure * scaleI)) {
        isBroken = limit.isBroken(asBigInt(this.scale, i), asBigInt(this.scale, j));
      }
    }
    return { isBroken, nCompared, nExact: limit.nExact };
  }

  /** Both searches are made for every number, and the result is chosen by arithmetic. */
  output(row: number, high: number, low: number): number {
    const { starts, stored, shared, nOutputs: K, longest } = this;
    const [begin, end] = [starts[row], starts[row + 1]];
    // as many sums as the longest row has, wherever the row is: the last rows compare some of others first
    const first = Math.min(begin, this.nStored - longest);
    let reached = 0;
    for (let e = first; e < first + longest; e += 1) {
      const isOwn = (1 - ((e - begin) >>> 31)) & ((e - end) >>> 31);
      reached += isOwn & isAtLeast(high, low, stored[2 * e + 1], stored[2 * e]);
    }
    const own = this.columns[Math.min(begin + reached, this.nStored - 1)] | 0; // of a table that stores nothing: 0
    // what is left for the background: the number less the row's own sum
    const hasOwn = Number(end > begin);
    const [sumLow, sumHigh] = [stored[2 * (end - 1) * hasOwn] * hasOwn, stored[(2 * (end - 1) + 1) * hasOwn] * hasOwn];
    const [ownLow, ownHigh] = [sumLow >>> 0, sumHigh >>> 0]; // an empty table has no sums at all
    const isBeyond = isAtLeast(high, low, ownHigh, ownLow);
    const mask = -isBeyond;
    const borrow = (1 - isAtLeast(0, low, 0, ownLow)) & 1;
    const [restLow, restHigh] = [((low - ownLow) & mask) >>> 0, ((high - ownHigh - borrow) & mask) >>> 0];
    const [scaleLow, scaleHigh] = [this.scale[2 * row], this.scale[2 * row + 1]];
    let found = 0;
    for (let digit = 1 << (31 - Math.clz32(K)); digit > 0; digit >>= 1) {
      const place = found + digit;
      const isWithin = ((place - K - 1) >>> 31) & 1;
      const c = 2 * (place - 1) * isWithin;
      const [cLow, cHigh] = [shared[c], shared[c + 1]];
      // scale times a running sum of the background is at most 2^63: the low 64 bits of the product are all
      const productLow = Math.imul(scaleLow, cLow) >>> 0;
      const cross = Math.imul(scaleLow, cHigh) + Math.imul(scaleHigh, cLow);
      const productHigh = (highProduct(scaleLow, cLow) + cross) >>> 0;
      found += digit * (isWithin & isAtLeast(restHigh, restLow, productHigh, productLow));
    }
    return own + isBeyond * (found - own);
  }

  weight(row: number, output: number): bigint {
    let place = -1;
    for (let e = this.starts[row]; e < this.starts[row + 1]; e += 1) if (this.columns[e] === output) place = e;
    return this.whole(row, output, place);
  }

  private whole(row: number, output: number, place: number): bigint {
    const shared = asBigInt(this.scale, row) * asBigInt(this.background, output);
    return place < 0 ? shared : shared + asBigInt(this.weights, place);
  }
}

/** Return where rows begin, from signed 64-bit whole numbers in two words. */
function startsOf(indptr: Words, n: number, M: number): Int32Array {
  const starts = new Int32Array(n + 1);
  for (let row = 0; row <= n; row += 1) {
    const value = asFloat(indptr, row); // a negative one is beyond 2^63 here
    const isNext = row === 0 ? value === 0 : value >= starts[row - 1] && value <= M;
    need(isNext, "its rows do not follow one another");
    starts[row] = value;
  }
  need(starts[n] === M, "its rows do not end with the last stored weight");
  return starts;
}

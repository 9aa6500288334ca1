/** The graph of neighbours: its components, and lengths of paths. */

import { type Pairs, startsOf } from "./pairs.js";

export class Graph {
  /** The number of each record's component. */
  readonly labels: Int32Array;
  /** How many records each component has. */
  readonly sizes: number[];
  private readonly starts: Int32Array; // both directions of every pair
  private readonly neighbours: Int32Array;
  private readonly lengths: Float64Array;

  constructor(
    readonly n: number,
    readonly pairs: Pairs,
  ) {
    const { first, second, distance } = pairs;
    const ends = new Int32Array(2 * first.length);
    ends.set(first);
    ends.set(second, first.length);
    this.starts = startsOf(ends, n);
    this.neighbours = new Int32Array(ends.length);
    this.lengths = new Float64Array(ends.length);
    const next = this.starts.slice();
    for (let p = 0; p < first.length; p += 1) {
      for (const [i, j] of [[first[p], second[p]], [second[p], first[p]]]) {
        this.neighbours[next[i]] = j;
        this.lengths[next[i]++] = distance[p];
      }
    }
    this.labels = new Int32Array(n).fill(-1);
    this.sizes = [];
    for (let i = 0; i < n; i += 1) if (this.labels[i] < 0) this.sizes.push(this.label(i, this.sizes.length));
  }

  get nComponents(): number {
    return this.sizes.length;
  }

  /** Number of records without any neighbour. */
  get nIsolated(): number {
    return this.sizes.filter((size) => size === 1).length;
  }

  isIsolated(i: number): boolean {
    return this.sizes[this.labels[i]] === 1;
  }

  private label(from: number, label: number): number {
    const waiting = [from];
    this.labels[from] = label;
    let size = 0;
    while (waiting.length) {
      const i = waiting.pop()!;
      size += 1;
      for (let e = this.starts[i]; e < this.starts[i + 1]; e += 1) {
        const j = this.neighbours[e];
        if (this.labels[j] >= 0) continue;
        this.labels[j] = label;
        waiting.push(j);
      }
    }
    return size;
  }

  /** Return the lengths of the shortest paths from record i to all others; infinite where there is none. */
  paths(from: number): Float64Array {
    const found = new Float64Array(this.n).fill(Infinity);
    const waiting = [from]; // grows while it is read: a record comes again where a shorter path to it is found
    found[from] = 0;
    for (const i of waiting) {
      for (let e = this.starts[i]; e < this.starts[i + 1]; e += 1) {
        const j = this.neighbours[e];
        const total = found[i] + this.lengths[e];
        if (total >= found[j]) continue;
        found[j] = total;
        waiting.push(j);
      }
    }
    return found;
  }
}

/** The promise for points that are replaced by their nearest record first. */

import { type Contents, OF_POINTS } from "./contents.js";
import { InputError } from "./errors.js";
import type { Graph } from "./graph.js";
import { forEachNear, measureOf } from "./pairs.js";

const ROUNDING = 1e-9; // relative; far above the error of distances and their sums
const SLACK_KM = 1e-8;

/**
 * For points x and x' within r of one another, both at most `limit` from a record:
 * Pr[report | x] <= exp(bound(r)) Pr[report | x'].
 *
 * The records of two such points are at most r + 2 limit apart, and bound(r) is the largest epsilon times the longest path between
 * any records that near. It does not go to 0 with r: two points on both sides of a border have different records. The
 * Python library looks at the cells of the records too, so its bound can be smaller, and it may accept where this refuses.
 */
export class PointPromise {
  /** Why nearby points are not protected; empty if they are. */
  readonly fault: string;
  private readonly known = new Map<number, number>();

  /** @internal */
  constructor(
    private readonly contents: Contents,
    private readonly graph: Graph,
    readonly limit: number,
  ) {
    if (!OF_POINTS.includes(contents.metric)) {
      throw new InputError("points cannot be snapped by this file's metric: name records by their ids");
    }
    if (!(typeof limit === "number" && limit > 0 && limit < Infinity)) {
      throw new InputError("the snap limit must be a positive number: give the farthest distance at which to snap");
    }
    this.fault = this.found();
  }

  /** Refuse if nearby points are not protected, whatever the points are: the refusal reveals nothing. */
  check(): void {
    if (!this.fault) return;
    throw new InputError(
      `points within ${this.limit} of the records are not protected: ${this.fault}; use a file with a larger eta, ` +
        "a smaller limit, or allow unprotected reports",
    );
  }

  /** Return the largest logarithm of a ratio of two points' probabilities, for points within `r`, rounded up. */
  bound(r: number): number {
    if (!(r >= 0 && r < Infinity)) throw new InputError("a distance must be a number, zero or more");
    if (this.fault) return Infinity;
    if (!this.known.has(r)) this.known.set(r, this.longest(this.widened(r)) * (1 + ROUNDING));
    return this.contents.epsilon * this.known.get(r)!;
  }

  private widened(r: number): number {
    const { points, dimension, metric } = this.contents;
    const most = points.reduce((largest, value) => Math.max(largest, Math.abs(value)), 0);
    return (r + 2 * this.limit) * (1 + ROUNDING) + (metric === "haversine" ? SLACK_KM : 1e-12 * most * dimension);
  }

  private found(): string {
    const { graph } = this;
    if (graph.nIsolated) {
      return `${graph.nIsolated} of ${graph.n} records have no neighbour, so a report may reveal a point near one`;
    }
    if (graph.nComponents === 1) return "";
    const apart = new Error();
    try {
      forEachNear(measureOf(this.contents), this.widened(this.limit), (i, j, below) => {
        if (graph.labels[i] !== graph.labels[j] && below <= this.widened(this.limit)) throw apart;
      });
    } catch (error) {
      if (error !== apart) throw error;
      return `points within ${this.limit} of one another can belong to records that no path of neighbours joins`;
    }
    return "";
  }

  /** Return the length of the longest path between records that are at most `near` apart. */
  private longest(near: number): number {
    const ends = new Map<number, number[]>(); // pairs that are no neighbours
    let longest = 0;
    forEachNear(measureOf(this.contents), near, (i, j, below) => {
      if (!(below <= near) || this.graph.labels[i] !== this.graph.labels[j]) return;
      // within eta they are neighbours, and no path is longer than the pair itself
      if (below <= this.contents.eta * (1 - ROUNDING)) longest = Math.max(longest, below);
      else if (ends.has(i)) ends.get(i)!.push(j);
      else ends.set(i, [j]);
    });
    for (const [i, others] of ends) {
      const paths = this.graph.paths(i);
      for (const j of others) longest = Math.max(longest, paths[j]);
    }
    return longest;
  }
}

/** A box, its lattice and its projection: src/metricdp/data/region.py is the same in Python, docs/plane.md has the proofs. */

import { type Kind, hexFloat } from "./contents.js";
import { EARTH_RADIUS_KM, RADIANS, rint, units } from "./distances.js";
import { need } from "./errors.js";
import { parseJson } from "./json.js";

type Pair = readonly [number, number];

const SUB_BITS = 31; // a cell is divided into 2^31 steps each way
const MOST_CELLS = 1 << 14; // each way
const LIMITS = [80, 180]; // degrees
const MOST_WIDTH = 30; // degrees
const COSINE_ROUNDING = 2 ** -40; // relative; far above the error of tangents and cosines below 80 degrees
const COSINE_STEPS = 2 ** 32; // a cosine is a whole number of them, so that all machines and languages check with the same one
const WEIGHT_BITS = 64n;
const FLOAT_BITS = 1074n; // a float is a whole number of 2^-1074
const WAYS = [0, 1] as const;

export class Region {
  readonly low: Pair;
  readonly high: Pair;
  /** The box of all points that may be moved to the border. */
  readonly outer: readonly [Pair, Pair];
  readonly cells: Pair;

  constructor(
    metadata: Map<string, string>,
    readonly kind: Kind,
  ) {
    const pair = (key: string): Pair => {
      const found = parseJson(metadata.get(key)!);
      need(Array.isArray(found) && found.length === 2 && found.every((text) => typeof text === "string"), `${key} is no pair`);
      return found.map((text) => (text === "-inf" ? -Infinity : hexFloat(text as string))) as unknown as Pair;
    };
    [this.low, this.high, this.outer] = [pair("low"), pair("high"), [pair("outer_low"), pair("outer_high")]];
    const cells = parseJson(metadata.get("cells")!);
    const isCount = (n: unknown): boolean => Number.isInteger(n) && (n as number) >= 1 && (n as number) <= MOST_CELLS;
    need(Array.isArray(cells) && cells.length === 2 && cells.every(isCount), "its cells are not two numbers");
    this.cells = cells as unknown as Pair;
    for (const way of WAYS) this.check(way);
    need(!this.arePlaces || this.outer[1][1] - this.outer[0][1] <= MOST_WIDTH, "its region is too wide");
  }

  private check(way: 0 | 1): void {
    const [low, high, below, above] = [this.low[way], this.high[way], this.outer[0][way], this.outer[1][way]];
    need(Number.isFinite(low) && Number.isFinite(high) && low < high, "its region has no low and high ends");
    need(below <= low && high <= above, "what lies around its region does not contain it");
    const side = (high - low) / this.cells[way];
    const reach = Math.max(-below, side - low, above, high + side);
    need(!this.arePlaces || reach < LIMITS[way], "its region reaches too far");
    need(Number.isFinite(high + (high - low)) && Number.isFinite(low - (high - low)), "its region is near the largest floats");
  }

  private get arePlaces(): boolean {
    return this.kind === "places";
  }

  get metric(): string {
    return this.arePlaces ? "haversine" : "euclidean";
  }

  /** The number of nodes each way, with the ring outside. */
  get nodes(): Pair {
    return [this.cells[0] + 2, this.cells[1] + 2];
  }

  /** A coordinate of a node. */
  axis(way: 0 | 1, i: number): number {
    return this.low[way] + (i - 0.5) * ((this.high[way] - this.low[way]) / this.cells[way]);
  }

  /** The scale of longitudes, rounded down: no great circle between points around here has a smaller cosine. */
  private get cosine(): number {
    if (!this.arePlaces) return 1;
    const [[south, west], [north, east]] = this.outer;
    const steepest = Math.tan(Math.max(Math.abs(south), Math.abs(north)) * RADIANS);
    const half = Math.cos(((east - west) * RADIANS) / 2);
    return Math.floor(((1 - COSINE_ROUNDING) / Math.hypot(1, steepest / half)) * COSINE_STEPS) / COSINE_STEPS;
  }

  /** How far a point is moved at most when it is rounded to a step of its cell. */
  get rounding(): number {
    const unit = this.arePlaces ? EARTH_RADIUS_KM * RADIANS : 1;
    const [a, b] = WAYS.map((way) => ((this.high[way] - this.low[way]) / this.cells[way]) * unit);
    return (Math.hypot(a, b * this.cosine) / 2 ** SUB_BITS) * (1 + 1e-8);
  }

  /** Return 2^64 / (epsilon side)² for both sides of a cell, rounded up: sides are exact, or rounded down. */
  weights(epsilon: number): [bigint, bigint] {
    // kilometres of a degree: 6371.0088 times a pi that is rounded down, over 180
    const [top, bottom] = this.arePlaces ? [63710088n * units(Math.PI), 1800000n << FLOAT_BITS] : [1n, 1n];
    const [first, second] = WAYS.map((way) => {
      const cosine = way ? units(this.cosine) : 1n << FLOAT_BITS;
      const above = units(epsilon) * (units(this.high[way]) - units(this.low[way])) * top * cosine;
      const below = (BigInt(this.cells[way]) * bottom) << (3n * FLOAT_BITS);
      const square = above * above;
      return ((below * below << WEIGHT_BITS) + square - 1n) / square;
    });
    return [first, second];
  }

  /** Whether a point is outside the box; or too far outside to be moved to its border. */
  isOutside(point: Pair, [low, high]: readonly [Pair, Pair] = [this.low, this.high]): boolean {
    // every comparison is made, wherever the point is
    return WAYS.reduce<number>((found, way) => found | Number(!(point[way] >= low[way])) | Number(!(point[way] <= high[way])), 0) > 0;
  }

  /** Return the cell of a point each way, and the steps of 2^-31 inside; points outside move to the border. */
  place(point: Pair, way: 0 | 1): [cell: number, after: number] {
    const share = Math.min(Math.max((point[way] - this.low[way]) / (this.high[way] - this.low[way]), 0), 1);
    const steps = rint(share * this.cells[way] * 2 ** SUB_BITS);
    const cell = Math.min(Math.floor(steps / 2 ** SUB_BITS), this.cells[way] - 1);
    return [cell, steps - cell * 2 ** SUB_BITS];
  }
}

/** Return whether the inequality of docs/plane.md holds, for coefficients and weights as whole numbers. */
export function holds(u: bigint, across: bigint, along: bigint, [w, v]: readonly [bigint, bigint]): boolean {
  return w * across * across + v * along * along <= (u * u) << WEIGHT_BITS;
}

/** A box, its lattice and its projection: src/metricdp/data/region.py is the same in Python, docs/plane.md has the proofs. */
import { type Kind } from "./contents.js";
type Pair = readonly [number, number];
export declare class Region {
    readonly kind: Kind;
    readonly low: Pair;
    readonly high: Pair;
    /** The box of all points that may be moved to the border. */
    readonly outer: readonly [Pair, Pair];
    readonly cells: Pair;
    constructor(metadata: Map<string, string>, kind: Kind);
    private check;
    private get arePlaces();
    get metric(): string;
    /** The number of nodes each way, with the ring outside. */
    get nodes(): Pair;
    /** A coordinate of a node. */
    axis(way: 0 | 1, i: number): number;
    /** The scale of longitudes, rounded down: no great circle between points around here has a smaller cosine. */
    private get cosine();
    /** How far a point is moved at most when it is rounded to a step of its cell. */
    get rounding(): number;
    /** Return 2^64 / (epsilon side)² for both sides of a cell, rounded up: sides are exact, or rounded down. */
    weights(epsilon: number): [bigint, bigint];
    /** Whether a point is outside the box; or too far outside to be moved to its border. */
    isOutside(point: Pair, [low, high]?: readonly [Pair, Pair]): boolean;
    /** Return the cell of a point each way, and the steps of 2^-31 inside; points outside move to the border. */
    place(point: Pair, way: 0 | 1): [cell: number, after: number];
}
/** Return whether the inequality of docs/plane.md holds, for coefficients and weights as whole numbers. */
export declare function holds(u: bigint, across: bigint, along: bigint, [w, v]: readonly [bigint, bigint]): boolean;
export {};

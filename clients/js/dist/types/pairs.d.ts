/** The neighbour pairs: those of a file, checked from the coordinates, or made again from these. */
import type { Parts } from "./container.js";
import { type Contents } from "./contents.js";
import { Measure } from "./distances.js";
/** Pairs i < j and their distances, sorted. */
export interface Pairs {
    first: Int32Array;
    second: Int32Array;
    distance: Float64Array;
}
/** Return the pairs at which a table has to be private; `nStored` weights say how many a file may leave out. */
export declare function pairsOf(parts: Parts, contents: Contents, nStored: number, margin: number): Pairs;
/** Return where the pairs of each first record begin. */
export declare function startsOf(first: Int32Array, n: number): Int32Array;
export declare function measureOf(contents: Contents, margin?: number): Measure;
/** Call `visit` for all pairs i < j that may be within `reach` (and some more), with a distance not above the true one. */
export declare function forEachNear(measure: Measure, reach: number, visit: (i: number, j: number, below: number) => void): void;

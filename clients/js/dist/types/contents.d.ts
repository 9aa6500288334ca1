/** What a file says about its records and its claims, checked; privacy itself is for certify.ts. */
import type { Parts } from "./container.js";
export type Kind = "places" | "vectors";
export interface Contents {
    name: string;
    kind: Kind;
    metric: string;
    /** The largest epsilon. */
    epsilon: number;
    /** The epsilon of each record; null where it is one for all. */
    epsilons: Float64Array | null;
    eta: number;
    ids: readonly string[];
    dimension: number;
    /** Coordinates of the records, row by row. */
    points: Float64Array;
    /** The record that each output is; null where outputs are other points. */
    outputRows: Int32Array | null;
    /** Coordinates of the outputs, row by row. */
    outputPoints: Float64Array;
}
/** The metrics whose pairs follow from the coordinates: those of points, and those of directions. */
export declare const OF_POINTS: string[];
export declare const OF_DIRECTIONS: string[];
export declare const MEASURED: string[];
export declare function contentsOf(parts: Parts): Contents;
/** Return a float that is written as Python's float.hex does; refuse other notations. */
export declare function hexFloat(text: string): number;
/** Return a tensor of floats; its bytes are in memory of their own, so they are aligned. */
export declare function floats(parts: Parts, name: string): Float64Array;
/** Return a tensor of whole numbers of 32 bits. */
export declare function integers(parts: Parts, name: string): Int32Array;
export declare function checkBounds(metadata: Map<string, string>): void;
export declare function checkPoints(points: Float64Array, dimension: number, kind: string): void;

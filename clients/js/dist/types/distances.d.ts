/** Distances that are certainly not above the true ones: section "Pairs" of docs/file-format.md. */
export declare const EARTH_RADIUS_KM = 6371.0088;
export declare const RADIANS: number;
/** Multiples of the error bound by which distances are rounded down: a writer's, and the least that a reader may take. */
export declare const STORED_MARGIN: number, CHECKED_MARGIN: number;
/** A metric of coordinates over some points, row by row. */
export declare class Measure {
    readonly metric: string;
    readonly points: Float64Array;
    readonly dimension: number;
    private readonly margin;
    /** A bound on the relative error of `between`, with sines and arcsines good to 4 units in the last place. */
    readonly rounding: number;
    /** A bound on its absolute error, of directions. */
    readonly error: number;
    /** Unit vectors, for metrics of directions; otherwise the points themselves. */
    readonly places: Float64Array;
    private readonly power;
    constructor(metric: string, points: Float64Array, dimension: number, margin: number);
    /** Return the float distance of records i and j; or of record i and that of other `places`. */
    between(i: number, j: number, others?: Float64Array<ArrayBufferLike>): number;
    /** Return a distance of records i and j that is not above the true one; the true one where whole numbers prove it. */
    below(i: number, j: number, distance?: number): number;
    /** Return whether exact arithmetic shows that records i and j are farther apart than `eta`. */
    isFarther(i: number, j: number, eta: number): boolean;
    /** Return a distance that comes out even: whole numbers of its 26th bit, with exact sums of powers. */
    private even;
}
/** Return the nearest whole number, the even one of two. */
export declare function rint(value: number): number;
/** Return a float as a whole number of the smallest float, 2^-1074. */
export declare function units(value: number): bigint;

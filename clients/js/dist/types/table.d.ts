/** The tables of both formats: sums, comparisons of two rows, and the output that a number stands for. */
import type { Parts } from "./container.js";
import { type Words } from "./words.js";
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
export declare function tableOf(parts: Parts): Table;
export declare class DenseTable implements Table {
    readonly nRecords: number;
    readonly nOutputs: number;
    readonly nStored = 0;
    readonly table: Words;
    readonly floats: Float64Array;
    private readonly steps;
    constructor(parts: Parts);
    compare(i: number, j: number, epsilon: number, distance: number): Compared;
    output(row: number, high: number, low: number): number;
    weight(row: number, output: number): bigint;
}
export declare class SparseTable implements Table {
    readonly nRecords: number;
    readonly nOutputs: number;
    readonly nStored: number;
    private readonly starts;
    private readonly columns;
    private readonly weights;
    private readonly background;
    private readonly scale;
    private readonly nShared;
    private readonly stored;
    private readonly shared;
    private readonly longest;
    private readonly localFloats;
    private readonly sharedFloats;
    constructor(parts: Parts);
    compare(i: number, j: number, epsilon: number, distance: number): Compared;
    /** Both searches are made for every number, and the result is chosen by arithmetic. */
    output(row: number, high: number, low: number): number;
    weight(row: number, output: number): bigint;
    private whole;
}

/** The graph of neighbours: its components, and lengths of paths. */
import { type Pairs } from "./pairs.js";
export declare class Graph {
    readonly n: number;
    readonly pairs: Pairs;
    /** The number of each record's component. */
    readonly labels: Int32Array;
    /** How many records each component has. */
    readonly sizes: number[];
    private readonly starts;
    private readonly neighbours;
    private readonly lengths;
    constructor(n: number, pairs: Pairs);
    get nComponents(): number;
    /** Number of records without any neighbour. */
    get nIsolated(): number;
    isIsolated(i: number): boolean;
    private label;
    /** Return the lengths of the shortest paths from record i to all others; infinite where there is none. */
    paths(from: number): Float64Array;
}

/** Read, verify and draw from the mechanisms of regions: files of the format metricdp-3. */
import { type Requirement } from "./requirement.js";
export type { Requirement } from "./requirement.js";
export { CertificationError, FileFormatError, InputError, MetricDPError, RandomnessError } from "./errors.js";
/** What has been proved about a file. */
export interface PlaneCertificate {
    readonly epsilon: number;
    readonly metric: string;
    readonly nodes: number;
    readonly outputs: number;
    /** Inequalities, and how many of them whole numbers decided; floats with a guard cleared the others. */
    readonly compared: number;
    readonly decidedExactly: number;
    /** How far coordinates are moved before: the promise is exact for rounded points. */
    readonly rounding: number;
    /** SHA-256 of everything in the file: pin it where a file comes from a server. */
    readonly fingerprint: string;
    /** The promise in one sentence. */
    readonly promise: string;
}
/** A report: all of it may be published. */
export interface PlaneReport {
    readonly output: number;
    /** The output's own name, or the node that it is, such as "r3c7", or "output 7" for other points. */
    readonly id: string;
    readonly coordinates: readonly number[];
}
export interface PlaneOptions {
    /** Refuse points outside the region (so by default), or move them to its border as far as its margin reaches. */
    outside?: "refuse" | "border";
}
type Pair = readonly [number, number];
/** Read the mechanism of a region, check its sizes and hashes, and prove its privacy at every point; refuse any other. */
export declare function load(file: Uint8Array | ArrayBuffer, require?: Requirement): PlaneMechanism;
export declare class PlaneMechanism {
    /** What was proved when the file was loaded. */
    readonly certificate: PlaneCertificate;
    private readonly region;
    private readonly table;
    private readonly epsilon;
    private readonly outputRows;
    private readonly outputPoints;
    private readonly outputNames;
    /** Prove again that the table is private at every point of the region; throw if it is not. */
    certify(): PlaneCertificate;
    /** Coordinates of an output. */
    outputAt(output: number): number[];
    /**
     * Draw a report for a point: latitude and longitude, or the two coordinates of vectors. Each call spends the budget again.
     *
     * A point outside the region is refused after the same work; that it was refused is visible.
     */
    perturbPoint(first: number, second: number, { outside }?: PlaneOptions): PlaneReport;
    /** Return the output that three whole numbers below 2^63 stand for at a point: for tests against others. Not a draw. */
    outputOf(point: Pair, numbers: readonly bigint[]): number;
    /** Draw the node each way by a number, then the output by its row. */
    private drawn;
    /** With t steps of T = 2^31 inside the cell, nodes have the weights (T - t)², the rest, and t², of 2^63: no branch. */
    private node;
    private report;
    private checked;
    private nodesAt;
    /** The check of docs/plane.md: |grad u| <= epsilon u at the coefficients of every cell, four times their value here. */
    private certified;
    private holdsAt;
    private sentence;
}

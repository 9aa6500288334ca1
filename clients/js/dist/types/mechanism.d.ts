/** A mechanism: a file that has been proved to hold what it claims, and draws from it. */
import { PointPromise } from "./points.js";
import { type Requirement } from "./requirement.js";
/** What has been proved about a file. */
export interface Certificate {
    /** The largest epsilon of any pair. */
    readonly epsilon: number;
    /** The smallest epsilon of any record: another than `epsilon` where records have their own. */
    readonly smallestEpsilon: number;
    readonly eta: number;
    readonly metric: string;
    readonly records: number;
    readonly outputs: number;
    readonly pairs: number;
    /** Groups of records that no path of neighbours joins: they are not protected from one another. */
    readonly components: number;
    /** Records without any neighbour: they are not protected at all. */
    readonly isolated: number;
    /** Whether the list of pairs follows from the coordinates; otherwise a missing pair cannot be detected. */
    readonly isRecomputed: boolean;
    /** Comparisons of weights, and how many of them whole numbers decided; floats with a guard cleared the others. */
    readonly compared: number;
    readonly decidedExactly: number;
    /** SHA-256 of everything in the file: pin it where a file comes from a server. */
    readonly fingerprint: string;
    /** The promise in one sentence. */
    readonly promise: string;
}
/** A report: all of it may be published. */
export interface Report {
    /** The output's number. */
    readonly output: number;
    /** The name of the record that the output is, or "output 7" for other points. */
    readonly id: string;
    /** The output's coordinates; latitude and longitude for places. */
    readonly coordinates: readonly number[];
}
export interface DrawOptions {
    /** Draw also for records that no promise covers. */
    allowUnprotected?: boolean;
}
export interface PointOptions extends DrawOptions {
    /** The farthest distance from a record, in the metric's unit (km for places). Farther points are refused. */
    limit: number;
}
/**
 * Read a mechanism file, check its sizes and hashes, and prove its privacy; refuse any other.
 *
 * Load the whole file, or a public part of it that was chosen without the secret. Never ask a server for one record's row:
 * the question reveals the record.
 */
export declare function load(file: Uint8Array | ArrayBuffer, require?: Requirement): Mechanism;
export declare class Mechanism {
    private readonly contents;
    private readonly table;
    private readonly graph;
    private readonly fingerprint;
    /** What was proved when the file was loaded. */
    readonly certificate: Certificate;
    private readonly rowOf;
    private readonly promises;
    get name(): string;
    /** The records' ids. */
    get ids(): readonly string[];
    /** Coordinates of the record in a row. */
    recordAt(row: number): number[];
    /** Coordinates of an output. */
    outputAt(output: number): number[];
    /** The weight of an output for the record in a row; its probability is that over 2^63. */
    weight(row: number, output: number): bigint;
    /** Prove again that the table is private at every pair, every output, both ways; throw if it is not. */
    certify(): Certificate;
    /** Draw a report for a record. Each call spends the budget again. */
    perturb(id: string, options?: DrawOptions): Report;
    /** Draw a report for each record; if any is unknown or not protected, all are refused, and no id is named. */
    perturbMany(ids: readonly string[], options?: DrawOptions): Report[];
    /** The promise for points that are replaced by their nearest record, at most `limit` away. */
    forPoints(limit: number): PointPromise;
    /**
     * Draw a report for a point (latitude and longitude, for places), replaced by its nearest record first.
     *
     * Refused wherever points close together are not protected from one another: see `forPoints`. A point farther than
     * `limit` from every record is refused after the same work; that it was refused is visible.
     */
    perturbPoint(...given: [...coordinates: number[], options: PointOptions]): Report;
    /** Return the output that a whole number below 2^63 stands for, for tests against other implementations. Not a draw. */
    outputOf(row: number, number: bigint): number;
    private drawn;
    private report;
    private checkedPoint;
    private slice;
    private sentence;
}

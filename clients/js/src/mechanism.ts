/** A mechanism: a file that has been proved to hold what it claims, and draws from it. */

import { readParts } from "./container.js";
import { type Contents, MEASURED, contentsOf } from "./contents.js";
import { CHECKED_MARGIN, STORED_MARGIN } from "./distances.js";
import { CertificationError, FileFormatError, InputError, MetricDPError } from "./errors.js";
import { Graph } from "./graph.js";
import { layoutOf } from "./layout.js";
import { measureOf, pairsOf } from "./pairs.js";
import { PointPromise } from "./points.js";
import { systemNumbers } from "./random.js";
import { type Requirement, unmet } from "./requirement.js";
import { type Table, tableOf } from "./table.js";

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
export function load(file: Uint8Array | ArrayBuffer, require: Requirement = {}): Mechanism {
  const bytes = file instanceof ArrayBuffer ? new Uint8Array(file) : file;
  if (!(bytes instanceof Uint8Array)) throw new InputError("a file must be given as bytes");
  let mechanism: Mechanism;
  try {
    const parts = readParts(bytes, layoutOf);
    const contents = contentsOf(parts);
    const table = tableOf(parts);
    const made = (margin: number): Mechanism => {
      const graph = new Graph(contents.ids.length, pairsOf(parts, contents, table.nStored, margin));
      return new Mechanism(contents, table, graph, parts.metadata.get("metadata_sha256")!);
    };
    try {
      mechanism = made(STORED_MARGIN);
    } catch (error) {
      // a machine whose distances came out longer by a last digit may have made the file
      if (!(error instanceof CertificationError) || parts.tensors.has("pairs")) throw error;
      mechanism = made(CHECKED_MARGIN);
    }
  } catch (error) {
    if (error instanceof MetricDPError) throw error;
    throw new FileFormatError("the file cannot be read: it is damaged, or there is not enough memory");
  }
  const { epsilon, eta, metric, fingerprint } = mechanism.certificate;
  const fault = unmet(require, epsilon, eta, metric, fingerprint);
  if (fault) throw new CertificationError(`the file does not meet the requirement: ${fault}`);
  return mechanism;
}

export class Mechanism {
  /** What was proved when the file was loaded. */
  readonly certificate: Certificate;
  private readonly rowOf: Map<string, number>;
  private readonly promises = new Map<number, PointPromise>();

  /** @internal */
  constructor(
    private readonly contents: Contents,
    private readonly table: Table,
    private readonly graph: Graph,
    private readonly fingerprint: string,
  ) {
    this.rowOf = new Map(contents.ids.map((id, row) => [id, row]));
    this.certificate = this.certify();
  }

  get name(): string {
    return this.contents.name;
  }

  /** The records' ids. */
  get ids(): readonly string[] {
    return this.contents.ids;
  }

  /** Coordinates of the record in a row. */
  recordAt(row: number): number[] {
    return this.slice(this.contents.points, row, this.contents.ids.length);
  }

  /** Coordinates of an output. */
  outputAt(output: number): number[] {
    return this.slice(this.contents.outputPoints, output, this.table.nOutputs);
  }

  /** The weight of an output for the record in a row; its probability is that over 2^63. */
  weight(row: number, output: number): bigint {
    this.recordAt(row); // refuses rows and outputs that there are not
    this.outputAt(output);
    return this.table.weight(row, output);
  }

  /** Prove again that the table is private at every pair, every output, both ways; throw if it is not. */
  certify(): Certificate {
    const { epsilon, epsilons, eta, metric } = this.contents;
    const smallestEpsilon = epsilons ? epsilons.reduce((a, b) => Math.min(a, b)) : epsilon;
    const { first, second, distance } = this.graph.pairs;
    let [compared, decidedExactly] = [0, 0];
    for (let p = 0; p < first.length; p += 1) {
      const [i, j] = [first[p], second[p]];
      const budget = epsilons ? Math.min(epsilons[i], epsilons[j]) : epsilon; // of the two promises the stricter one
      const found = this.table.compare(i, j, budget, distance[p]);
      compared += found.nCompared;
      decidedExactly += found.nExact;
      if (found.isBroken) {
        throw new CertificationError(
          `the table is not ${budget}-mDP: records ${i} and ${j} at distance ${distance[p]} differ by more`,
        );
      }
    }
    return Object.freeze({
      ...{ epsilon, smallestEpsilon, eta, metric, records: this.graph.n, outputs: this.table.nOutputs, pairs: first.length },
      ...{ components: this.graph.nComponents, isolated: this.graph.nIsolated, isRecomputed: MEASURED.includes(metric) },
      ...{ compared, decidedExactly, fingerprint: this.fingerprint, promise: this.sentence(smallestEpsilon) },
    });
  }

  /** Draw a report for a record. Each call spends the budget again. */
  perturb(id: string, options: DrawOptions = {}): Report {
    return this.perturbMany([id], options)[0];
  }

  /** Draw a report for each record; if any is unknown or not protected, all are refused, and no id is named. */
  perturbMany(ids: readonly string[], options: DrawOptions = {}): Report[] {
    const rows = ids.map((id, place) => {
      const row = this.rowOf.get(id);
      if (row === undefined) throw new InputError(`id ${place + 1} of ${ids.length} is not a record of this mechanism`);
      return row;
    });
    const reports = this.drawn(rows);
    if (options.allowUnprotected !== true && rows.some((row) => this.graph.isIsolated(row))) {
      throw new InputError(
        "a record without any neighbour within eta is not protected, so nothing is reported: use a file with a larger " +
          "eta, or allow unprotected reports",
      );
    }
    return reports;
  }

  /** The promise for points that are replaced by their nearest record, at most `limit` away. */
  forPoints(limit: number): PointPromise {
    if (!this.promises.has(limit)) this.promises.set(limit, new PointPromise(this.contents, this.graph, limit));
    return this.promises.get(limit)!;
  }

  /**
   * Draw a report for a point (latitude and longitude, for places), replaced by its nearest record first.
   *
   * Refused wherever points close together are not protected from one another: see `forPoints`. A point farther than
   * `limit` from every record is refused after the same work; that it was refused is visible.
   */
  perturbPoint(...given: [...coordinates: number[], options: PointOptions]): Report {
    const options = given[given.length - 1] as PointOptions;
    if (typeof options !== "object" || options === null || options.limit === undefined) {
      throw new InputError("give the farthest distance at which to snap, after the coordinates: { limit: 0.5 }");
    }
    const promise = this.forPoints(options.limit);
    if (options.allowUnprotected !== true) promise.check();
    const point = this.checkedPoint(given.slice(0, -1) as number[]);
    const measure = measureOf(this.contents);
    let [row, least] = [0, Infinity];
    for (let i = 0; i < this.graph.n; i += 1) {
      const distance = measure.between(i, 0, point);
      const isNearer = Number(distance < least);
      row += isNearer * (i - row);
      least = Math.min(least, distance);
    }
    const [report] = this.drawn([row]); // before the limit is looked at: refusing takes as long as reporting
    if (!(least <= options.limit)) throw new InputError("the point is farther from every record than the limit: nothing is reported");
    return report;
  }

  /** Return the output that a whole number below 2^63 stands for, for tests against other implementations. Not a draw. */
  outputOf(row: number, number: bigint): number {
    this.recordAt(row); // refuses rows that there are not
    if (typeof number !== "bigint" || number < 0n || number >> 63n) throw new InputError("the number must be below 2^63");
    return this.table.output(row, Number(number >> 32n), Number(number & 0xffffffffn));
  }

  private drawn(rows: readonly number[]): Report[] {
    const numbers = systemNumbers(rows.length);
    return rows.map((row, place) => this.report(this.table.output(row, ...numbers[place])));
  }

  private report(output: number): Report {
    const rows = this.contents.outputRows;
    const id = rows === null ? `output ${output}` : this.contents.ids[rows[output]];
    return { output, id, coordinates: this.outputAt(output) };
  }

  private checkedPoint(coordinates: number[]): Float64Array {
    const { dimension, kind } = this.contents;
    const isPoint = coordinates.length === dimension && coordinates.every((v) => typeof v === "number" && Number.isFinite(v));
    const isInside = kind !== "places" || (Math.abs(coordinates[0]) <= 90 && Math.abs(coordinates[1]) <= 180);
    if (!isPoint || !isInside) {
      const range = kind === "places" ? " (latitude from -90 to 90, longitude from -180 to 180)" : "";
      throw new InputError(`a point must be ${dimension} finite numbers${range}`); // names no point
    }
    return Float64Array.from(coordinates);
  }

  private slice(points: Float64Array, place: number, n: number): number[] {
    if (!(Number.isInteger(place) && place >= 0 && place < n)) throw new InputError(`there are only 0 to ${n - 1}`);
    const D = this.contents.dimension;
    return [...points.subarray(place * D, (place + 1) * D)];
  }

  private sentence(smallest: number): string {
    const { epsilon, eta, metric } = this.contents;
    const { graph } = this;
    if (graph.pairs.first.length === 0) return "NOTHING is protected: no record has a neighbour within eta.";
    const unit = metric === "haversine" || metric === "street" ? "km" : "unit of distance";
    const reach = unit === "km" ? `${eta} km` : `${eta}`;
    const rest = [];
    if (graph.nComponents > 1) rest.push(`the ${graph.nComponents} groups that no path joins are not protected from one another`);
    if (graph.nIsolated) rest.push(`${graph.nIsolated} records without any neighbour are not protected at all`);
    const but = rest.length ? `; but ${rest.join(", and ")}` : "";
    const hasOwn = smallest < epsilon;
    const isComplete = hasOwn && graph.pairs.first.length === (graph.n * (graph.n - 1)) / 2; // no promise needs a path
    const along = isComplete ? "" : ` along neighbours within ${reach}`;
    const step = hasOwn ? `, with e the smaller of their own epsilons${isComplete ? "" : " at each step"}` : "";
    const range = hasOwn ? `; e from ${smallest} to ${epsilon}` : "";
    return (
      `Any report is at most exp(${hasOwn ? "e" : epsilon} d) times more likely from one than from the other of two of these ` +
      `${graph.n} records at distance d${along}${step} (${metric}, d in ${unit}${range})${but}.`
    );
  }
}

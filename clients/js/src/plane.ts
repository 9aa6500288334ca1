/** Read, verify and draw from the mechanisms of regions: files of the format metricdp-3. */

import { type Parts, readParts } from "./container.js";
import { type Kind, checkBounds, checkPoints, floats, hexFloat, integers } from "./contents.js";
import { CertificationError, FileFormatError, InputError, MetricDPError, need, short } from "./errors.js";
import { type Layout, type Shapes, checkNames } from "./layout.js";
import { parseJson } from "./json.js";
import { systemNumbers } from "./random.js";
import { Region, holds } from "./region.js";
import { type Requirement, unmet } from "./requirement.js";
import { DenseTable } from "./table.js";
import { asBigInt, highProduct, isAtLeast } from "./words.js";

export type { Requirement } from "./requirement.js";
export { CertificationError, FileFormatError, InputError, MetricDPError, RandomnessError } from "./errors.js";

const METADATA = "format domain weights kind epsilon low high outer_low outer_high cells solver created sha256 metadata_sha256";
// sums take at most 8 roundings, each 2^-53 of the sum of absolute values; squares and products by weights a few more
const SUM_GUARD = 2 ** -48;
const PRODUCT_GUARD = 2 ** -46;

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
export function load(file: Uint8Array | ArrayBuffer, require: Requirement = {}): PlaneMechanism {
  const bytes = file instanceof ArrayBuffer ? new Uint8Array(file) : file;
  if (!(bytes instanceof Uint8Array)) throw new InputError("a file must be given as bytes");
  let mechanism: PlaneMechanism;
  try {
    mechanism = new PlaneMechanism(readParts(bytes, layoutOf));
  } catch (error) {
    if (error instanceof MetricDPError) throw error;
    throw new FileFormatError("the file cannot be read: it is damaged, or there is not enough memory");
  }
  const { epsilon, metric, fingerprint } = mechanism.certificate;
  const fault = unmet(require, epsilon, NaN, metric, fingerprint);
  if (fault) throw new CertificationError(`the file does not meet the requirement: ${fault}`);
  return mechanism;
}

function layoutOf(metadata: Map<string, string>): Layout {
  const format = metadata.get("format") ?? "";
  if (format !== "metricdp-3") {
    throw new FileFormatError(`not the mechanism of a region: its format is ${short(JSON.stringify(format))}`);
  }
  checkNames([...metadata.keys()], METADATA.split(" "), ["loss", "lower_bound", "output_names"]);
  need(metadata.get("domain") === "plane" && metadata.get("weights") === "bspline2", "or of a later version: unknown weights");
  return { required: ["table", "outputs"], optional: [], kinds: "table:U64/2 outputs:I32/1,F64/2", fits };
}

function fits(shapes: Shapes): boolean {
  const [[n, K], outputs] = [shapes.get("table")!, shapes.get("outputs")!];
  return n > 0 && K > 0 && outputs[0] === K && (outputs.length === 1 || outputs[1] === 2);
}

export class PlaneMechanism {
  /** What was proved when the file was loaded. */
  readonly certificate: PlaneCertificate;
  private readonly region: Region;
  private readonly table: DenseTable;
  private readonly epsilon: number;
  private readonly outputRows: Int32Array | null;
  private readonly outputPoints: Float64Array;
  private readonly outputNames: readonly string[] | null;

  /** @internal */
  constructor(parts: Parts) {
    const { metadata, tensors } = parts;
    this.epsilon = hexFloat(metadata.get("epsilon")!);
    need(this.epsilon > 0 && this.epsilon < Infinity, "epsilon must be positive and finite");
    checkBounds(metadata);
    const kind = metadata.get("kind")!;
    need(kind === "places" || kind === "vectors", "unknown kind");
    this.region = new Region(metadata, kind as Kind);
    const [rows, columns] = this.region.nodes;
    need(parts.shapes.get("table")![0] === rows * columns, "its table is not of the nodes of its region");
    this.outputRows = tensors.get("outputs")!.shape.length === 1 ? integers(parts, "outputs") : null;
    this.outputPoints = this.outputRows ? this.nodesAt(this.outputRows, rows * columns) : floats(parts, "outputs");
    checkPoints(this.outputPoints, 2, kind);
    this.outputNames = namesOf(metadata.get("output_names"), this.outputPoints.length / 2);
    this.table = new DenseTable(parts);
    this.certificate = this.certified(metadata.get("metadata_sha256")!);
  }

  /** Prove again that the table is private at every point of the region; throw if it is not. */
  certify(): PlaneCertificate {
    return this.certified(this.certificate.fingerprint);
  }

  /** Coordinates of an output. */
  outputAt(output: number): number[] {
    const n = this.table.nOutputs;
    if (!(Number.isInteger(output) && output >= 0 && output < n)) throw new InputError(`there are only 0 to ${n - 1}`);
    return [...this.outputPoints.subarray(2 * output, 2 * output + 2)];
  }

  /**
   * Draw a report for a point: latitude and longitude, or the two coordinates of vectors. Each call spends the budget again.
   *
   * A point outside the region is refused after the same work; that it was refused is visible.
   */
  perturbPoint(first: number, second: number, { outside = "refuse" }: PlaneOptions = {}): PlaneReport {
    if (outside !== "refuse" && outside !== "border") throw new InputError("points outside are for refuse or for border");
    const point = this.checked([first, second]);
    const [a, b, c] = systemNumbers(3);
    const report = this.report(this.drawn(point, a, b, c)); // before anything is refused
    const isOutside = Number(this.region.isOutside(point)) & Number(outside === "refuse");
    if (isOutside | Number(this.region.isOutside(point, this.region.outer))) {
      throw new InputError("the point is outside the region, or too far outside for its border: nothing is reported");
    }
    return report;
  }

  /** Return the output that three whole numbers below 2^63 stand for at a point: for tests against others. Not a draw. */
  outputOf(point: Pair, numbers: readonly bigint[]): number {
    const isNumber = (one: bigint): boolean => typeof one === "bigint" && one >= 0n && !(one >> 63n);
    if (numbers.length !== 3 || !numbers.every(isNumber)) throw new InputError("give three numbers below 2^63");
    const [a, b, c] = numbers.map((one): Pair => [Number(one >> 32n), Number(one & 0xffffffffn)]);
    return this.drawn(this.checked(point), a, b, c);
  }

  /** Draw the node each way by a number, then the output by its row. */
  private drawn(point: Pair, a: Pair, b: Pair, c: Pair): number {
    const row = this.node(point, 0, a) * this.region.nodes[1] + this.node(point, 1, b);
    return this.table.output(row, ...c);
  }

  /** With t steps of T = 2^31 inside the cell, nodes have the weights (T - t)², the rest, and t², of 2^63: no branch. */
  private node(point: Pair, way: 0 | 1, [high, low]: Pair): number {
    const [cell, after] = this.region.place(point, way);
    const before = 2 ** 31 - after;
    const [firstLow, firstHigh] = [Math.imul(before, before) >>> 0, highProduct(before, before)];
    const [lastLow, lastHigh] = [Math.imul(after, after) >>> 0, highProduct(after, after)];
    const restHigh = (0x80000000 - lastHigh - Number(lastLow > 0)) >>> 0; // 2^63 less the last
    return cell + isAtLeast(high, low, firstHigh, firstLow) + isAtLeast(high, low, restHigh, -lastLow >>> 0);
  }

  private report(output: number): PlaneReport {
    const columns = this.region.nodes[1];
    const row = this.outputRows?.[output] ?? 0;
    const id = this.outputNames?.[output] ?? (this.outputRows ? `r${Math.floor(row / columns)}c${row % columns}` : `output ${output}`);
    return { output, id, coordinates: this.outputAt(output) };
  }

  private checked(point: Pair): Pair {
    const isPoint = point.length === 2 && point.every((value) => typeof value === "number" && Number.isFinite(value));
    const arePlaces = this.region.kind === "places";
    if (!isPoint || (arePlaces && (Math.abs(point[0]) > 90 || Math.abs(point[1]) > 180))) {
      const range = arePlaces ? " (latitude from -90 to 90, longitude from -180 to 180)" : "";
      throw new InputError(`a point must be 2 finite numbers${range}`); // names no point
    }
    return point;
  }

  private nodesAt(rows: Int32Array, n: number): Float64Array {
    const isRow = rows.every((row) => row >= 0 && row < n) && new Set(rows).size === rows.length;
    need(isRow, "its outputs are not nodes of its region, each once");
    const { region } = this;
    const columns = region.nodes[1];
    return Float64Array.from({ length: 2 * rows.length }, (_, e) => {
      const row = rows[e >> 1];
      return e % 2 ? region.axis(1, row % columns) : region.axis(0, Math.floor(row / columns));
    });
  }

  /** The check of docs/plane.md: |grad u| <= epsilon u at the coefficients of every cell, four times their value here. */
  private certified(fingerprint: string): PlaneCertificate {
    const { region, table, epsilon } = this;
    const K = table.nOutputs;
    const [rows, columns] = region.nodes;
    const width = columns * K;
    const exact = region.weights(epsilon);
    const [w, v] = exact.map((weight) => (Number(weight) / 2 ** 64) * (1 + 2 ** -50));
    const [mean, slope, size] = [new Float64Array(width), new Float64Array(width), new Float64Array(width)];
    let decidedExactly = 0;
    for (let p = 0; p <= 2 * (rows - 2); p += 1) {
      for (let e = 0, a = (p >> 1) * width; e < width; e += 1, a += 1) {
        const [x, y, z] = [table.floats[a], table.floats[a + width], p % 2 ? table.floats[a + 2 * width] : 0];
        mean[e] = p % 2 ? 2 * y : x + y;
        slope[e] = p % 2 ? z - x : 2 * (y - x);
        size[e] = p % 2 ? 2 * y + x + z : 2 * (x + y);
      }
      for (let q = 0; q <= 2 * (columns - 2); q += 1) {
        for (let k = 0, a = (q >> 1) * K; k < K; k += 1, a += 1) {
          const [b, c] = [a + K, a + 2 * K];
          const isOdd = q % 2;
          const u = isOdd ? 2 * mean[b] : mean[a] + mean[b];
          const along = isOdd ? mean[c] - mean[a] : 2 * (mean[b] - mean[a]);
          const across = isOdd ? 2 * slope[b] : slope[a] + slope[b];
          const room = SUM_GUARD * (isOdd ? 2 * size[b] + size[c] + size[a] : 2 * (size[a] + size[b]));
          const [x, y, least] = [Math.abs(across) + room, Math.abs(along) + room, u - room];
          const isSure = least > 0 && w * x * x + v * y * y <= least * least * (1 - PRODUCT_GUARD);
          if (isSure || room === 0) continue;
          decidedExactly += 1;
          if (!this.holdsAt(p, q, k, exact)) {
            throw new CertificationError(
              `the table is not ${epsilon}-mDP over the region: output ${k} changes too fast at coefficient ${p}, ${q}`,
            );
          }
        }
      }
    }
    const compared = (2 * (rows - 2) + 1) * (2 * (columns - 2) + 1) * K;
    return Object.freeze({
      ...{ epsilon, metric: region.metric, nodes: rows * columns, outputs: K, compared, decidedExactly },
      ...{ rounding: region.rounding, fingerprint, promise: this.sentence() },
    });
  }

  private holdsAt(p: number, q: number, k: number, weights: readonly [bigint, bigint]): boolean {
    const { table } = this;
    const columns = this.region.nodes[1];
    const lines = [0, 1, 2 * (p % 2)].map((r) =>
      line(([0, 1, 2 * (q % 2)] as const).map((c) =>
        asBigInt(table.table, (((p >> 1) + r) * columns + (q >> 1) + c) * table.nOutputs + k)), q));
    const [u, across] = line(lines.map((one) => one[0]), p);
    const [along] = line(lines.map((one) => one[1]), p);
    return holds(u, across, along, weights);
  }

  private sentence(): string {
    const { epsilon, region } = this;
    const unit = region.kind === "places" ? "km" : "unit of distance";
    return (
      `Any report is at most exp(${epsilon} d) times more likely from one than from the other of any two points of the ` +
      `region, or of its margin if they are moved to the border, at distance d (${region.metric}, d in ${unit}), after coordinates are rounded by at most ` +
      `${region.rounding.toPrecision(2)} ${unit}.`
    );
  }
}

/** Return the outputs' own names, each once, or null where there are none. */
function namesOf(text: string | undefined, n: number): readonly string[] | null {
  if (text === undefined) return null;
  const found = parseJson(text);
  const isName = (one: unknown): boolean => typeof one === "string" && /^[^\ud800-\udfff]{1,1000}$/su.test(one);
  need(Array.isArray(found) && found.length === n && found.every(isName) && new Set(found).size === n, "names of its outputs");
  return found as readonly string[];
}

/** Return twice a coefficient and twice that of the derivative, from the two or three nodes that take part. */
function line([x, y, z]: bigint[], place: number): [bigint, bigint] {
  return place % 2 ? [2n * y, z - x] : [x + y, 2n * (y - x)];
}

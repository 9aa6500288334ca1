/** What a file says about its records and its claims, checked; privacy itself is for certify.ts. */

import type { Parts } from "./container.js";
import { FileFormatError, need, short } from "./errors.js";
import { parseJson } from "./json.js";

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
export const OF_POINTS = ["haversine", "euclidean", "manhattan"];
export const OF_DIRECTIONS = ["angular", "cosine"];
export const MEASURED = [...OF_POINTS, ...OF_DIRECTIONS];
const WIDEST_RANGE = 1e9; // of the records' own epsilons
const HEX = /^(-?)0x([01])\.([0-9a-f]{13})p([+-])(0|[1-9][0-9]{0,3})$/;

export function contentsOf(parts: Parts): Contents {
  const { metadata } = parts;
  const word = (key: string): string => metadata.get(key)!;
  const epsilon = hexFloat(word("epsilon"));
  const eta = hexFloat(word("eta"));
  need(epsilon > 0 && epsilon < Infinity, "epsilon must be positive and finite");
  need(eta > 0, "eta must be positive");
  const epsilons = parts.tensors.has("epsilons") ? floats(parts, "epsilons") : null;
  if (epsilons) checkBudgets(epsilons, epsilon);
  checkBounds(metadata);
  const metric = word("metric");
  const isNamed = [...MEASURED, "street", "matrix", "mahalanobis"].includes(metric);
  need(isNamed || metric.startsWith("function "), `the metric ${short(JSON.stringify(metric))} is not known`);
  const kind = word("kind");
  need(kind === "places" || (kind === "vectors" && metric !== "haversine"), "unknown kind, or of another metric");
  const [n, dimension] = parts.shapes.get("records")!;
  const points = floats(parts, "records");
  checkPoints(points, dimension, kind);
  if (OF_DIRECTIONS.includes(metric)) checkDirections(points, dimension, kind);
  checkPrior(floats(parts, "prior"));
  const ids = idsOf(word("ids"), n);
  const { outputRows, outputPoints } = outputsOf(parts, points, n, dimension);
  if (outputRows === null) checkPoints(outputPoints, dimension, kind);
  checkLosses(parts, metric, outputRows === null);
  return {
    ...{ name: word("name"), kind, metric, epsilon, epsilons, eta },
    ...{ ids, dimension, points, outputRows, outputPoints },
  };
}

/** Return a float that is written as Python's float.hex does; refuse other notations. */
export function hexFloat(text: string): number {
  if (text === "inf") return Infinity;
  if (text === "0x0.0p+0") return 0;
  if (text === "-0x0.0p+0") return -0;
  const found = HEX.exec(text);
  if (!found) throw notation(text);
  const [, sign, lead, digits, direction, power] = found;
  const exponent = direction === "-" ? -Number(power) : Number(power);
  const isNormal = lead === "1" && exponent >= -1022 && exponent <= 1023;
  const isSmall = lead === "0" && exponent === -1022 && /[^0]/.test(digits);
  if (!(isNormal || isSmall) || (power === "0" && direction === "-")) throw notation(text);
  const bits = (BigInt(isNormal ? exponent + 1023 : 0) << 52n) | BigInt(`0x${digits}`);
  const value = new Float64Array(new BigUint64Array([bits]).buffer)[0];
  return sign ? -value : value;
}

function notation(text: string): FileFormatError {
  return new FileFormatError(`damaged: ${short(JSON.stringify(text))} is not a hexadecimal float`);
}

/** Return a tensor of floats; its bytes are in memory of their own, so they are aligned. */
export function floats(parts: Parts, name: string): Float64Array {
  return new Float64Array(parts.tensors.get(name)!.bytes.buffer as ArrayBuffer);
}

/** Return a tensor of whole numbers of 32 bits. */
export function integers(parts: Parts, name: string): Int32Array {
  return new Int32Array(parts.tensors.get(name)!.bytes.buffer as ArrayBuffer);
}

export function checkBounds(metadata: Map<string, string>): void {
  const [loss, low] = ["loss", "lower_bound"].map((key) => metadata.get(key));
  if (loss === undefined && low === undefined) return;
  need(loss !== undefined && low !== undefined, "a loss without its lower bound, or the reverse");
  const [high, bound] = [hexFloat(loss), hexFloat(low)];
  need(0 <= bound && bound <= high && high < Infinity, "its bounds on the loss cannot be");
}

export function checkPoints(points: Float64Array, dimension: number, kind: string): void {
  need(points.every(Number.isFinite), "coordinates are not finite");
  if (kind !== "places") return;
  const isPlace = dimension === 2 && points.every((value, place) => Math.abs(value) <= (place % 2 ? 180 : 90));
  need(isPlace, "its places are no latitudes and longitudes");
}

function checkDirections(points: Float64Array, D: number, kind: string): void {
  const isZero = (_: unknown, i: number): boolean => points.subarray(i * D, (i + 1) * D).every((value) => value === 0);
  const hasZero = Array.from({ length: points.length / D }, isZero).includes(true);
  need(kind === "vectors" && !hasZero, "its records have no directions");
}

function checkBudgets(epsilons: Float64Array, epsilon: number): void {
  const least = epsilons.reduce((a, b) => Math.min(a, b)); // of no number: no number
  const most = epsilons.reduce((a, b) => Math.max(a, b));
  const areBudgets = least > 0 && most === epsilon && most <= WIDEST_RANGE * least;
  need(areBudgets, "its epsilons are not positive, too different, or not those of its epsilon");
}

function checkPrior(prior: Float64Array): void {
  const isPrior = prior.every((p) => p >= 0 && p < Infinity) && prior.some((p) => p > 0);
  need(isPrior, "its prior is negative, infinite, or zero everywhere");
}

function idsOf(text: string, n: number): readonly string[] {
  // half a character outside and its other half inside of an escape would be joined here, and nowhere else
  need(!hasHalf(text), "its ids hold half a character");
  const ids = parseJson(text);
  need(Array.isArray(ids) && ids.every((id) => typeof id === "string"), "its ids are not a list of texts");
  const names = ids as string[];
  need(names.length === n && new Set(names).size === n, "its ids are not one for each record");
  need(!names.some(hasHalf), "its ids hold half a character");
  return Object.freeze(names);
}

function hasHalf(text: string): boolean {
  return /\p{Cs}/u.test(text); // with this flag, the halves of whole characters are none
}

function outputsOf(
  parts: Parts, points: Float64Array, n: number, dimension: number,
): { outputRows: Int32Array | null; outputPoints: Float64Array } {
  const tensor = parts.tensors.get("outputs");
  if (tensor === undefined) return { outputRows: Int32Array.from({ length: n }, (_, k) => k), outputPoints: points };
  if (tensor.shape.length === 2) return { outputRows: null, outputPoints: floats(parts, "outputs") };
  const rows = integers(parts, "outputs");
  const isRow = rows.every((row) => row >= 0 && row < n) && new Set(rows).size === rows.length;
  need(isRow, "its outputs are not rows of its records, each once");
  const outputPoints = new Float64Array(rows.length * dimension);
  rows.forEach((row, k) => outputPoints.set(points.subarray(row * dimension, (row + 1) * dimension), k * dimension));
  return { outputRows: rows, outputPoints };
}

function checkLosses(parts: Parts, metric: string, arePoints: boolean): void {
  const held = ["losses", "travel"].filter((name) => parts.tensors.has(name));
  if (held.includes("losses")) {
    need(floats(parts, "losses").every((loss) => loss >= 0 && loss < Infinity), "its losses are not finite, or negative");
  }
  if (!parts.tensors.has("scale")) return;
  const kind = parts.metadata.get("loss_kind") ?? (held.includes("losses") ? "given" : "absent");
  const own: Record<string, string> = { given: "losses", travel: "travel", distance: "", absent: "" };
  const isKnown = Object.hasOwn(own, kind) && held.join() === own[kind];
  need(isKnown, "its losses are of an unknown kind, or of another");
  need(kind !== "distance" || MEASURED.includes(metric), "losses of this kind are not known for its metric");
  if (kind === "travel") {
    need(!arePoints && floats(parts, "travel").every(Number.isFinite), "its ways are not finite, or to no records");
  }
}

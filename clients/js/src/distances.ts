/** Distances that are certainly not above the true ones: section "Pairs" of docs/file-format.md. */

import { OF_DIRECTIONS } from "./contents.js";

export const EARTH_RADIUS_KM = 6371.0088;
export const RADIANS = Math.PI / 180;
const TINIEST = 5e-324;
/** Multiples of the error bound by which distances are rounded down: a writer's, and the least that a reader may take. */
export const [STORED_MARGIN, CHECKED_MARGIN] = [4, 1];

/** A metric of coordinates over some points, row by row. */
export class Measure {
  /** A bound on the relative error of `between`, with sines and arcsines good to 4 units in the last place. */
  readonly rounding: number;
  /** A bound on its absolute error, of directions. */
  readonly error: number;
  /** Unit vectors, for metrics of directions; otherwise the points themselves. */
  readonly places: Float64Array;
  private readonly power: 0 | 1 | 2;

  constructor(
    readonly metric: string,
    readonly points: Float64Array,
    readonly dimension: number,
    private readonly margin: number,
  ) {
    const areDirections = OF_DIRECTIONS.includes(metric);
    this.power = metric === "manhattan" ? 1 : metric === "euclidean" ? 2 : 0;
    this.rounding = areDirections ? 0 : this.power ? (dimension + 8) * 2 ** -53 : 2 ** -46;
    this.error = areDirections ? (dimension + 8) * 2 ** -50 : 0;
    this.places = areDirections ? unitVectors(points, dimension) : points;
  }

  /** Return the float distance of records i and j; or of record i and that of other `places`. */
  between(i: number, j: number, others = this.places): number {
    const { places, dimension: D, metric } = this;
    const [a, b] = [i * D, j * D];
    if (metric === "haversine") return haversine(places[a], places[a + 1], others[b], others[b + 1]);
    if (metric === "manhattan") return manhattan(places, a, others, b, D);
    const chord = euclidean(places, a, others, b, D, 1);
    if (metric === "euclidean") return chord;
    if (metric === "cosine") return 0.5 * (chord * chord);
    const other = euclidean(places, a, others, b, D, -1); // to the opposite direction
    const angle = 2 * Math.asin(Math.min(1, 0.5 * Math.min(chord, other)));
    return chord <= other ? angle : Math.PI - angle;
  }

  /** Return a distance of records i and j that is not above the true one; the true one where whole numbers prove it. */
  below(i: number, j: number, distance = this.between(i, j)): number {
    const { margin } = this;
    if (this.error) return Math.max(distance - margin * this.error, 0);
    const below = Math.max(Math.min(distance, Number.MAX_VALUE) * (1 - margin * this.rounding) - TINIEST, 0);
    return this.power ? (this.even(i, j, distance) ?? below) : below;
  }

  /** Return whether exact arithmetic shows that records i and j are farther apart than `eta`. */
  isFarther(i: number, j: number, eta: number): boolean {
    if (this.power === 0 || eta === Infinity) return false;
    const D = this.dimension;
    let sum = 0n; // in units of 2^-1074, to the power
    for (let d = 0; d < D; d += 1) {
      const difference = units(this.points[i * D + d]) - units(this.points[j * D + d]);
      sum += this.power === 2 ? difference * difference : difference < 0n ? -difference : difference;
    }
    return sum > units(eta) ** BigInt(this.power);
  }

  /** Return a distance that comes out even: whole numbers of its 26th bit, with exact sums of powers. */
  private even(i: number, j: number, distance: number): number | null {
    if (!(distance > 1e-200 && distance < 1e200)) return null;
    const unit = powerOfTwo(exponentOf(distance * (1 + 2 ** -40)) - 26);
    const whole = rint(distance / unit);
    if (!(Math.abs(distance / unit - whole) < 2 ** -8)) return null;
    const D = this.dimension;
    let total = 0;
    for (let d = 0; d < D; d += 1) {
      const [x, y] = [this.points[i * D + d], this.points[j * D + d]];
      const [a, b] = [rint(x / unit), rint(y / unit)];
      if (x !== a * unit || y !== b * unit || !(Math.abs(a) < 2 ** 52 && Math.abs(b) < 2 ** 52)) return null;
      const difference = Math.abs(a - b);
      total += this.power === 1 ? difference : difference * difference;
    }
    return total === (this.power === 1 ? whole : whole * whole) ? whole * unit : null;
  }
}

/** Return the distance in kilometres, measured from the antipode where that is nearer. */
function haversine(lat1: number, lon1: number, lat2: number, lon2: number): number {
  const cosines = cosine(lat1) * cosine(lat2);
  let east = Math.abs(lon1 - lon2);
  if (lon1 * lon2 < 0) east = Math.min(east, Math.abs(180 - Math.abs(lon1) + (180 - Math.abs(lon2))));
  const h = squaredHalfSine(Math.abs(lat1 - lat2)) + cosines * squaredHalfSine(east);
  if (h > 0.5) {
    const across = squaredHalfSine(Math.abs(lat1 + lat2)) + cosines * squaredHalfSine(180 - east);
    return EARTH_RADIUS_KM * (Math.PI - 2 * Math.asin(Math.sqrt(Math.min(across, 1))));
  }
  return EARTH_RADIUS_KM * (2 * Math.asin(Math.sqrt(h < 1e-290 ? 0 : h)));
}

function squaredHalfSine(degrees: number): number {
  const sine = Math.sin((degrees * RADIANS) / 2);
  return sine * sine;
}

/** Return the cosine of a latitude, 0 at a pole, and with all its digits near it. */
function cosine(latitude: number): number {
  return Math.sin((90 - Math.abs(latitude)) * RADIANS);
}

function manhattan(a: Float64Array, i: number, b: Float64Array, j: number, D: number): number {
  let sum = 0;
  for (let d = 0; d < D; d += 1) sum += Math.abs(a[i + d] - b[j + d]);
  return sum;
}

/** Return the distance of a to b times `sign`, divided by the largest difference before squaring: nothing overflows. */
function euclidean(a: Float64Array, i: number, b: Float64Array, j: number, D: number, sign: number): number {
  let largest = 0;
  for (let d = 0; d < D; d += 1) largest = Math.max(largest, Math.abs(a[i + d] - sign * b[j + d]));
  const safe = largest > 0 && largest < Infinity ? largest : 1;
  let sum = 0;
  for (let d = 0; d < D; d += 1) {
    const scaled = Math.min(Math.abs(a[i + d] - sign * b[j + d]) / safe, 1);
    sum += scaled * scaled;
  }
  return largest * Math.sqrt(sum);
}

/** Return vectors of length 1, brought near it by powers of two first, exactly, so that no square overflows. */
function unitVectors(points: Float64Array, D: number): Float64Array {
  const found = points.slice();
  for (let begin = 0; begin < points.length; begin += D) {
    const one = found.subarray(begin, begin + D);
    const e = exponentOf(one.reduce((most, value) => Math.max(most, Math.abs(value)), 0));
    const [half, rest] = [powerOfTwo(-(e >> 1)), powerOfTwo((e >> 1) - e)];
    one.forEach((value, d) => (one[d] = value * half * rest));
    const length = Math.sqrt(one.reduce((sum, value) => sum + value * value, 0));
    one.forEach((value, d) => (one[d] = value / length));
  }
  return found;
}

/** Return the nearest whole number, the even one of two. */
export function rint(value: number): number {
  if (!(Math.abs(value) < 2 ** 52)) return value;
  const shift = value < 0 ? -(2 ** 52) : 2 ** 52;
  return value + shift - shift;
}

const WORDS = new Uint32Array(2);
const FLOAT = new Float64Array(WORDS.buffer);

/** Return e with 2^(e-1) <= value < 2^e, of a positive number; -1022 below 2^-1022. */
function exponentOf(value: number): number {
  FLOAT[0] = value;
  return ((WORDS[1] >>> 20) & 0x7ff) - 1022;
}

function powerOfTwo(exponent: number): number {
  WORDS[0] = 0;
  WORDS[1] = (exponent + 1023) << 20;
  return FLOAT[0];
}

/** Return a float as a whole number of the smallest float, 2^-1074. */
export function units(value: number): bigint {
  FLOAT[0] = value;
  const bits = (BigInt(WORDS[1]) << 32n) | BigInt(WORDS[0]);
  const exponent = (bits >> 52n) & 0x7ffn;
  const digits = bits & ((1n << 52n) - 1n);
  const size = exponent ? (digits | (1n << 52n)) << (exponent - 1n) : digits;
  return bits >> 63n ? -size : size;
}

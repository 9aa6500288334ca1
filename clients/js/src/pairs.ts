/** The neighbour pairs: those of a file, checked from the coordinates, or made again from these. */

import type { Parts } from "./container.js";
import { type Contents, MEASURED, floats, integers } from "./contents.js";
import { CHECKED_MARGIN, EARTH_RADIUS_KM, Measure } from "./distances.js";
import { CertificationError, need } from "./errors.js";

const MOST_CELLS = 100_000; // of an axis
const READ_PAIRS_PER_ENTRY = 16;
const SEARCHED_MARGIN = 8; // multiples of the error, more than any that distances are rounded down by
const LARGEST_FOR_SQUARES = 1e100;
const MOST_HUGE_RECORDS = 20_000; // with coordinates beyond that, which are compared one by one

/** Pairs i < j and their distances, sorted. */
export interface Pairs {
  first: Int32Array;
  second: Int32Array;
  distance: Float64Array;
}

/** Return the pairs at which a table has to be private; `nStored` weights say how many a file may leave out. */
export function pairsOf(parts: Parts, contents: Contents, nStored: number, margin: number): Pairs {
  const n = contents.ids.length;
  const isMeasured = MEASURED.includes(contents.metric);
  if (!parts.tensors.has("pairs")) {
    need(isMeasured, "it holds no pairs, and those of its metric do not follow from its records");
    return made(contents, READ_PAIRS_PER_ENTRY * (n + nStored), margin);
  }
  const listed = listedPairs(parts, contents, n);
  if (isMeasured) checkListed(contents, listed);
  return listed;
}

function listedPairs(parts: Parts, contents: Contents, n: number): Pairs {
  const flat = integers(parts, "pairs");
  const distance = floats(parts, "distances");
  const P = distance.length;
  const first = Int32Array.from({ length: P }, (_, p) => flat[2 * p]);
  const second = Int32Array.from({ length: P }, (_, p) => flat[2 * p + 1]);
  const most = Math.min(contents.eta, Number.MAX_VALUE);
  for (let p = 0; p < P; p += 1) {
    const isPair = first[p] >= 0 && first[p] < second[p] && second[p] < n;
    const isSorted = p === 0 || first[p] > first[p - 1] || (first[p] === first[p - 1] && second[p] > second[p - 1]);
    need(isPair && isSorted, "its pairs are not i < j, sorted, and each named once");
    need(distance[p] >= 0, "its distances are negative or no numbers");
    if (!(distance[p] <= most)) throw new CertificationError("a neighbour distance exceeds eta");
  }
  return { first, second, distance };
}

/** Check that listed pairs are all there are, and round distances down that were rounded to the nearest float. */
function checkListed(contents: Contents, listed: Pairs): void {
  const measure = measureOf(contents);
  const { first, second, distance } = listed;
  for (let p = 0; p < first.length; p += 1) {
    const measured = measure.between(first[p], second[p]);
    const below = measure.below(first[p], second[p], measured);
    if (distance[p] <= below) continue;
    if (!(distance[p] <= measured * (1 + 2 * measure.rounding))) {
      throw new CertificationError(`records ${first[p]} and ${second[p]} are not as far apart as is stored`);
    }
    distance[p] = below;
  }
  const starts = startsOf(first, contents.ids.length);
  forEachNear(measure, contents.eta, (i, j, below) => {
    if (!(below <= contents.eta) || isListed(second, starts[i], starts[i + 1], j)) return;
    if (!measure.isFarther(i, j, contents.eta)) {
      throw new CertificationError(`records ${i} and ${j} are within eta but not among the protected pairs`);
    }
  });
}

/** Return where the pairs of each first record begin. */
export function startsOf(first: Int32Array, n: number): Int32Array {
  const starts = new Int32Array(n + 1);
  for (const i of first) starts[i + 1] += 1;
  for (let i = 0; i < n; i += 1) starts[i + 1] += starts[i];
  return starts;
}

function isListed(second: Int32Array, begin: number, end: number, j: number): boolean {
  let [low, high] = [begin, end];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (second[middle] < j) low = middle + 1;
    else high = middle;
  }
  return low < end && second[low] === j;
}

function made(contents: Contents, most: number, margin: number): Pairs {
  const found: { i: number; j: number; below: number }[] = [];
  forEachNear(measureOf(contents, margin), contents.eta, (i, j, below) => {
    if (!(below <= contents.eta)) return;
    need(found.length < most, `more than ${most} pairs are within eta, and so many must be in the file`);
    found.push({ i, j, below });
  });
  found.sort((a, b) => a.i - b.i || a.j - b.j);
  return {
    first: Int32Array.from(found, (one) => one.i),
    second: Int32Array.from(found, (one) => one.j),
    distance: Float64Array.from(found, (one) => one.below),
  };
}

export function measureOf(contents: Contents, margin = CHECKED_MARGIN): Measure {
  return new Measure(contents.metric, contents.points, contents.dimension, margin);
}

/** Call `visit` for all pairs i < j that may be within `reach` (and some more), with a distance not above the true one. */
export function forEachNear(
  measure: Measure,
  reach: number,
  visit: (i: number, j: number, below: number) => void,
): void {
  const { places, width, radius } = spaceOf(measure, reach);
  const n = places.length / width;
  const huge = places.some((value) => Math.abs(value) > LARGEST_FOR_SQUARES);
  need(!huge || n <= MOST_HUGE_RECORDS, "too many records with coordinates beyond 1e100: give them in a larger unit");
  const { order, cells } = gridOf(places, width, radius);
  const squared = radius * radius;
  for (const here of cells) {
    for (let a = here.begin; a < here.end; a += 1) {
      const x = order[a];
      for (const there of here.around) {
        for (let b = there === here ? a + 1 : there.begin; b < there.end; b += 1) {
          const y = order[b];
          let sum = 0; // not more than the square of any of the distances
          for (let d = 0; d < width; d += 1) {
            const difference = places[x * width + d] - places[y * width + d];
            sum += difference * difference;
          }
          if (sum > squared) continue;
          if (x < y) visit(x, y, measure.below(x, y));
          else visit(y, x, measure.below(y, x));
        }
      }
    }
  }
}

/** Return the points to search in (of the unit sphere, for places) and a radius there that is a little too large. */
function spaceOf(measure: Measure, reach: number): { places: Float64Array; width: number; radius: number } {
  const { points, places, dimension: width, metric } = measure;
  // a chord of the sphere; of directions not shorter than that of any pair whose rounded-down distance is within reach
  const wide = metric === "haversine" ? reach / EARTH_RADIUS_KM : reach + SEARCHED_MARGIN * measure.error;
  const chord = metric === "cosine" ? Math.min(2, Math.sqrt(2 * wide)) : 2 * Math.sin(Math.min(wide, Math.PI) / 2);
  const near = { radius: chord * (1 + 1e-6) + 1e-12 };
  if (measure.error) return { places, width, ...near };
  if (metric !== "haversine") return { places, width, radius: reach * (1 + 1e-6) + 1e-140 };
  const sphere = new Float64Array((points.length / 2) * 3);
  for (let i = 0; i < points.length / 2; i += 1) {
    const [lat, lon] = [(points[2 * i] * Math.PI) / 180, (points[2 * i + 1] * Math.PI) / 180];
    sphere.set([Math.cos(lat) * Math.cos(lon), Math.cos(lat) * Math.sin(lon), Math.sin(lat)], 3 * i);
  }
  return { places: sphere, width: 3, ...near };
}

/** Points order[begin] to order[end - 1], and the cells around that come not before it, itself included. */
interface Cell {
  begin: number;
  end: number;
  around: Cell[];
}

/** Sort points into cells of at least `radius` along up to three axes; only cells with points are made. */
function gridOf(places: Float64Array, width: number, radius: number): { order: Int32Array; cells: Cell[] } {
  const n = places.length / width;
  let steps = [0]; // from a cell's key to those of the cells around it
  const keys = new Float64Array(n); // below 2^52: whole numbers
  for (let d = 0; d < Math.min(width, 3); d += 1) {
    let [low, high] = [Infinity, -Infinity];
    for (let i = 0; i < n; i += 1) {
      low = Math.min(low, places[i * width + d]);
      high = Math.max(high, places[i * width + d]);
    }
    const side = Math.max(radius * (1 + 1e-6), (high - low) / MOST_CELLS);
    const isOne = !(side > 0 && side < Infinity); // one cell where numbers run out
    const size = isOne ? 3 : Math.floor((high - low) / side) + 3; // with one cell to spare at both ends
    for (let i = 0; i < n; i += 1) {
      keys[i] = keys[i] * size + (isOne ? 1 : Math.floor((places[i * width + d] - low) / side) + 1);
    }
    steps = steps.flatMap((step) => [-1, 0, 1].map((one) => step * size + one));
  }
  const order = Int32Array.from({ length: n }, (_, i) => i).sort((a, b) => keys[a] - keys[b] || a - b);
  const found = new Map<number, Cell>();
  for (let begin = 0, end = 0; begin < n; begin = end) {
    const key = keys[order[begin]];
    while (end < n && keys[order[end]] === key) end += 1;
    found.set(key, { begin, end, around: [] });
  }
  for (const [key, cell] of found) {
    for (const step of steps.filter((one) => one >= 0)) {
      const other = found.get(key + step);
      if (other) cell.around.push(other);
    }
  }
  return { order, cells: [...found.values()] };
}

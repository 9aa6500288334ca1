// A region: where its points are on the map, which nodes have a weight at a point, and what is reported there.

const { low, high, cells, centre, stretch, is_places: arePlaces } = payload.region;
const frameScale = payload.map.scale;
const KM_PER_DEGREE = 6371.0088 * (Math.PI / 180);
const columnsOfNodes = cells[1] + 2;

/** Where a point is on the map: x to the right, y upwards. */
function toMap([first, second]) {
  const away = [(first - centre[0]) * stretch[0] / frameScale, (second - centre[1]) * stretch[1] / frameScale];
  return arePlaces ? [away[1], away[0]] : away;
}

/** The point at a place of the map. */
function toPoint([x, y]) {
  const [a, b] = arePlaces ? [y, x] : [x, y];
  return [a * frameScale / stretch[0] + centre[0], b * frameScale / stretch[1] + centre[1]];
}

const isInside = (point) => point.every((value, way) => value >= low[way] && value <= high[way]);
const atBorder = (point) => point.map((value, way) => Math.min(high[way], Math.max(low[way], value)));

/** Quadratic B-splines: the cell of a coordinate, and the weights of the nodes before, at and after it. */
function splines(value, way) {
  const share = Math.min(1, Math.max(0, (value - low[way]) / (high[way] - low[way]))) * cells[way];
  const cell = Math.min(Math.floor(share), cells[way] - 1);
  const t = share - cell;
  return [cell, [(1 - t) ** 2 / 2, 0.5 + t - t * t, t * t / 2]];
}

/** How often each output is reported from a point. */
function chancesAt(point) {
  const [[row, across], [column, along]] = [splines(point[0], 0), splines(point[1], 1)];
  const found = new Float64Array(nOutputs);
  for (let i = 0; i < 3; i++) {
    for (let j = 0; j < 3; j++) {
      const node = (row + i) * columnsOfNodes + column + j;
      const weight = across[i] * along[j];
      for (let e = arrays.starts[node]; e < arrays.starts[node + 1]; e++) found[arrays.columns[e]] += weight * chances[e];
    }
  }
  return found;
}

/** The outputs of a point with their probabilities, the most likely first. */
function reportsAt(point) {
  return Array.from(chancesAt(point), (p, k) => [k, p]).filter(([, p]) => p > 0).sort((a, b) => b[1] - a[1] || a[0] - b[0]);
}

/** The distance of the promise: the great circle in km, or the straight one. */
function distance([a, b], [c, d]) {
  if (!arePlaces) return Math.hypot(a - c, b - d);
  const radians = Math.PI / 180;
  const half = Math.sin(((a - c) * radians) / 2) ** 2 + Math.cos(a * radians) * Math.cos(c * radians) * Math.sin(((b - d) * radians) / 2) ** 2;
  return 2 * 6371.0088 * Math.asin(Math.min(1, Math.sqrt(half)));
}

const spotOfOutput = (k) => payload.region.outputs[k];

/** Points of the region on a circle around a point. */
function circle(point, radius, n = 48) {
  const found = [];
  for (let i = 0; i < n; i++) {
    const [up, right] = [Math.sin((2 * Math.PI * i) / n) * radius, Math.cos((2 * Math.PI * i) / n) * radius];
    const other = arePlaces
      ? [point[0] + up / KM_PER_DEGREE, point[1] + right / (KM_PER_DEGREE * Math.cos((point[0] * Math.PI) / 180))]
      : [point[0] + right, point[1] + up];
    if (isInside(other)) found.push(other);
  }
  return found;
}

const LEAST_COMPARED = 1e-4; // below, what the page leaves out could matter to a ratio

/** The largest factor between what a point and others report, among reports that either of them gives often enough. */
function largestFactor(point, others) {
  const here = chancesAt(point);
  let most = 1;
  for (const other of others) {
    const there = chancesAt(other);
    for (let k = 0; k < nOutputs; k++) {
      if (Math.min(here[k], there[k]) >= LEAST_COMPARED) most = Math.max(most, here[k] / there[k], there[k] / here[k]);
    }
  }
  return most;
}

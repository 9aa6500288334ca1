"use strict";
// What the page was given: plain values, and typed arrays in base64.

const payload = JSON.parse(document.getElementById("payload").textContent);
const TYPES = { float32: Float32Array, uint32: Uint32Array, uint16: Uint16Array };
const LEVELS = 65534;
const BITS = 63;

function unpack({ type, data }) {
  const text = atob(data);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  return new TYPES[type](bytes.buffer);
}

const arrays = Object.fromEntries(Object.entries(payload.arrays).map(([name, value]) => [name, unpack(value)]));
const nRecords = payload.ids.length;
const nOutputs = payload.outputs.length;
const hasMap = payload.map !== null;

// probabilities by row, as stored, and by column, sorted here
const chances = new Float64Array(arrays.levels.length);
for (let e = 0; e < chances.length; e++) chances[e] = 2 ** ((-BITS * (LEVELS + 1 - arrays.levels[e])) / LEVELS);
const columnStarts = new Uint32Array(nOutputs + 1);
const columnRows = new Uint32Array(chances.length);
const columnChances = new Float64Array(chances.length);
for (const k of arrays.columns) columnStarts[k + 1]++;
for (let k = 0; k < nOutputs; k++) columnStarts[k + 1] += columnStarts[k];
const next = columnStarts.slice();
for (let i = 0; i < nRecords; i++) {
  for (let e = arrays.starts[i]; e < arrays.starts[i + 1]; e++) {
    const place = next[arrays.columns[e]]++;
    columnRows[place] = i;
    columnChances[place] = chances[e];
  }
}

const componentSizes = new Map();
for (const label of arrays.component) componentSizes.set(label, (componentSizes.get(label) || 0) + 1);

/** The outputs of a record with their probabilities, the most likely first. */
function reportsOf(record) {
  const found = [];
  for (let e = arrays.starts[record]; e < arrays.starts[record + 1]; e++) found.push([arrays.columns[e], chances[e]]);
  return found.sort((a, b) => b[1] - a[1] || a[0] - b[0]);
}

/** How often a record gives an output; 0 also for an entry that is too small to be on the page. */
function chanceOf(record, output) {
  for (let e = arrays.starts[record]; e < arrays.starts[record + 1]; e++) if (arrays.columns[e] === output) return chances[e];
  return 0;
}

/** The report that comes with a record: the one that it gives most often. */
function likelyReportOf(record) {
  const entries = reportsOf(record);
  return entries.length ? entries[0][0] : -1;
}

let lastPosterior = {};

/** What an adversary who knows the prior believes after seeing an output: records and probabilities, likely first. */
function posteriorOf(output) {
  if (lastPosterior.output === output) return lastPosterior.found;
  const found = [];
  let total = 0;
  for (let e = columnStarts[output]; e < columnStarts[output + 1]; e++) {
    const joint = arrays.prior[columnRows[e]] * columnChances[e];
    total += joint;
    if (joint > 0) found.push([columnRows[e], joint]);
  }
  // records that are left out of the page share what is missing to the output's own chance
  for (const entry of found) entry[1] /= Math.max(total, arrays.chance[output]);
  found.sort((a, b) => b[1] - a[1] || a[0] - b[0]);
  lastPosterior = { output, found };
  return found;
}

/** The number of equally likely candidates that would leave the same doubt: the exponential of the entropy. */
function candidates(posterior) {
  return Math.exp(posterior.reduce((sum, [, p]) => sum - p * Math.log(p), 0));
}

// What figures mean, in plain words, with the distances of these records beside the formula.

/** A length as people say it: metres below a kilometre. */
function inLength(value, unit = payload.unit, digits = 3) {
  return unit === "km" && Math.abs(value) < 1 ? `${number(1000 * value, digits)} m` : inUnit(value, unit, digits);
}

/** The epsilon of a record: its own, or that of all. */
const budgetOf = (record) => (payload.epsilons ? payload.epsilons[record] : payload.epsilon);

/** Epsilon in a fact or a formula: a number, or from the least to the largest of the records' own. */
function budgetInWords(digits = 6) {
  if (!payload.epsilons) return number(payload.epsilon, digits);
  return `${number(payload.epsilons.reduce((a, b) => Math.min(a, b)), digits)} to ${number(payload.epsilon, digits)}`;
}

/** A sentence whose numbers stay with their units at the end of a line. */
const unbroken = (text) => text.replace(/(\d) (?=%|m\b|km\b)/g, "$1\u00a0").replace(/ × /g, "\u00a0×\u00a0");

const SHARES = new Map([[2, "half"], [3, "a third"], [4, "a quarter"], [5, "a fifth"], [10, "a tenth"]]);

/** One part in `factor`: "a quarter", "1/3.5". */
function partOf(factor) {
  const whole = Math.round(factor);
  return Math.abs(factor - whole) < 5e-3 * whole && SHARES.has(whole) ? SHARES.get(whole) : `1/${number(factor, 3)}`;
}

/** How the suspicion of a record changes, never as "0 ×". */
function changeInWords(before, after) {
  if (before === 0) return "";
  if (after === 0) return "practically ruled out by this report";
  const times = after / before;
  if (Math.abs(times - 1) < 0.005) return "as likely as before";
  return times > 1 ? `${number(times, 3)} times as likely as before` : `${number(1 / times, 3)} times less likely than before`;
}

/** The promise for the chosen record and report, beside its nearest neighbour. */
function neighbourSentence(record, output) {
  const name = payload.ids[record], report = payload.outputs[output];
  const here = chanceOf(record, output);
  const near = arrays.near[record], away = arrays.near_distances[record];
  const sent = `${name} sends ${report} in ${percent(here)} of all cases`;
  if (near === record) {
    const within = payload.eta === null ? "" : ` within ${inLength(payload.eta)}`;
    return [`${sent}.`, `It has no other neighbour${within}: nothing is promised about this record.`];
  }
  const there = chanceOf(near, output);
  const epsilon = Math.min(budgetOf(record), budgetOf(near));
  const allowed = Math.exp(epsilon * away);
  const smaller = payload.epsilons ? ", with the smaller epsilon of the two" : "";
  const times = Math.max(here, there) / Math.min(here, there);
  const beside = here > 0 && there > 0
    ? `its nearest neighbour ${payload.ids[near]}, ${inLength(away)} away, in ${percent(there)}: a factor of ${number(times, 3)}`
    : `its nearest neighbour ${payload.ids[near]}, ${inLength(away)} away, in ${percent(there)}`;
  return [`${sent}, ${beside}.`, `Proved is at most exp(ε × distance) = exp(${number(epsilon, 3)} × ${number(away, 3)}) = ${number(allowed, 3)}${smaller}.`];
}

/** The promise at a distance that the reader chooses; where records have epsilons of their own, that of this record. */
function promiseAt(distance, record) {
  const apart = inLength(distance);
  const isFar = payload.eta !== null && distance > payload.eta * (1 + 1e-9);
  const epsilon = isFar ? payload.epsilon : budgetOf(record); // beyond neighbours, steps with larger epsilons add up
  const factor = Math.exp(epsilon * distance);
  const words = factor < 1e6
    ? `Somebody ${apart} away would send the same report at least ${partOf(factor)} as often, and at most ${number(factor, 3)} times as often.`
    : `At ${apart} the promise is too weak to matter: one report may tell the two apart.`;
  const note = isFar
    ? `This is farther than η = ${inLength(payload.eta)}: it holds where a chain of neighbours of this length leads there.`
    : payload.epsilons
      ? `It holds for every report, for ${payload.ids[record]} and any record so far away, with the epsilon of ${payload.ids[record]}; against stricter ones more is promised.`
      : `It holds for every report and for every pair of ${payload.region ? "points of the region" : "records"} so far apart.`;
  return { words, note, formula: `exp(ε × distance) = exp(${number(epsilon, 4)} × ${number(distance, 4)}) = ${number(factor, 4)}` };
}

/** A distance to start with: where the factor is about 4, in two digits and among neighbours. */
function usualDistance() {
  const wanted = Math.min(Math.log(4) / payload.epsilon, payload.eta === null ? Infinity : payload.eta);
  return Number(wanted.toPrecision(2));
}

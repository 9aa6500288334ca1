// What figures mean, in plain words, with the distances of these records beside the formula.

/** A length as people say it: metres below a kilometre. */
function inLength(value, unit = payload.unit, digits = 3) {
  return unit === "km" && Math.abs(value) < 1 ? `${number(1000 * value, digits)} m` : inUnit(value, unit, digits);
}

/** The epsilon of a record: its own, or that of all. */
const budgetOf = (record) => (payload.epsilons ? payload.epsilons[record] : payload.epsilon);

/** Epsilon in a fact or a formula: a number, or from the least to the largest of the records' own. */
function budgetInWords(digits = 6) {
  if (!payload.epsilons) return budget(payload.epsilon, digits);
  return `${budget(payload.epsilons.reduce((a, b) => Math.min(a, b)), digits)} to ${budget(payload.epsilon, digits)}`;
}

/** A sentence whose numbers stay with their units at the end of a line. */
const unbroken = (text) => text.replace(/(\d) (?=%|m\b|km\b)/g, "$1\u00a0").replace(/ × /g, "\u00a0×\u00a0");

/** Records without a map that are named by letters alone are words; sentences then call them so. */
const areWords = payload.kind !== "places" && !hasMap && payload.ids.filter((id) => /^[\p{L}\p{M}'’.-]+$/u.test(id)).length > 0.8 * nRecords;
const noun = areWords ? "word" : payload.kind === "places" ? "place" : "record";

/** An id in a sentence: one that could be mistaken for a word of it is quoted. */
const quoted = (id) => (areWords || !/\d/.test(id) ? `“${id}”` : id);

/** How often what is not on the page comes: never, or less often than what is. */
function rare() {
  if (payload.shown.is_all) return percent(0);
  const least = 100 * arrays.least[0];
  const digit = 10 ** (Math.floor(Math.log10(least)) - 1);
  return `< ${Math.max(0.01, Number(((Math.floor(least / digit) + 1) * digit).toPrecision(2)))} %`;
}

/** A probability of the table, 0 if it is not on the page; in a sentence "less than 0.01 %". */
const shown = (p) => (p > 0 ? percent(p) : rare());
const inWords = (p) => shown(p).replace("< ", "less than ").replace("> ", "more than ");

const OFTEN = 0.01;
const MOST_SAID = 1e6; // larger factors promise nothing

/** Which report comes most often, and how many come often; the others are possible too. */
function usualReports(entries, one) {
  const [[first, p]] = entries;
  const usual = entries.filter(([, q]) => q >= OFTEN).length;
  const top = `${quoted(payload.outputs[first])} (${inWords(p)})`;
  if (p > 0.999) return `practically always ${top}`;
  if (usual > 1) return `most often ${top}; ${many(usual, one)} come in 1 % of all cases or more`;
  return `most often ${top}; ${usual ? `every other ${one} comes` : `all ${one}s come`} in less than 1 % of all cases`;
}

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
  const name = quoted(payload.ids[record]), report = quoted(payload.outputs[output]);
  const here = chanceOf(record, output);
  const near = arrays.near[record], away = arrays.near_distances[record];
  const sent = `${name} sends ${report} in ${inWords(here)} of all cases`;
  if (near === record) {
    const within = payload.eta === null ? "" : ` within ${inLength(payload.eta)}`;
    return [`${sent}.`, `It has no other neighbour${within}: nothing is promised about this record.`];
  }
  const there = chanceOf(near, output);
  const epsilon = Math.min(budgetOf(record), budgetOf(near));
  const allowed = Math.exp(epsilon * away);
  const smaller = payload.epsilons ? ", with the smaller epsilon of the two" : "";
  const known = here > 0 && there > 0 ? `: a factor of ${number(Math.max(here, there) / Math.min(here, there), 3)}` : "";
  const apart = payload.kind === "places" ? `${inLength(away)} away` : `at distance ${inLength(away)}`;
  const beside = `its nearest neighbour ${quoted(payload.ids[near])}, ${apart}, in ${inWords(there)}${known}`;
  const proved = allowed < MOST_SAID ? ` = ${number(allowed, 3)}` : ", which is too weak to matter";
  return [`${sent}, ${beside}.`, `Proved is at most exp(ε × distance) = exp(${number(epsilon, 3)} × ${number(away, 3)})${proved}${smaller}.`];
}

/** The largest distance of two points of the region, or of the box around the records; Infinity if the map is not to scale. */
function widest() {
  if (payload.region) return Math.max(distance(low, high), distance([low[0], high[1]], [high[0], low[1]]), distance(low, [low[0], high[1]]), distance([high[0], low[1]], high));
  if (!hasMap || !payload.map.is_round) return Infinity;
  const sides = [0, 1].map((axis) => {
    const along = arrays.places.filter((_, i) => i % 2 === axis);
    return along.reduce((a, b) => Math.max(a, b)) - along.reduce((a, b) => Math.min(a, b));
  });
  return Math.hypot(...sides) * payload.map.scale;
}

const WIDE = 1.01; // of the largest distance: a flat map is a little off

/** The promise at a distance that the reader chooses; where records have epsilons of their own, that of this record. */
function promiseAt(away, record) {
  const apart = inLength(away);
  const isFar = payload.eta !== null && away > payload.eta * (1 + 1e-9);
  const epsilon = isFar ? payload.epsilon : budgetOf(record); // beyond neighbours, steps with larger epsilons add up
  const factor = Math.exp(epsilon * away);
  const who = payload.region ? "points of the region" : areWords ? "words" : "records";
  const other = payload.kind === "places" ? `Somebody ${apart} away` : `${payload.region ? "A point" : `A ${noun}`} at distance ${apart}`;
  const more = 100 * Math.expm1(epsilon * away);
  let words;
  if (away === 0) words = payload.kind === "places" ? "Two people at the same place send every report equally often." : `Two ${who} at distance 0 give every report equally often.`;
  else if (factor < 1.1) words = `${other} would send the same report practically as often: ${more < 0.01 ? "less than 0.01" : `at most ${number(more, 2)}`} % more or less often.`;
  else if (factor < MOST_SAID) words = `${other} would send the same report at least ${partOf(factor)} as often, and at most ${number(factor, 3)} times as often.`;
  else words = `At ${apart} the promise is too weak to matter: one report may tell the two apart.`;
  const own = quoted(payload.ids[record] || "");
  const note = away > WIDE * widest()
    ? `No two ${who} are so far apart.`
    : isFar
      ? `This is farther than η = ${inLength(payload.eta)}: it holds where a chain of neighbours of this length leads there.`
      : payload.epsilons
        ? `It holds for every report, for ${own} and any record so far away, with the epsilon of ${own}; against stricter ones more is promised.`
        : `It holds for every report and for every pair of ${who} so far apart.`;
  const value = factor < MOST_SAID ? ` = ${number(factor, factor < 1.1 ? 6 : 4)}` : ` > ${count(MOST_SAID)}`;
  return { words, note, formula: `exp(ε × distance) = exp(${number(epsilon, 4)} × ${number(away, 4)})${value}` };
}

/** A distance to start with: of places where the factor is about 4, in two digits and among neighbours; of others one that exists. */
function usualDistance() {
  const most = payload.eta === null ? Infinity : payload.eta;
  const near = payload.region || payload.kind === "places" ? 0 : arrays.near_distances[state.record];
  if (near > 0) return Math.min(most, Number(near.toPrecision(4)));
  return Number(Math.min(Math.log(4) / payload.epsilon, most).toPrecision(2));
}

const isInMetres = payload.unit === "km" && Math.min(Math.log(4) / payload.epsilon, payload.eta === null ? Infinity : payload.eta) < 1;

/** The distance in the field of the promise; NaN if what is there is none. */
function askedDistance() {
  const { value } = byId("distance");
  return value.trim() !== "" && Number(value) >= 0 && Number.isFinite(Number(value)) ? Number(value) / (isInMetres ? 1000 : 1) : NaN;
}

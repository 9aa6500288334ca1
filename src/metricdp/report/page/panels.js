// Everything beside and below the map: the chosen record and report, both certificates, the comparison, the bounds.

const MOST_BARS = 7;
const NEARLY_OPTIMAL = 0.05; // a larger gap is stated without a seal

function bars(list, entries, label, choose) {
  const shown = entries.slice(0, MOST_BARS);
  const top = shown.length ? shown[0][1] : 1;
  const rows = shown.map(([which, p]) => {
    const fill = element("div", { class: "fill" });
    fill.style.width = `${(100 * p) / top}%`;
    const row = element("button", { class: "row", type: "button" },
      element("span", { class: "id", text: label(which), title: label(which) }),
      element("div", { class: "track", "aria-hidden": "true" }, fill),
      element("span", { class: "value", text: percent(p) }));
    row.addEventListener("click", () => choose(which));
    return element("li", {}, row);
  });
  const rest = Math.max(0, 1 - shown.reduce((sum, [, p]) => sum + p, 0));
  if (entries.length > MOST_BARS && rest > 1e-4) {
    rows.push(element("li", { class: "rest", text: `${percent(rest)} for all others` }));
  }
  if (!rows.length) rows.push(element("li", { class: "rest", text: "No entry of its own is large enough to be on this page: what all records share is left out." }));
  list.replaceChildren(...rows);
}

function showRecord(state, choose) {
  const i = state.record;
  const entries = reportsOf(i);
  const inComponent = componentSizes.get(arrays.component[i]) - 1;
  const others = nRecords - 1;
  byId("record-name").replaceChildren(element("span", { class: "id", text: payload.ids[i] }));
  const figures = [];
  if (payload.loss) {
    const what = payload.loss.is_own ? "Expected loss" : "Expected distance";
    const versus = arrays.losses[i] / payload.loss.expected;
    figures.push(figure(what, inLength(arrays.losses[i], payload.loss.unit, 4),
      payload.loss.expected > 0 ? `${number(versus, 2)} × the average` : ""));
  }
  figures.push(figure("Chance beforehand", percent(arrays.prior[i]), "the prior"));
  figures.push(figure("Neighbours", count(arrays.neighbours[i]), payload.eta === null ? "" : `within ${inLength(payload.eta)}`));
  figures.push(figure("Protected from", `${count(inComponent)} of ${count(others)}`, inComponent < others ? "others are not connected" : "all other records"));
  byId("record-figures").replaceChildren(...figures);
  byId("record-words").replaceChildren(unbroken(recordSentence(i, entries)));
  bars(byId("record-bars"), entries, (k) => payload.outputs[k], choose.output);
  return entries;
}

function recordSentence(i, entries) {
  if (!entries.length) return "It has no report of its own that is large enough to be on this page: most reports come from what all records share, which is left out.";
  const isDistance = payload.loss && (!payload.loss.is_own || payload.loss.name.startsWith("distance"));
  const off = isDistance ? ` The report is on average ${inLength(arrays.losses[i], payload.loss.unit)} from the truth.` : "";
  const who = payload.kind === "places" ? "Somebody here" : `Somebody with this ${noun}`;
  return `${who} reports ${usualReports(entries, payload.kind === "places" ? "place" : "output")}.${off}`;
}

function showReport(state, choose) {
  const k = state.output;
  const posterior = posteriorOf(k);
  byId("report-name").replaceChildren(element("span", { class: "id", text: payload.outputs[k] }));
  const figures = [figure("Given by anyone", percent(arrays.chance[k]), "of all reports")];
  if (posterior.length) {
    const own = posterior.find(([i]) => i === state.record);
    const before = arrays.prior[state.record];
    const after = own ? own[1] : 0;
    figures.push(figure("Could be any of", number(candidates(posterior), 3), "equally likely records"));
    figures.push(figure("Adversary's best guess", `${payload.ids[posterior[0][0]]}`, `right with ${percent(posterior[0][1])}`));
    figures.push(figure("Suspicion of the true record", `${percent(before)} → ${shown(after)}`,
      changeInWords(before, after)));
    byId("report-words").replaceChildren(...neighbourSentence(state.record, k).map((text, line) => element(line ? "small" : "span", { text: unbroken(text) })));
  } else {
    byId("report-words").replaceChildren("Nobody gives this report.");
  }
  byId("report-figures").replaceChildren(...figures);
  bars(byId("report-bars"), posterior, (i) => payload.ids[i], choose.record);
  return posterior;
}

function heading(id, sign, kind, text) {
  return element("h2", { id }, element("span", { class: `seal ${kind}`, text: sign, "aria-hidden": "true" }), text);
}

const points = (...texts) => element("ul", { class: "points" }, ...texts.map((text) => element("li", { text })));

function showPrivacy() {
  const proof = payload.certificate;
  const box = byId("privacy");
  if (!proof.is_private) {
    box.replaceChildren(heading("privacy-title", "!", "bad", "Nothing is protected"),
      element("p", { class: "warning", text: proof.lines[0] }));
    return;
  }
  const per = payload.unit ? ` per ${payload.unit}` : " per unit of distance";
  const reach = payload.eta === null ? "at any distance" : `within ${inLength(payload.eta)}`;
  const scope = proof.components > 1
    ? `There are ${many(proof.components, "group")} of connected records (${many(proof.isolated, "record")} alone); records of different groups are not protected from one another.`
    : "All records are connected: every pair is protected at the length of the path between them.";
  box.replaceChildren(
    heading("privacy-title", "✓", "", "Private, proved exactly"),
    ...promise(),
    element("p", { class: "small", text: `In general: no report is more than exp(ε × distance) times as likely from one record as from any neighbour ${reach}, with ε = ${payload.epsilons ? `the smaller of their own, ${budgetInWords()}` : budgetInWords()}${per}.` }),
    points(
      `Checked with whole numbers for ${many(proof.pairs, "neighbour pair")}, ${many(proof.outputs, "output")}, both ways: ${count(proof.comparisons)} comparisons, none failed.`,
      `The smallest ε that holds is ${number(proof.tightest_epsilon, 9)}${proof.worst ? `, reached between ${quoted(proof.worst[0])} and ${quoted(proof.worst[1])}` : ""}.`,
      scope,
      `An adversary who knows the prior guesses the true record with ${percent(payload.adversary.before)} before and ${percent(payload.adversary.after)} after a report.`,
    ),
    exactWords(),
  );
}

let sayPromise = () => {}; // again, for another record: epsilons may be the records' own

/** The promise in a sentence, at a distance that can be changed. */
function promise() {
  const field = element("input", { type: "number", id: "distance", min: "0", step: "any", value: Number((usualDistance() * (isInMetres ? 1000 : 1)).toPrecision(12)) });
  const words = element("p", { class: "lead", id: "promise", "aria-live": "polite" });
  const formula = element("p", { class: "small formula" });
  const say = () => {
    const away = field.isConnected ? askedDistance() : usualDistance();
    field.setAttribute("aria-invalid", String(Number.isNaN(away)));
    formula.hidden = false;
    if (Number.isNaN(away)) {
      words.textContent = "Write a distance of 0 or more to see what is promised there.";
      formula.hidden = true;
      return;
    }
    const said = promiseAt(away, state.record);
    words.textContent = unbroken(said.words);
    formula.replaceChildren(element("code", { text: said.formula }), ` ${said.note}`);
  };
  field.addEventListener("input", say);
  sayPromise = say;
  say();
  const asked = element("p", { class: "ask" }, element("label", { for: "distance", text: `Two ${payload.kind === "places" ? "people" : payload.region ? "points" : `${noun}s`} at a distance of` }), field,
    isInMetres ? "metres" : payload.unit);
  return [words, asked, formula];
}

function exactWords() {
  const box = element("details", {}, element("summary", { text: "The certificate word for word" }));
  for (const line of payload.certificate.lines) box.append(element("p", { text: line }));
  return box;
}

/** Whether the loss that the page computes is the one that the file states: a stand-in that is the very same is the file's own. */
function isStated() {
  const stated = payload.certificate.optimality;
  return Boolean(payload.loss && stated) && Math.abs(payload.loss.expected - stated.loss) <= 1e-6 * Math.abs(stated.loss);
}

/** The unit of the loss that the mechanism was made for, if it has one and the page knows it. */
const lossUnit = () => (payload.loss && (payload.loss.is_own || isStated()) ? payload.loss.unit : "");

function showOptimality() {
  const proof = payload.certificate.optimality;
  const box = byId("optimality");
  if (payload.certificate.is_private === false) {
    box.replaceChildren(heading("optimality-title", "i", "plain", "No price, as nothing is protected"),
      element("p", { text: "No record is kept apart from any other, so everybody may report what costs them least. That no mechanism could lose less says nothing here." }));
    return;
  }
  if (!proof) {
    box.replaceChildren(heading("optimality-title", "i", "plain", "No proof of optimality"),
      element("p", { class: "lead", text: "This mechanism comes without a lower bound: a better one with the same privacy may exist." }));
    return;
  }
  const unit = lossUnit(), isSame = isStated();
  const isFile = payload.certificate.is_from_file;
  const notes = [`Its expected loss is ${inLength(proof.loss, unit, 6)}; every mechanism with this privacy loses at least ${inLength(proof.lower_bound, unit, 6)}.`];
  if (isFile) notes.push("The lower bound is the file's claim, made by the solver that wrote it: loading the file proves the privacy again, not the bound.");
  if (isFile && payload.loss && payload.loss.is_own) {
    // a file's losses and its stated figure are two claims: say whether they fit
    notes.push(isSame
      ? "The expected loss was computed again from the table for this page and agrees."
      : `Computed again from the table for this page, the expected loss is ${inLength(payload.loss.expected, unit, 6)}: this is NOT what the file states.`);
  }
  if (payload.certificate.solver) notes.push(`Found by: ${payload.certificate.solver}.`);
  box.replaceChildren(
    proof.gap <= NEARLY_OPTIMAL
      ? heading("optimality-title", "✓", "", isFile ? "Nearly optimal, as its solver proved" : "Nearly optimal, with a proven bound")
      : heading("optimality-title", "i", "plain", "Not proved to be close to optimal"),
    element("p", { class: "big", text: gapPercent(proof.gap) },
      element("small", { text: "is the most by which any mechanism with the same privacy could be better" })),
    points(...notes),
  );
}

function showComparison() {
  const box = byId("comparison");
  const title = heading("comparison-title", "≡", "plain", "What privacy costs here");
  if (!payload.loss) {
    box.replaceChildren(title, element("p", { text: `The losses are not known: they are not in the file, and the metric (${payload.metric}) cannot be computed again.` }));
    return;
  }
  const { loss } = payload;
  const rows = [{ name: "this mechanism", loss: loss.expected, certified: true, isOurs: true }, ...payload.compared];
  rows.sort((a, b) => a.loss - b.loss);
  const most = Math.max(...rows.map((row) => row.loss), 1e-300);
  const list = element("ul", { class: "comparison" });
  for (const row of rows) {
    const fill = element("div", { class: "fill" });
    fill.style.width = `${(100 * row.loss) / most}%`;
    const more = row.isOurs || loss.expected === 0 ? "" : ` (${row.loss >= loss.expected ? "+" : "−"}${number(Math.abs(100 * (row.loss / loss.expected - 1)), 3)} %)`;
    list.append(element("li", { class: `${row.isOurs ? "ours" : ""} ${row.certified ? "" : "uncertified"}` },
      element("div", { class: "head" }, element("b", { class: "id", text: row.name }), element("span", { text: inLength(row.loss, loss.unit, 4) + more })),
      element("div", { class: "track", "aria-hidden": "true" }, fill),
      ...(payload.certificate.is_private === false ? [] : [element("p", { class: "mark-text", text: row.certified ? "certified at the same ε" : "does not satisfy this ε" })])));
  }
  const what = loss.words || (loss.is_own
    ? `Expected loss (${loss.name}) of mechanisms with the same records, outputs and ε.`
    : "The file does not say which loss the mechanism was made for, so these are expected distances from record to report. A mechanism made for another loss need not be the best here.");
  box.replaceChildren(title, element("p", { class: "small", text: what }), list);
}

/** What of the table is not on this page. */
function showLeftOut() {
  const { entries, of, left_out: missing, background } = payload.shown;
  if (missing < 5e-5 && !(background >= 5e-5)) return;
  const shared = !(background >= 5e-5) ? "" : `, and ${percent(background)} of all reports come from a background that all records share`;
  byId("left-out").textContent = `This page holds ${count(entries)} of ${count(of)} stored probabilities${shared}. What it leaves out is ${inWords(missing)} of all reports; the figures above count all.`;
  byId("left-out").hidden = false;
}

function showFile() {
  if (!payload.file) return;
  const box = byId("file");
  const copy = element("button", { type: "button", class: "quiet", text: "Copy" });
  copy.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(payload.file.sha256);
      announce("SHA-256 copied");
      copy.textContent = "Copied";
    } catch {
      const range = document.createRange();
      range.selectNodeContents(byId("sha256"));
      getSelection().removeAllRanges();
      getSelection().addRange(range);
      copy.textContent = "Selected";
    }
  });
  box.replaceChildren(
    element("h2", { id: "file-title" }, "The mechanism file"),
    element("p", { class: "small" }, element("b", { class: "id", text: payload.file.name }),
      ` · ${count(payload.file.bytes)} bytes · SHA-256, as sha256sum gives it:`),
    element("div", { class: "hash" }, element("code", { id: "sha256", text: payload.file.sha256 }), copy),
    element("p", { class: "small" }, "Prove the privacy again with ", element("code", { text: `metricdp verify ${/^[\w.-]+$/.test(payload.file.name) ? payload.file.name : "FILE.mdp"}` })),
  );
  box.hidden = false;
}

/** Whether the bounds are those of all records together. */
const isWhole = (series) => series.name === "all records" || payload.certificate.components === 1;

function ticks(low, high, wanted) {
  const raw = (high - low) / wanted || 1;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((f) => f * power).find((s) => s >= raw);
  const found = [];
  for (let t = Math.ceil(low / step) * step; t <= high + step * 1e-9; t += step) found.push(Math.abs(t) < step * 1e-9 ? 0 : t);
  return found;
}

function drawBounds(holder, series) {
  const width = Math.max(280, holder.clientWidth || 560), height = 250;
  const [left, right, top, bottom] = [62, 14, 8, 40];
  const known = [...series.lower, ...series.upper].filter((v) => v !== null);
  let [low, high] = [Math.min(...known), Math.max(...known)];
  const pad = (high - low) * 0.08 || Math.abs(high) * 0.01 || 1;
  [low, high] = [low - pad, high + pad];
  const begin = series.seconds[0], end = series.seconds[series.seconds.length - 1];
  const x = (t) => left + ((t - begin) / (end - begin || 1)) * (width - left - right);
  const y = (v) => top + (1 - (v - low) / (high - low)) * (height - top - bottom);
  const chart = svg("svg", { viewBox: `0 0 ${width} ${height}`, height, role: "img",
    "aria-label": `Lower and upper bound of ${isWhole(series) ? "all records" : series.name} over time; the table below has the numbers` });
  for (const v of ticks(low, high, 4)) {
    chart.append(svg("line", { class: "axis", x1: left, x2: width - right, y1: y(v), y2: y(v) }));
    chart.append(svg("text", { x: left - 8, y: y(v) + 4, "text-anchor": "end" }, number(v, 4)));
  }
  for (const t of ticks(begin, end, width < 420 ? 3 : 5)) chart.append(svg("text", { x: x(t), y: height - 22, "text-anchor": "middle" }, number(t, 3)));
  chart.append(svg("text", { x: (left + width - right) / 2, y: height - 4, "text-anchor": "middle" }, "seconds"));
  const line = (values) => {
    let path = "", last = null;
    values.forEach((v, s) => {
      if (v === null) return;
      path += last === null ? `M${x(series.seconds[s])},${y(v)}` : `H${x(series.seconds[s])}V${y(v)}`;
      last = v;
    });
    return path;
  };
  for (const [name, values] of [["lower", series.lower], ["upper", series.upper]]) {
    chart.append(svg("path", { class: name, d: line(values) }));
  }
  const unit = lossUnit() ? ` in ${lossUnit()}` : "";
  const what = isWhole(series) ? `Expected loss${unit}` : `Share of ${series.name} in the expected loss${unit}`;
  const key = element("p", { class: "key" }, element("span", { text: what }),
    ...["upper", "lower"].filter((name) => series[name].some((v) => v !== null)).map((name) => element("span", { class: `label-${name}`, text: `${name} bound` })));
  holder.replaceChildren(key, chart);
}

function boundsTable(series) {
  const body = element("tbody");
  series.seconds.forEach((t, s) => body.append(element("tr", {},
    ...[number(t, 4), ...[series.lower[s], series.upper[s]].map((v) => (v === null ? "–" : number(v, 6)))].map((text) => element("td", { text })))));
  return element("details", {}, element("summary", { text: "As a table" }),
    element("table", {}, element("thead", {}, element("tr", {}, ...["seconds", "lower bound", "upper bound"].map((text) => element("th", { scope: "col", text })))), body));
}

function showConvergence() {
  const found = payload.convergence;
  if (!found) return;
  const box = byId("convergence");
  box.hidden = false;
  const title = heading("convergence-title", "↘", "plain", "How the bounds closed in");
  const end = found.certified
    ? element("p", { class: "small", text: `The whole run ended with lower bound ${inUnit(found.certified[0], lossUnit(), 6)} and certified loss ${inUnit(found.certified[1], lossUnit(), 6)}.` })
    : "";
  const long = found.series.filter((one) => one.seconds.length > 1);
  if (!long.length) {
    box.replaceChildren(title, element("p", { text: "The trace has at most one pair of bounds for each group of records: there is no curve to draw." }), end);
    return;
  }
  const holder = element("div", { class: "chart" });
  const table = element("div");
  const select = element("select", { id: "series" }, ...long.map((one, s) => element("option", { value: s, text: `${one.name} (${one.seconds.length} steps)` })));
  const draw = () => {
    drawBounds(holder, long[select.value]);
    table.replaceChildren(boundsTable(long[select.value]));
  };
  select.addEventListener("change", draw);
  const pick = element("p", { class: "pick" }, element("label", { for: "series", text: "Group of records " }), select);
  box.replaceChildren(title, end, ...(long.length > 1 ? [pick] : []), holder, table);
  draw();
  let before = holder.clientWidth;
  new ResizeObserver(() => {
    if (holder.clientWidth !== before) drawBounds(holder, long[select.value]);
    before = holder.clientWidth;
  }).observe(holder);
}

function showFacts() {
  const proof = payload.certificate;
  const noun = payload.kind === "places" ? "place" : "record";
  const items = [
    [count(nRecords), ` ${nRecords === 1 ? noun : `${noun}s`}`],
    [count(nOutputs), nOutputs === 1 ? " output" : " outputs"],
    [`ε ${budgetInWords(4)}`, payload.unit ? ` per ${payload.unit}` : ""],
    [payload.eta === null ? "all" : inLength(payload.eta), payload.eta === null ? " are neighbours" : " neighbour distance"],
  ].map(([strong, rest]) => element("li", {}, element("b", { text: strong }), rest));
  if (proof.is_private) items.push(element("li", { class: "good", text: "✓ private, proved" }));
  else items.unshift(element("li", { class: "bad", text: "nothing is protected" }));
  if (proof.is_private && proof.optimality) items.push(proof.optimality.gap <= NEARLY_OPTIMAL
    ? element("li", { class: "good", text: `✓ within ${gapPercent(proof.optimality.gap)} of optimal` })
    : element("li", { text: `within ${gapPercent(proof.optimality.gap)} of optimal` }));
  byId("facts").replaceChildren(...items);
  byId("title").append(element("span", { class: "id", text: payload.name }));
}

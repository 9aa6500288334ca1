// The state of the page and what changes it.

const byChance = (a, b) => arrays.chance[b] - arrays.chance[a] || a - b;
const state = { view: "record", record: 0, output: 0, order: Array.from({ length: nOutputs }, (_, k) => k).sort(byChance) };
const outputOfRow = new Map((payload.output_rows || []).map((row, k) => [row, k]));
const choose = { record: chooseRecord, output: chooseOutput };

/** Choose a record, and with it the report that it gives most often: the two always belong together. */
function chooseRecord(i) {
  const likely = likelyReportOf(i);
  [state.record, state.view] = [i, "record"];
  if (likely >= 0) state.output = likely;
  showChosenRecord();
}

function showChosenRecord() {
  const i = state.record;
  const entries = update();
  const likely = entries.slice(0, 3).map(([k, p]) => `${payload.outputs[k]} ${percent(p)}`).join(", ");
  const loss = payload.loss ? `expected ${payload.loss.is_own ? "loss" : "distance"} ${inLength(arrays.losses[i], payload.loss.unit, 4)}; ` : "";
  announce(`Record ${payload.ids[i]}: ${loss}most likely reports ${likely}`);
}

function chooseOutput(k) {
  [state.output, state.view] = [k, "report"];
  const posterior = update();
  const likely = posterior.slice(0, 3).map(([i, p]) => `${payload.ids[i]} ${percent(p)}`).join(", ");
  announce(likely ? `Report ${payload.outputs[k]}: most likely true records ${likely}` : `Report ${payload.outputs[k]} is never given`);
}

function chooseView(view) {
  state.view = view;
  update();
  announce(view === "record" ? "Showing what the record reports" : "Showing what the report reveals");
}

/** Show the state; gives the entries of the view. */
function update() {
  const isRecord = state.view === "record";
  const entries = [showRecord(state, choose), showReport(state, choose)][isRecord ? 0 : 1];
  byId("record-card").classList.toggle("active", isRecord);
  byId("report-card").classList.toggle("active", !isRecord);
  byId(isRecord ? "view-record" : "view-report").checked = true;
  if (payload.epsilons) sayPromise();
  const slider = byId("slider");
  const rank = state.order.indexOf(state.output);
  const said = `${payload.outputs[state.output]}, ${count(rank + 1)} of ${count(nOutputs)}`;
  slider.value = rank;
  slider.setAttribute("aria-valuetext", `${said}, given by ${percent(arrays.chance[state.output])} of all`);
  byId("slider-value").replaceChildren(element("span", { class: "id", text: said }));
  const box = byId("stage");
  [box.dataset.view, box.dataset.record, box.dataset.output] = [state.view, state.record, state.output];
  byId("map").setAttribute("aria-label", isRecord
    ? `Map of ${many(nRecords, "record")}; chosen: record ${payload.ids[state.record]} and its reports`
    : `Map of ${many(nRecords, "record")}; chosen: report ${payload.outputs[state.output]} and the records it may come from`);
  showDrawn(state);
  legend();
  if (stage) {
    stage.draw();
    stage.show(isRecord ? state.record : state.output);
  }
  return entries;
}

function legend() {
  const reported = drawn.times ? [["seen", "report that was drawn"]] : [];
  const items = state.view === "record"
    ? [["truth", "true record"], ...reported, ["likely", "report: area is its probability"], ["other", "other records"], ["near", "neighbours within η"]]
    : [["seen", "report that was seen"], ["guess", "true record: area is its posterior"], ["truth", "chosen record"], ["other", "other records and reports"]];
  const isShown = ([sign]) => sign !== "near" || (hasMap && payload.map.is_round && payload.eta !== null);
  byId("legend").replaceChildren(...items.filter(isShown).map(([sign, text]) => element("div", {}, element("i", { class: sign }), text)));
}

function startSearch() {
  const input = byId("search"), box = byId("matches");
  const names = payload.ids.map((id) => id.toLowerCase());
  let found = [], active = -1;
  input.placeholder = `One of ${many(nRecords, noun)}, such as ${quoted(payload.ids[state.record])}`;

  function close() {
    box.hidden = true;
    active = -1;
    input.setAttribute("aria-expanded", "false");
    input.removeAttribute("aria-activedescendant");
  }

  function open() {
    const wanted = input.value.trim().toLowerCase();
    if (!wanted) return close();
    const starts = [], inside = [];
    for (let i = 0; i < names.length && starts.length < 50; i++) {
      const at = names[i].indexOf(wanted);
      if (at === 0) starts.push(i);
      else if (at > 0 && inside.length < 50) inside.push(i);
    }
    found = [...starts, ...inside].slice(0, 50);
    active = found.length ? 0 : -1;
    show();
    announce(found.length ? `${found.length === 50 ? "50 or more" : found.length} records match` : "No record matches");
  }

  function show() {
    const rows = found.map((i, place) => {
      const row = element("li", { role: "option", id: `match-${place}`, "aria-selected": String(place === active) },
        element("span", { class: "id", text: payload.ids[i] }),
        element("small", { text: payload.loss ? inLength(arrays.losses[i], payload.loss.unit) : percent(arrays.prior[i]) }));
      row.addEventListener("pointerdown", (event) => event.preventDefault());
      row.addEventListener("click", () => take(place));
      return row;
    });
    box.replaceChildren(...(rows.length ? rows : [element("li", { class: "none", text: "No record has this in its name" })]));
    box.hidden = false;
    input.setAttribute("aria-expanded", "true");
    if (active < 0) return input.removeAttribute("aria-activedescendant");
    input.setAttribute("aria-activedescendant", `match-${active}`);
    rows[active].scrollIntoView({ block: "nearest" });
  }

  function take(place) {
    const i = found[place];
    input.value = payload.ids[i];
    close();
    chooseRecord(i);
    stage.showChosen();
  }

  input.addEventListener("input", open);
  input.addEventListener("focus", () => input.select());
  input.addEventListener("blur", close);
  input.addEventListener("keydown", (event) => {
    if (event.key === "Escape") return close();
    if (event.key === "Enter" && active >= 0) return take(active);
    if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
    event.preventDefault();
    if (box.hidden) return open();
    active = (active + (event.key === "ArrowDown" ? 1 : found.length - 1)) % Math.max(1, found.length);
    show();
  });
}

/** A record that has something to show: the one that spreads its reports the most. */
function firstRecord() {
  let best = 0, most = -1;
  for (let i = 0; i < nRecords; i++) {
    let spread = 0;
    for (let e = arrays.starts[i]; e < arrays.starts[i + 1]; e++) spread -= chances[e] * Math.log(chances[e]);
    if (spread > most) [best, most] = [i, spread];
  }
  return best;
}

startTheme();
state.record = firstRecord();
state.output = Math.max(likelyReportOf(state.record), 0);
byId("slider").max = nOutputs - 1;
showFacts();
showPrivacy();
showOptimality();
showComparison();
showConvergence();
showFile();
showLeftOut();
startSearch();
document.body.classList.toggle("has-lists", !hasMap);
stage = hasMap ? makeMap(state, choose) : makeLists(state, choose);
update();
byId("slider").addEventListener("input", (event) => chooseOutput(state.order[Number(event.target.value)]));
for (const view of ["record", "report"]) byId(`view-${view}`).addEventListener("change", () => chooseView(view));
// Buttons of the chosen record go into #record-actions. `state.record` is the chosen record, `chooseOutput(k)` shows report k
// and what it reveals. `reportsOf` gives probabilities that are rounded for showing: a button that reports must never draw
// from them, but from the exact table of the file, as sample.js does.
startSampling(state);

// for scripts that drive this page: where a record is on the map, in pixels from its corner
if (hasMap) window.metricdpExplorer = Object.freeze({ placeOf: stage.placeOf, spotOf: stage.spotOf, names: stage.names });
document.documentElement.dataset.ready = "true";

// The page of a region: the chosen point, what is reported from it, the promise, and a draw in the page.

const middle = low.map((value, way) => (value + high[way]) / 2);
const state = { point: middle, entries: [], distance: usualDistance(), drawn: -1, times: 0 };
let sampler = null;

const DIGITS = arePlaces ? 6 : 9;
const pointWords = (point) => point.map((value) => (arePlaces ? value.toFixed(DIGITS) : number(value, DIGITS))).join(", ");

/** Choose a point; one outside moves to the border, as mechanisms do if they are asked to. */
function choosePoint(asked) {
  const isMoved = !isInside(asked);
  [state.point, state.drawn, state.times] = [atBorder(asked), -1, 0];
  update();
  const likely = state.entries.slice(0, 3).map(([k, p]) => `${payload.outputs[k]} ${percent(p)}`).join(", ");
  announce(`${isMoved ? "Outside the region, moved to its border. " : ""}Point ${pointWords(state.point)}: most likely reports ${likely}`);
  byId("record-kicker").textContent = isMoved ? "That point is outside: moved to the border" : "True point: any point of the region";
}

function update() {
  const { point } = state;
  state.entries = reportsAt(point);
  byId("record-name").textContent = pointWords(point);
  byId("search").value = pointWords(point);
  const total = state.entries.reduce((sum, [, p]) => sum + p, 0);
  const byDistance = state.entries.map(([k, p]) => [distance(point, spotOfOutput(k)), p / total]).sort((a, b) => a[0] - b[0]);
  const mean = byDistance.reduce((sum, [away, p]) => sum + away * p, 0);
  const quantile = (share) => {
    let seen = 0;
    return (byDistance.find(([, p]) => (seen += p) >= share) || byDistance[byDistance.length - 1])[0];
  };
  const usual = state.entries.filter(([, p]) => p >= OFTEN).length;
  byId("record-words").replaceChildren(
    unbroken(`Somebody exactly here reports ${usualReports(state.entries, arePlaces ? "place" : "output")}. The report is on average ${inLength(mean)} away.`),
    element("small", { id: "around", class: "around" }));
  byId("record-figures").replaceChildren(
    figure("Average distance to the report", inLength(mean)),
    figure("Half of the reports", `within ${inLength(quantile(0.5))}`),
    figure("Nine of ten reports", `within ${inLength(quantile(0.9))}`),
    figure("Reports of 1 % and more", count(usual), `of ${many(nOutputs, "output")}`));
  bars(byId("record-bars"), state.entries, (k) => payload.outputs[k], (k) => choosePoint(spotOfOutput(k)));
  showAround();
  showDrawn();
  legend();
  byId("stage").dataset.point = point.join(" ");
  byId("map").setAttribute("aria-label", `Map of the region; chosen: the point ${pointWords(point)}`);
  if (stage) stage.draw();
}

/** What the promise is at work here: the largest change around the point at the reader's distance. */
function showAround() {
  const others = circle(state.point, state.distance);
  const factor = largestFactor(state.point, others);
  const allowed = Math.exp(payload.epsilon * state.distance);
  byId("around").textContent = !others.length
    ? `No point of the region is ${inLength(state.distance)} from here.`
    : unbroken(`Of ${count(others.length)} points ${inLength(state.distance)} from here, none changes how often a report comes by more than a factor ${number(factor, 3)}; ${allowed < MOST_SAID ? `proved is at most ${number(allowed, 3)}` : "what is proved is too weak to matter"}.`);
}

function legend() {
  const items = [["truth", "chosen point"], ["likely", "report: area is its probability"], ...(state.drawn >= 0 ? [["seen", "report that was drawn"]] : []),
    ["box", "the region"], ["cell", "cells of the lattice"], ["other", "other outputs"], ["near", `${unbroken(inLength(state.distance))} around it`]];
  byId("legend").replaceChildren(...items.map(([sign, text]) => element("div", {}, element("i", { class: sign }), text)));
}

function showPromise() {
  const proof = payload.certificate;
  const per = payload.unit ? ` per ${payload.unit}` : " per unit of distance";
  byId("privacy").replaceChildren(
    heading("privacy-title", "✓", "", "Private at every point, proved exactly"),
    ...promise(),
    element("p", { class: "small", text: `In general: for any two points of the region, however near or far, no report is more than exp(ε × distance) times as likely from one as from the other, with ε = ${budget(payload.epsilon, 6)}${per}.` }),
    points(
      `Checked with whole numbers: ${count(proof.inequalities)} inequalities for ${many(proof.coefficients, "coefficient")} of splines and ${many(nOutputs, "output")}, none failed. They cover all points of all cells.`,
      `The smallest ε that they prove is ${number(proof.tightest_epsilon, 9)}.`,
      `Coordinates are rounded by at most ${number(payload.region.rounding * (payload.unit === "km" ? 1e6 : 1), 2)}${payload.unit === "km" ? " millimetres" : ""} first.`,
      "Each report spends the budget again: near-by points do not share one.",
    ),
    exactWords(),
  );
  byId("distance").addEventListener("input", () => {
    const asked = askedDistance();
    if (!(asked > 0)) return;
    state.distance = asked;
    showAround();
    legend();
    stage.draw();
  });
}

function showRegionFacts() {
  const proof = payload.certificate;
  const items = [
    [`${cells[0]} × ${cells[1]}`, " cells"],
    [count(nOutputs), nOutputs === 1 ? " output" : " outputs"],
    [`ε ${budget(payload.epsilon, 4)}`, payload.unit ? ` per ${payload.unit}` : ""],
  ].map(([strong, rest]) => element("li", {}, element("b", { text: strong }), rest));
  items.push(element("li", { class: "good", text: "✓ all points private, proved" }));
  if (proof.optimality) items.push(element("li", proof.optimality.gap <= NEARLY_OPTIMAL
    ? { class: "good", text: `✓ within ${gapPercent(proof.optimality.gap)} of optimal` }
    : { text: `within ${gapPercent(proof.optimality.gap)} of optimal` }));
  byId("facts").replaceChildren(...items);
  byId("title").textContent = payload.name;
}

/** Read the mechanism file inside this page and prove it private, or refuse it; at the first click, as it takes a moment. */
async function readSampler() {
  const bytes = Uint8Array.from(atob(payload.sampling.file), (sign) => sign.charCodeAt(0));
  const unpacked = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  const found = metricdpPlane.load(await new Response(unpacked).arrayBuffer());
  const { epsilon, outputs, nodes } = found.certificate;
  if (epsilon !== payload.epsilon || outputs !== nOutputs || nodes !== nRecords) throw new Error("the file inside this page is of another mechanism than the page shows");
  return found;
}

/** Say what was drawn for the point; nothing once another one is chosen. */
function showDrawn() {
  const said = byId("drawn");
  if (!said) return;
  said.hidden = state.times === 0;
  if (said.hidden) return;
  const entry = state.entries.find(([k]) => k === state.drawn);
  said.replaceChildren(
    "Drawn: ", element("b", { class: "id", text: payload.outputs[state.drawn] }), `, which comes with ${inWords(entry ? entry[1] : 0)}.`,
    element("small", { text: state.times === 1
      ? "By the exact table, with this device's randomness; nothing was sent."
      : `${count(state.times)} reports drawn here: each one that is sent spends the budget again.` }));
}

function startSampling() {
  const box = byId("record-actions");
  if (!payload.sampling.file) {
    box.append(element("p", { class: "drawn", id: "not-drawn", text: `No report can be drawn in this page: ${payload.sampling.why}.` }));
    return;
  }
  const button = element("button", { type: "button", class: "draw", id: "draw", text: "Report from here" });
  const said = element("p", { class: "drawn", id: "drawn" });
  said.hidden = true;
  box.append(button, said);
  let isBusy = false;
  const say = (text) => {
    said.hidden = false;
    said.replaceChildren(text);
    announce(text);
  };
  button.addEventListener("click", async () => {
    if (isBusy) return;
    try {
      if (!sampler) {
        isBusy = true;
        say("Checking the mechanism file …");
        await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
        sampler = await readSampler();
      }
      state.drawn = sampler.perturbPoint(...state.point).output;
      state.times += 1;
      update();
      announce(`Drawn: report ${payload.outputs[state.drawn]}`);
    } catch (error) {
      say(`Nothing was drawn: ${error.message}`);
    } finally {
      isBusy = false;
    }
  });
}

function startFinder() {
  const field = byId("search");
  field.placeholder = arePlaces ? "A point: latitude, longitude" : "A point: two coordinates";
  field.addEventListener("focus", () => field.select());
  byId("finder").addEventListener("submit", (event) => {
    event.preventDefault();
    const asked = field.value.split(/[,\s]+/).filter(Boolean).map(Number);
    if (asked.length !== 2 || !asked.every(Number.isFinite)) {
      byId("record-kicker").textContent = "Write two numbers with a comma between";
      announce("Write two numbers with a comma between");
      return;
    }
    choosePoint(asked);
    stage.show();
  });
}

startTheme();
showRegionFacts();
showPromise();
showOptimality();
showComparison();
showConvergence();
showFile();
startFinder();
startSampling();
update();
stage = makeRegionMap(state, choosePoint);
stage.draw();
const { left_out: missing } = payload.shown;
if (missing >= 5e-5) {
  byId("left-out").textContent = `This page holds what is worth showing: it leaves out ${percent(missing)} of the reports.`;
  byId("left-out").hidden = false;
}

// for scripts that drive this page: where a point is on the map, in pixels from its corner
window.metricdpExplorer = Object.freeze({ placeOf: stage.placeOf, chancesAt: (point) => Array.from(chancesAt(point)) });
document.documentElement.dataset.ready = "true";

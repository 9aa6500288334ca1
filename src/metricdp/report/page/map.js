// The map: the ground, records, and on them what the chosen record reports or what the chosen report reveals.

const RECORDS_AROUND = 12;
const LEAST_RAY = 0.15; // of the largest probability; smaller ones have a disc and no ray

function makeMap(state, choose) {
  const { places, output_places: spots } = arrays;
  const half = [0, 1].map((axis) => {
    let most = 0;
    for (let i = axis; i < places.length; i += 2) most = Math.max(most, Math.abs(places[i]));
    for (let k = axis; k < spots.length; k += 2) most = Math.max(most, Math.abs(spots[k]));
    return Math.max(most, 1e-3);
  });
  let isOpened = false; // whether the chosen record has been zoomed to
  let written = []; // names
  const own = { draw: drawNow, click, arrow, told, chosen: () => targets().at(targets().now), showChosen, fitted };
  const map = makeCanvas({ half, closest: closestOf(places), unitLength: payload.map.scale, own });
  const placeOf = (i) => map.toScreen(places[2 * i], places[2 * i + 1]);
  const spotOf = (k) => map.toScreen(spots[2 * k], spots[2 * k + 1]);

  /** The ground and the records do not change with the choice: they are drawn once for each view of the map and copied. */
  const ground = document.createElement("canvas");
  let groundKey = "";

  function drawGround() {
    const { canvas, view, ratio, colours } = map;
    const key = [map.width, map.height, ratio, view.zoom, view.x, view.y, colours.map, colours.dot].join(" ");
    if (key !== groundKey) {
      groundKey = key;
      [ground.width, ground.height] = [canvas.width, canvas.height];
      const above = map.pen;
      map.pen = ground.getContext("2d");
      map.pen.setTransform(ratio, 0, 0, ratio, 0, 0);
      map.drawBelow();
      drawDots(dotRadius());
      map.pen = above;
    }
    map.clear();
    map.pen.drawImage(ground, 0, 0, map.width, map.height);
  }

  /** Dots grow with the zoom, so that they can be told apart and hit. */
  function dotRadius() {
    const small = (nRecords > 2000 ? 1.5 : nRecords > 500 ? 1.9 : 2.4) * (map.width < 500 ? 0.75 : 1);
    return Math.min(4, small * map.view.zoom ** 0.3);
  }

  function drawDots(radius) {
    const { pen, colours } = map;
    pen.fillStyle = colours.dot;
    pen.beginPath();
    for (let i = 0; i < nRecords; i++) {
      const [x, y] = placeOf(i);
      if (x < -9 || y < -9 || x > map.width + 9 || y > map.height + 9) continue;
      pen.moveTo(x + radius, y);
      pen.arc(x, y, radius, 0, 2 * Math.PI);
    }
    pen.lineWidth = 1.5;
    pen.strokeStyle = colours.map;
    pen.stroke();
    pen.fill();
  }

  function drawRays(entries, from) {
    const { pen } = map;
    const top = entries.length ? entries[0][1] : 1;
    pen.strokeStyle = map.colours.accent;
    for (const [k, p] of entries) {
      if (p / top < LEAST_RAY) break;
      pen.globalAlpha = 0.08 + 0.5 * (p / top);
      pen.lineWidth = 0.7 + 1.8 * (p / top);
      pen.beginPath();
      pen.moveTo(...from);
      pen.lineTo(...spotOf(k));
      pen.stroke();
    }
    pen.globalAlpha = 1;
  }

  function drawReach([x, y]) {
    const radius = payload.eta === null || !payload.map.is_round ? 0 : (payload.eta / payload.map.scale) * map.scale();
    showSign("near", map.isCircleInSight([x, y], radius));
    if (!radius) return;
    map.disc(x, y, radius);
    map.strokeReach();
  }

  function drawNames() {
    for (let i = 0; i < nRecords; i++) {
      const [x, y] = placeOf(i);
      if (x > 0 && y > 0 && x < map.width && y < map.height) map.covered.dots.push([x, y, 0.7 * dotRadius()]);
    }
    written = map.drawNames();
  }

  function drawNow() {
    const { colours } = map;
    drawGround();
    const truth = placeOf(state.record);
    if (state.view === "record") {
      drawReach(truth);
      const entries = reportsOf(state.record);
      drawRays(entries, truth);
      map.drawDiscs(entries, spotOf, colours.accent);
      map.drawTruth(truth);
      if (drawn.times) map.drawSeen(spotOf(drawn.output), 8, colours.ink);
    } else {
      for (let k = 0; k < nOutputs; k++) map.drawSeen(spotOf(k), 3.6, colours.dot);
      map.drawDiscs(posteriorOf(state.output), placeOf, colours.warm);
      map.drawTruth(truth);
      map.drawSeen(spotOf(state.output), 10, colours.ink);
    }
    drawNames();
    map.drawScaleBar();
    map.canvas.dataset.drawn = `${state.view} ${state.record} ${state.output} ${map.view.zoom}`;
  }

  function fitted() {
    if (!isOpened) showChosen();
    isOpened = true;
  }

  /** Zoom to the chosen record or report, most of what it stands for, and a few records around it. */
  function showChosen() {
    const isRecord = state.view === "record";
    const [here, there] = isRecord ? [places, spots] : [spots, places];
    const [x, y] = [here[2 * (isRecord ? state.record : state.output)], here[2 * (isRecord ? state.record : state.output) + 1]];
    let [left, right, low, high, seen] = [x, x, y, y, 0];
    for (const [which, p] of isRecord ? reportsOf(state.record) : posteriorOf(state.output)) {
      if (seen > MOST_SEEN) break;
      seen += p;
      [left, right] = [Math.min(left, there[2 * which]), Math.max(right, there[2 * which])];
      [low, high] = [Math.min(low, there[2 * which + 1]), Math.max(high, there[2 * which + 1])];
    }
    const away = Array.from({ length: nRecords }, (_, i) => Math.max(Math.abs(places[2 * i] - x), Math.abs(places[2 * i + 1] - y))).sort((a, b) => a - b);
    const around = Math.max(away[Math.min(nRecords - 1, RECORDS_AROUND)], 1e-6);
    map.showBox(Math.min(left, x - around), Math.max(right, x + around), Math.min(low, y - around), Math.max(high, y + around));
  }

  /** What a click or an arrow key chooses: a record, or a report where the map shows what reports reveal. */
  const targets = () =>
    state.view === "record"
      ? { size: nRecords, at: placeOf, now: state.record, choose: choose.record }
      : { size: nOutputs, at: spotOf, now: state.output, choose: choose.output };

  function click(x, y, isMouse) {
    const { size, at, choose: take } = targets();
    const found = map.nearest(x, y, isMouse ? 24 : 34, size, at);
    if (found >= 0) take(found);
  }

  function arrow(dx, dy) {
    const { size, at, now, choose: take } = targets();
    const [x, y] = at(now);
    let best = -1, least = Infinity;
    for (let i = 0; i < size; i++) {
      const [a, b] = at(i);
      const along = (a - x) * dx + (b - y) * dy;
      const across = Math.abs((a - x) * dy) + Math.abs((b - y) * dx);
      if (along <= 1e-6 || across > along) continue;
      const cost = along + 2 * across;
      if (cost < least) [best, least] = [i, cost];
    }
    if (best >= 0) take(best);
    show(targets().now);
  }

  const show = (which) => map.showPlace(targets().at(which));

  /** What the tooltip says of the record or output under the pointer. */
  function told(x, y) {
    const { size, at } = targets();
    const found = map.nearest(x, y, 18, size, at);
    if (found < 0) return null;
    if (state.view !== "record") return [payload.outputs[found], `reported by ${percent(arrays.chance[found])} of all`];
    const k = outputOfRow.get(found);
    if (k === undefined) return [payload.ids[found], arrays.losses ? `expected loss ${inLength(arrays.losses[found], payload.loss.unit)}` : ""];
    const entry = reportsOf(state.record).find(([which]) => which === k);
    return [payload.ids[found], `${quoted(payload.ids[state.record])} reports it in ${inWords(entry ? entry[1] : 0)}`];
  }

  map.open();
  return { draw: map.draw, paint: map.paint, show, showChosen, placeOf, spotOf, names: () => written };
}

/** How far apart the two closest places are (x and y one after the other), of those that are not the same. */
function closestOf(places) {
  const order = Array.from({ length: places.length / 2 }, (_, i) => i).sort((a, b) => places[2 * a] - places[2 * b]);
  let least = 1;
  order.forEach((a, rank) => {
    for (let next = rank + 1; next < order.length; next++) {
      const [dx, dy] = [places[2 * order[next]] - places[2 * a], places[2 * order[next] + 1] - places[2 * a + 1]];
      if (dx >= least) break;
      const away = Math.hypot(dx, dy);
      if (away > 1e-6) least = Math.min(least, away);
    }
  });
  return least;
}

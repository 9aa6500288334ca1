// The map: the ground, records, and on them what the chosen record reports or what the chosen report reveals.

const MOST_ZOOM = 200;
const MOST_SEEN = 0.8; // of the reports are in sight when the map zooms to a record
const RECORDS_AROUND = 12;
const LEAST_RAY = 0.15; // of the largest probability; smaller ones have a disc and no ray

function makeMap(state, choose) {
  const canvas = byId("map");
  let pen = canvas.getContext("2d");
  const tip = byId("tip");
  const { places, output_places: spots } = arrays;
  const below = makeGround();
  const half = [0, 1].map((axis) => {
    let most = 0;
    for (let i = axis; i < places.length; i += 2) most = Math.max(most, Math.abs(places[i]));
    for (let k = axis; k < spots.length; k += 2) most = Math.max(most, Math.abs(spots[k]));
    return Math.max(most, 1e-3);
  });
  const view = { zoom: 1, x: 0, y: 0 };
  const covered = { discs: [], dots: [] }; // what is on the map, so that names leave it free: x, y, radius
  let width = 0, height = 0, ratio = 1, colours = {}, isDue = false;
  let isOpened = false; // whether the chosen record has been zoomed to

  const fitted = (size, reach) => Math.max(size - 56, size / 2) / (2 * reach);
  const scale = () => Math.min(fitted(width, half[0]), fitted(height, half[1])) * view.zoom;
  const toScreen = (x, y) => [width / 2 + (x - view.x) * scale(), height / 2 - (y - view.y) * scale()];
  const placeOf = (i) => toScreen(places[2 * i], places[2 * i + 1]);
  const spotOf = (k) => toScreen(spots[2 * k], spots[2 * k + 1]);

  function disc(x, y, radius) {
    pen.beginPath();
    pen.arc(x, y, radius, 0, 2 * Math.PI);
  }

  /** The ground and the records do not change with the choice: they are drawn once for each view of the map and copied. */
  const ground = document.createElement("canvas");
  let groundKey = "";

  function drawGround() {
    const key = [width, height, ratio, view.zoom, view.x, view.y, colours.map, colours.dot].join(" ");
    if (key !== groundKey) {
      groundKey = key;
      [ground.width, ground.height] = [canvas.width, canvas.height];
      const above = pen;
      pen = ground.getContext("2d");
      pen.setTransform(ratio, 0, 0, ratio, 0, 0);
      if (below) below.draw(pen, { width, height, toScreen, pixels: scale(), colours });
      drawDots(dotRadius());
      pen = above;
    }
    pen.setTransform(1, 0, 0, 1, 0, 0);
    pen.clearRect(0, 0, canvas.width, canvas.height);
    pen.drawImage(ground, 0, 0);
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  }

  /** Dots grow with the zoom, so that they can be told apart and hit. */
  function dotRadius() {
    const small = (nRecords > 2000 ? 1.5 : nRecords > 500 ? 1.9 : 2.4) * (width < 500 ? 0.75 : 1);
    return Math.min(4, small * view.zoom ** 0.3);
  }

  function drawDots(radius) {
    pen.fillStyle = colours.dot;
    pen.beginPath();
    for (let i = 0; i < nRecords; i++) {
      const [x, y] = placeOf(i);
      if (x < -9 || y < -9 || x > width + 9 || y > height + 9) continue;
      pen.moveTo(x + radius, y);
      pen.arc(x, y, radius, 0, 2 * Math.PI);
    }
    pen.lineWidth = 1.5;
    pen.strokeStyle = colours.map;
    pen.stroke();
    pen.fill();
  }

  /** Discs whose area stands for the probability, the likely ones last so that none is hidden. */
  function drawDiscs(entries, at, tint) {
    const top = entries.length ? entries[0][1] : 1;
    const most = Math.max(14, Math.min(28, Math.min(width, height) / 20)) * (0.3 + 0.7 * Math.sqrt(top));
    for (const [which, p] of entries.slice().reverse()) {
      const share = p / top;
      if (share < 1e-3) continue;
      const [x, y] = at(which);
      const radius = Math.max(2, most * Math.sqrt(share));
      (radius > 4 ? covered.discs : covered.dots).push([x, y, radius]);
      disc(x, y, radius);
      pen.globalAlpha = 0.3 + 0.5 * Math.sqrt(share);
      pen.fillStyle = tint;
      pen.fill();
      pen.globalAlpha = 0.9;
      pen.lineWidth = 1;
      pen.strokeStyle = colours.card;
      pen.stroke();
    }
    pen.globalAlpha = 1;
  }

  function drawRays(entries, from) {
    const top = entries.length ? entries[0][1] : 1;
    pen.strokeStyle = colours.accent;
    for (const [k, p] of entries) {
      if (p / top < LEAST_RAY) break;
      const to = spotOf(k);
      pen.globalAlpha = 0.08 + 0.5 * (p / top);
      pen.lineWidth = 0.7 + 1.8 * (p / top);
      pen.beginPath();
      pen.moveTo(...from);
      pen.lineTo(...to);
      pen.stroke();
    }
    pen.globalAlpha = 1;
  }

  function drawTruth([x, y]) {
    covered.discs.push([x, y, 10]);
    disc(x, y, 8);
    pen.fillStyle = colours.card;
    pen.fill();
    pen.lineWidth = 2;
    pen.strokeStyle = colours.ink;
    pen.stroke();
    disc(x, y, 4.5);
    pen.fillStyle = colours.ink;
    pen.fill();
  }

  function drawSeen([x, y], size, tint) {
    (size > 5 ? covered.discs : covered.dots).push([x, y, size]);
    pen.beginPath();
    pen.moveTo(x, y - size);
    pen.lineTo(x + size, y);
    pen.lineTo(x, y + size);
    pen.lineTo(x - size, y);
    pen.closePath();
    pen.fillStyle = tint;
    pen.fill();
    pen.lineWidth = 2;
    pen.strokeStyle = colours.card;
    pen.stroke();
  }

  function drawReach([x, y]) {
    if (payload.eta === null || !payload.map.is_round) return;
    disc(x, y, (payload.eta / payload.map.scale) * scale());
    pen.setLineDash([5, 5]);
    pen.lineWidth = 1.3;
    pen.strokeStyle = colours.soft;
    pen.stroke();
    pen.setLineDash([]);
  }

  const writeNames = makeNameLayer(below, canvas);
  let written = [];

  function drawNames() {
    for (let i = 0; i < nRecords; i++) {
      const [x, y] = placeOf(i);
      if (x > 0 && y > 0 && x < width && y < height) covered.dots.push([x, y, 0.7 * dotRadius()]);
    }
    written = writeNames(pen, ratio, { width, height, toScreen, pixels: scale(), colours, metres: (1000 * payload.map.scale) / scale(), ...covered });
  }

  function drawScaleBar() {
    const perPixel = payload.map.scale / scale();
    const wanted = 110 * perPixel;
    const power = 10 ** Math.floor(Math.log10(wanted));
    const length = [5, 2, 1].map((f) => f * power).find((l) => l <= wanted);
    const pixels = length / perPixel;
    const [x, y] = [width - 16, height - (byId("credit").hidden ? 16 : 30)];
    pen.beginPath();
    pen.moveTo(x - pixels, y - 5);
    pen.lineTo(x - pixels, y);
    pen.lineTo(x, y);
    pen.lineTo(x, y - 5);
    for (const [wide, tint] of [[5, colours.map], [1.5, colours.soft]]) {
      [pen.lineWidth, pen.strokeStyle] = [wide, tint];
      pen.stroke();
    }
    pen.fillStyle = colours.soft;
    pen.font = "12px Inter, system-ui, sans-serif";
    pen.textAlign = "center";
    pen.textBaseline = "alphabetic";
    const said = inLength(length, payload.map.unit);
    [pen.lineWidth, pen.strokeStyle] = [4, colours.map];
    pen.strokeText(said, x - pixels / 2, y - 8);
    pen.fillText(said, x - pixels / 2, y - 8);
  }

  function drawNow() {
    isDue = false;
    if (!width) return;
    drawGround();
    [covered.discs, covered.dots] = [[], []];
    const truth = placeOf(state.record);
    if (state.view === "record") {
      drawReach(truth);
      const entries = reportsOf(state.record);
      drawRays(entries, truth);
      drawDiscs(entries, spotOf, colours.accent);
      drawTruth(truth);
      if (drawn.times) drawSeen(spotOf(drawn.output), 8, colours.ink);
    } else {
      for (let k = 0; k < nOutputs; k++) drawSeen(spotOf(k), 3.6, colours.dot);
      drawDiscs(posteriorOf(state.output), placeOf, colours.warm);
      drawTruth(truth);
      drawSeen(spotOf(state.output), 10, colours.ink);
    }
    drawNames();
    drawScaleBar();
    canvas.dataset.drawn = `${state.view} ${state.record} ${state.output} ${view.zoom}`;
  }

  /** Draw soon. Whatever changed, a tooltip that is open tells of what was before: it goes. */
  function draw() {
    tip.hidden = true;
    if (!isDue) requestAnimationFrame(drawNow);
    isDue = true;
  }

  function fit() {
    const box = canvas.parentElement.getBoundingClientRect();
    if (!box.width || (box.width === width && box.height === height)) return;
    [width, height, ratio] = [box.width, box.height, window.devicePixelRatio || 1];
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    tip.hidden = true;
    if (!isOpened) showChosen();
    isOpened = true;
    drawNow();
  }

  function paint() {
    for (const name of ["accent", "warm", "ink", "card", "soft", "map", "street", "main-street", "street-edge", "square", "water", "water-ink", "park", "park-ink", "dot"]) colours[name] = colour(`--${name}`);
    draw();
  }

  function zoomBy(factor, at = [width / 2, height / 2]) {
    const before = scale();
    view.zoom = Math.min(MOST_ZOOM, Math.max(1, view.zoom * factor));
    const away = 1 / before - 1 / scale();
    view.x += (at[0] - width / 2) * away;
    view.y -= (at[1] - height / 2) * away;
    keepInside();
  }

  function keepInside() {
    if (view.zoom === 1) [view.x, view.y] = [0, 0];
    view.x = Math.min(half[0], Math.max(-half[0], view.x));
    view.y = Math.min(half[1], Math.max(-half[1], view.y));
    draw();
  }

  function showAll() {
    [view.zoom, view.x, view.y] = [1, 0, 0];
    draw();
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
    [left, right, low, high] = [Math.min(left, x - around), Math.max(right, x + around), Math.min(low, y - around), Math.max(high, y + around)];
    view.zoom = 1;
    const fits = Math.min((width - 90) / (right - left), (height - 90) / (high - low)) / scale();
    view.zoom = Math.min(MOST_ZOOM, Math.max(1, fits));
    [view.x, view.y] = [(left + right) / 2, (low + high) / 2];
    keepInside();
  }

  /** What a click or an arrow key chooses: a record, or a report where the map shows what reports reveal. */
  const targets = () =>
    state.view === "record"
      ? { size: nRecords, at: placeOf, now: state.record, choose: choose.record }
      : { size: nOutputs, at: spotOf, now: state.output, choose: choose.output };

  function nearest(x, y, reach) {
    const { size, at } = targets();
    let best = -1, least = reach * reach;
    for (let i = 0; i < size; i++) {
      const [a, b] = at(i);
      const away = (a - x) ** 2 + (b - y) ** 2;
      if (away < least) [best, least] = [i, away];
    }
    return best;
  }

  function step(dx, dy) {
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

  /** Move the map if what was chosen is outside of it. */
  function show(which) {
    const [x, y] = targets().at(which);
    if (x > 20 && y > 20 && x < width - 20 && y < height - 20) return;
    view.x += (x - width / 2) / scale();
    view.y -= (y - height / 2) / scale();
    keepInside();
  }

  const pointers = new Map();
  let drag = null;
  const local = (event) => {
    const box = canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };

  canvas.addEventListener("pointerdown", (event) => {
    pointers.set(event.pointerId, local(event));
    drag = { from: local(event), x: view.x, y: view.y, isFar: false };
  });
  canvas.addEventListener("pointermove", (event) => {
    const at = local(event);
    if (pointers.size === 2 && pointers.has(event.pointerId)) {
      const [a, b] = [...pointers.values()];
      pointers.set(event.pointerId, at);
      const [c, d] = [...pointers.values()];
      zoomBy(Math.hypot(c[0] - d[0], c[1] - d[1]) / Math.max(1, Math.hypot(a[0] - b[0], a[1] - b[1])), at);
      drag.isFar = true;
    } else if (drag && pointers.has(event.pointerId)) {
      const [dx, dy] = [at[0] - drag.from[0], at[1] - drag.from[1]];
      if (Math.hypot(dx, dy) > 5 && !drag.isFar) {
        drag.isFar = true;
        canvas.setPointerCapture(event.pointerId);
      }
      if (drag.isFar && view.zoom > 1) {
        [view.x, view.y] = [drag.x - dx / scale(), drag.y + dy / scale()];
        keepInside();
      }
    } else if (event.pointerType === "mouse") {
      hover(at);
    }
  });
  const release = (event) => {
    pointers.delete(event.pointerId);
    if (event.type === "pointerup" && drag && !drag.isFar) {
      const found = nearest(...local(event), event.pointerType === "mouse" ? 24 : 34);
      if (found >= 0) targets().choose(found);
    }
    if (!pointers.size) drag = null;
  };
  canvas.addEventListener("pointerup", release);
  canvas.addEventListener("pointercancel", release);
  canvas.addEventListener("pointerleave", () => (tip.hidden = true));
  canvas.addEventListener("wheel", (event) => {
    // a page that scrolls keeps scrolling until the map is in use
    if (document.activeElement !== canvas && !event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    zoomBy(Math.exp(-event.deltaY / 400), local(event));
  }, { passive: false });
  canvas.addEventListener("keydown", (event) => {
    const moves = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (moves[event.key]) step(...moves[event.key]);
    else if (event.key === "+" || event.key === "=") zoomBy(1.5);
    else if (event.key === "-") zoomBy(1 / 1.5);
    else if (event.key === "0") showAll();
    else if (event.key === "c") showChosen();
    else return;
    event.preventDefault();
  });

  function hover([x, y]) {
    const found = nearest(x, y, 18);
    tip.hidden = found < 0;
    if (found < 0) return;
    const isRecord = state.view === "record";
    tip.replaceChildren(element("b", { class: "id", text: isRecord ? payload.ids[found] : payload.outputs[found] }));
    if (isRecord) {
      const k = outputOfRow.get(found);
      const entry = k === undefined ? undefined : reportsOf(state.record).find(([which]) => which === k);
      if (k !== undefined) tip.append(`${payload.ids[state.record]} reports it in ${percent(entry ? entry[1] : 0)}`);
      else tip.append(arrays.losses ? `expected loss ${inLength(arrays.losses[found], payload.loss.unit)}` : "");
    } else {
      tip.append(`reported by ${percent(arrays.chance[found])} of all`);
    }
    const box = tip.getBoundingClientRect();
    tip.style.left = `${Math.min(x + 14, width - box.width - 6)}px`;
    tip.style.top = `${y + 16 + box.height > height ? y - box.height - 12 : y + 16}px`;
  }

  byId("zoom-in").addEventListener("click", () => zoomBy(1.6));
  byId("zoom-out").addEventListener("click", () => zoomBy(1 / 1.6));
  byId("zoom-chosen").addEventListener("click", showChosen);
  byId("zoom-all").addEventListener("click", showAll);
  for (const id of ["map", "zoom", "legend"]) byId(id).hidden = false;
  if (payload.credit) {
    byId("credit").textContent = payload.credit;
    byId("credit").hidden = false;
  }
  paint();
  fit();
  new ResizeObserver(fit).observe(canvas.parentElement);
  return { draw, paint, show, showChosen, placeOf, spotOf, names: () => written };
}

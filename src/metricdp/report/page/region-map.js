// The map of a region: the ground, the box and its cells, and what is reported from the chosen point.

const MOST_ZOOM = 400;
const MOST_SEEN = 0.8; // of the reports are in sight when the map zooms to the point
const LEAST_CELL = 5; // pixels; finer cells are not drawn
const STEP = 12, SMALL_STEP = 1; // pixels of an arrow key

function makeRegionMap(state, choose) {
  const canvas = byId("map"), pen = canvas.getContext("2d"), tip = byId("tip");
  const below = makeGround();
  const corners = [toMap(low), toMap(high)];
  const half = [0, 1].map((axis) => {
    let most = Math.max(Math.abs(corners[0][axis]), Math.abs(corners[1][axis]));
    for (let k = 0; k < nOutputs; k++) most = Math.max(most, Math.abs(toMap(spotOfOutput(k))[axis]));
    return Math.max(most, 1e-3);
  });
  const view = { zoom: 1, x: 0, y: 0 };
  const writeNames = makeNameLayer(below, canvas);
  const covered = { discs: [], dots: [] }; // that no name is written over
  let width = 0, height = 0, ratio = 1, colours = {}, isDue = false;

  const fitted = (size, reach) => Math.max(size - 56, size / 2) / (2 * reach);
  const scale = () => Math.min(fitted(width, half[0]), fitted(height, half[1])) * view.zoom;
  const toScreen = (x, y) => [width / 2 + (x - view.x) * scale(), height / 2 - (y - view.y) * scale()];
  const placeOf = (point) => toScreen(...toMap(point));
  const pointAt = (x, y) => toPoint([(x - width / 2) / scale() + view.x, (height / 2 - y) / scale() + view.y]);
  const spotOf = (k) => placeOf(spotOfOutput(k));

  function disc(x, y, radius) {
    pen.beginPath();
    pen.arc(x, y, radius, 0, 2 * Math.PI);
  }

  function drawBox() {
    const [left, bottom] = placeOf(low), [right, top] = placeOf(high);
    const axes = arePlaces ? [1, 0] : [0, 1];
    const sides = [(right - left) / cells[axes[0]], (bottom - top) / cells[axes[1]]];
    if (Math.min(...sides) >= LEAST_CELL) {
      pen.beginPath();
      for (let i = 1; i < cells[axes[0]]; i++) {
        pen.moveTo(left + i * sides[0], top);
        pen.lineTo(left + i * sides[0], bottom);
      }
      for (let j = 1; j < cells[axes[1]]; j++) {
        pen.moveTo(left, top + j * sides[1]);
        pen.lineTo(right, top + j * sides[1]);
      }
      pen.globalAlpha = 0.22;
      pen.lineWidth = 1;
      pen.strokeStyle = colours.dot;
      pen.stroke();
    }
    pen.globalAlpha = 0.75;
    pen.lineWidth = 2;
    pen.strokeStyle = colours.accent;
    pen.strokeRect(left, top, right - left, bottom - top);
    pen.globalAlpha = 1;
  }

  function drawSpots() {
    const radius = Math.min(3.5, (nOutputs > 500 ? 1.2 : 2) * view.zoom ** 0.25);
    pen.fillStyle = colours.dot;
    pen.beginPath();
    for (let k = 0; k < nOutputs; k++) {
      const [x, y] = spotOf(k);
      pen.moveTo(x + radius, y);
      pen.arc(x, y, radius, 0, 2 * Math.PI);
    }
    pen.fill();
  }

  /** Discs whose area stands for the probability, the likely ones last so that none is hidden. */
  function drawDiscs(entries) {
    const top = entries.length ? entries[0][1] : 1;
    const most = Math.max(14, Math.min(28, Math.min(width, height) / 20)) * (0.3 + 0.7 * Math.sqrt(top));
    for (const [k, p] of entries.slice().reverse()) {
      const share = p / top;
      if (share < 1e-3) continue;
      const [x, y] = spotOf(k);
      const radius = Math.max(2, most * Math.sqrt(share));
      (radius > 5 ? covered.discs : covered.dots).push([x, y, radius]);
      disc(x, y, radius);
      pen.globalAlpha = 0.3 + 0.5 * Math.sqrt(share);
      pen.fillStyle = colours.accent;
      pen.fill();
      pen.globalAlpha = 0.9;
      pen.lineWidth = 1;
      pen.strokeStyle = colours.card;
      pen.stroke();
    }
    pen.globalAlpha = 1;
  }

  function drawPoint([x, y]) {
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

  function drawReported([x, y]) {
    pen.beginPath();
    for (const [dx, dy] of [[0, -8], [8, 0], [0, 8], [-8, 0]]) pen.lineTo(x + dx, y + dy);
    pen.closePath();
    pen.fillStyle = colours.ink;
    pen.fill();
    pen.lineWidth = 2;
    pen.strokeStyle = colours.card;
    pen.stroke();
  }

  /** The circle of the distance that the promise is told for. */
  function drawReach(point) {
    const around = circle(point, state.distance, 90);
    if (around.length < 2) return;
    pen.setLineDash([5, 5]);
    pen.lineWidth = 1.3;
    pen.strokeStyle = colours.soft;
    const places = around.map(placeOf);
    pen.beginPath();
    const gap = (2 * Math.PI * Math.hypot(places[0][0] - placeOf(point)[0], places[0][1] - placeOf(point)[1])) / 45;
    places.forEach(([x, y], i) => {
      const before = places[(i || places.length) - 1];
      if (Math.hypot(x - before[0], y - before[1]) > gap) return;
      pen.moveTo(...before);
      pen.lineTo(x, y);
    });
    pen.stroke();
    pen.setLineDash([]);
  }

  function drawScaleBar() {
    const perPixel = frameScale / scale();
    const power = 10 ** Math.floor(Math.log10(110 * perPixel));
    const length = [5, 2, 1].map((f) => f * power).find((l) => l <= 110 * perPixel);
    const pixels = length / perPixel;
    const [x, y] = [width - 16, height - (byId("credit").hidden ? 16 : 30)];
    pen.strokeStyle = pen.fillStyle = colours.soft;
    pen.lineWidth = 1.5;
    pen.beginPath();
    pen.moveTo(x - pixels, y - 5);
    pen.lineTo(x - pixels, y);
    pen.lineTo(x, y);
    pen.lineTo(x, y - 5);
    pen.stroke();
    pen.font = "12px Inter, system-ui, sans-serif";
    pen.textAlign = "center";
    pen.textBaseline = "alphabetic";
    pen.fillText(inLength(length, payload.map.unit), x - pixels / 2, y - 8);
  }

  function drawNow() {
    isDue = false;
    if (!width) return;
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, width, height);
    if (below) below.draw(pen, { width, height, toScreen, pixels: scale(), colours });
    [covered.discs, covered.dots] = [[], []];
    drawBox();
    drawSpots();
    drawReach(state.point);
    drawDiscs(state.entries);
    drawPoint(placeOf(state.point));
    if (state.drawn >= 0) drawReported(spotOf(state.drawn));
    covered.discs.push([...placeOf(state.point), 10]);
    writeNames(pen, ratio, { width, height, toScreen, pixels: scale(), colours, metres: (1000 * frameScale) / scale(), ...covered });
    drawScaleBar();
    canvas.dataset.drawn = `${state.point.join(" ")} ${view.zoom}`;
  }

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
    drawNow();
  }

  function paint() {
    for (const name of ["accent", "ink", "card", "soft", "map", "street", "main-street", "street-edge", "square", "water", "water-ink", "park", "park-ink", "dot"]) colours[name] = colour(`--${name}`);
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

  /** Zoom to the point and most of what is reported from it. */
  function showChosen() {
    const [x, y] = toMap(state.point);
    let reach = 1e-6, seen = 0;
    for (const [k, p] of state.entries) {
      if (seen > MOST_SEEN) break;
      seen += p;
      const [a, b] = toMap(spotOfOutput(k));
      reach = Math.max(reach, Math.abs(a - x), Math.abs(b - y));
    }
    view.zoom = 1;
    view.zoom = Math.min(MOST_ZOOM, Math.max(1, (Math.min(width, height) - 90) / (2 * reach) / scale()));
    [view.x, view.y] = [x, y];
    keepInside();
  }

  /** Move the map if the point is outside of it. */
  function show() {
    const [x, y] = placeOf(state.point);
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
    if (event.type === "pointerup" && drag && !drag.isFar) choose(pointAt(...local(event)));
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
    if (moves[event.key]) {
      const [x, y] = placeOf(state.point), size = event.shiftKey ? SMALL_STEP : STEP;
      choose(pointAt(x + size * moves[event.key][0], y + size * moves[event.key][1]));
      show();
    } else if (event.key === "+" || event.key === "=") zoomBy(1.5);
    else if (event.key === "-") zoomBy(1 / 1.5);
    else if (event.key === "0") showAll();
    else if (event.key === "c") showChosen();
    else return;
    event.preventDefault();
  });

  /** Tell of the output under the pointer. */
  function hover([x, y]) {
    let best = -1, least = 14 * 14;
    for (let k = 0; k < nOutputs; k++) {
      const [a, b] = spotOf(k);
      const away = (a - x) ** 2 + (b - y) ** 2;
      if (away < least) [best, least] = [k, away];
    }
    tip.hidden = best < 0;
    if (best < 0) return;
    const entry = state.entries.find(([k]) => k === best);
    tip.replaceChildren(element("b", { class: "id", text: payload.outputs[best] }), `reported from the point in ${percent(entry ? entry[1] : 0)}`);
    const box = tip.getBoundingClientRect();
    tip.style.left = `${Math.min(x + 14, width - box.width - 6)}px`;
    tip.style.top = `${y + 16 + box.height > height ? y - box.height - 12 : y + 16}px`;
  }

  byId("zoom-in").addEventListener("click", () => zoomBy(1.6));
  byId("zoom-out").addEventListener("click", () => zoomBy(1 / 1.6));
  byId("zoom-chosen").addEventListener("click", showChosen);
  byId("zoom-all").addEventListener("click", showAll);
  if (payload.credit) {
    byId("credit").textContent = payload.credit;
    byId("credit").hidden = false;
  }
  paint();
  fit();
  new ResizeObserver(fit).observe(canvas.parentElement);
  return { draw, paint, show, showChosen, placeOf };
}

// A map on a canvas: it fits its box, is moved and zoomed by mouse, fingers and keys, and has the marks that all maps share.

const MOST_SEEN = 0.8; // of the reports are in sight when a map zooms to what is chosen
const BUTTONS = 108; // pixels of width that are kept free for them, half of it at each side
const MARGIN = 90; // pixels beside what a map zooms to
const LEAST_METRES = 0.2; // per pixel; a map of streets says nothing more below
const MOST_APART = 150; // pixels between the two closest points of a map without streets
const LEAST_MOST_ZOOM = 8;
const COLOURS = ["accent", "warm", "ink", "card", "soft", "map", "street", "main-street", "street-edge", "square", "water", "water-ink", "park", "park-ink", "dot"];
const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

/**
 * `half` is how far the map reaches from its middle each way, `closest` how far apart its closest points are, `unitLength` the
 * distance that 1 on it is. What a map does by itself is in `own`: draw(), click(x, y, isMouse), arrow(dx, dy, isSmall),
 * told(x, y) for the tooltip (or null), chosen() for the place that is chosen, showChosen(), and fitted() if anything comes before
 * the first drawing.
 */
function makeCanvas({ half, closest, unitLength, own }) {
  const canvas = byId("map"), tip = byId("tip");
  const below = makeGround();
  const writeNames = makeNameLayer(below, canvas);
  const view = { zoom: 1, x: 0, y: 0 };
  const map = { canvas, pen: canvas.getContext("2d"), view, width: 0, height: 0, ratio: 1, colours: {}, covered: { discs: [], dots: [] } };
  let isDue = false;

  const fitted = (size, margin, reach) => Math.max(size - margin, size / 2) / (2 * reach);
  const smallest = () => Math.min(fitted(map.width, BUTTONS, half[0]), fitted(map.height, 56, half[1]));
  const scale = () => smallest() * view.zoom;
  const most = payload.map.unit === "km" ? (1000 * unitLength) / LEAST_METRES : MOST_APART / closest; // pixels of 1 on the map
  const mostZoom = () => Math.max(LEAST_MOST_ZOOM, most / smallest());
  const toScreen = (x, y) => [map.width / 2 + (x - view.x) * scale(), map.height / 2 - (y - view.y) * scale()];
  const fromScreen = (x, y) => [(x - map.width / 2) / scale() + view.x, (map.height / 2 - y) / scale() + view.y];
  const frame = () => ({ width: map.width, height: map.height, toScreen, pixels: scale(), colours: map.colours });

  function drawNow() {
    isDue = false;
    if (!map.width) return;
    map.covered = { discs: [], dots: [] }; // what is on the map, so that names leave it free: x, y, radius
    own.draw();
  }

  /** Draw soon. Whatever changed, a tooltip that is open tells of what was before: it goes. */
  function draw() {
    tip.hidden = true;
    if (!isDue) requestAnimationFrame(drawNow);
    isDue = true;
  }

  function clear() {
    map.pen.setTransform(1, 0, 0, 1, 0, 0);
    map.pen.clearRect(0, 0, canvas.width, canvas.height);
    map.pen.setTransform(map.ratio, 0, 0, map.ratio, 0, 0);
  }

  function drawBelow() {
    if (below) below.draw(map.pen, frame());
  }

  const drawNames = () => writeNames(map.pen, map.ratio, { ...frame(), metres: (1000 * unitLength) / scale(), ...map.covered });

  function disc(x, y, radius) {
    map.pen.beginPath();
    map.pen.arc(x, y, radius, 0, 2 * Math.PI);
  }

  function filled(tint, edge, width) {
    const { pen } = map;
    [pen.fillStyle, pen.strokeStyle, pen.lineWidth] = [tint, edge, width];
    pen.fill();
    pen.stroke();
  }

  /** Discs whose area stands for the probability, the likely ones last so that none is hidden. */
  function drawDiscs(entries, at, tint) {
    const { pen, covered, width, height } = map;
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
      pen.strokeStyle = map.colours.card;
      pen.stroke();
    }
    pen.globalAlpha = 1;
  }

  function drawTruth([x, y]) {
    map.covered.discs.push([x, y, 10]);
    disc(x, y, 8);
    filled(map.colours.card, map.colours.ink, 2);
    disc(x, y, 4.5);
    map.pen.fillStyle = map.colours.ink;
    map.pen.fill();
  }

  function drawSeen([x, y], size, tint) {
    (size > 5 ? map.covered.discs : map.covered.dots).push([x, y, size]);
    map.pen.beginPath();
    for (const [dx, dy] of [[0, -size], [size, 0], [0, size], [-size, 0]]) map.pen.lineTo(x + dx, y + dy);
    map.pen.closePath();
    filled(tint, map.colours.card, 2);
  }

  /** Draw the open path as the reach of a promise: dashed. */
  function strokeReach() {
    const { pen } = map;
    pen.setLineDash([5, 5]);
    [pen.lineWidth, pen.strokeStyle] = [1.3, map.colours.soft];
    pen.stroke();
    pen.setLineDash([]);
  }

  function drawScaleBar() {
    const { pen, colours } = map;
    const perPixel = unitLength / scale();
    const wanted = 110 * perPixel;
    const power = 10 ** Math.floor(Math.log10(wanted));
    const length = [5, 2, 1].map((f) => f * power).find((l) => l <= wanted);
    const pixels = length / perPixel;
    const [x, y] = [map.width - 16, map.height - (byId("credit").hidden ? 16 : 30)];
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

  function fit() {
    const box = canvas.parentElement.getBoundingClientRect();
    if (!box.width || (box.width === map.width && box.height === map.height)) return;
    [map.width, map.height, map.ratio] = [box.width, box.height, window.devicePixelRatio || 1];
    canvas.width = Math.round(map.width * map.ratio);
    canvas.height = Math.round(map.height * map.ratio);
    tip.hidden = true;
    if (own.fitted) own.fitted();
    drawNow();
  }

  function paint() {
    for (const name of COLOURS) map.colours[name] = colour(`--${name}`);
    draw();
  }

  function zoomBy(factor, at = [map.width / 2, map.height / 2]) {
    const before = scale();
    view.zoom = Math.min(mostZoom(), Math.max(1, view.zoom * factor));
    const away = 1 / before - 1 / scale();
    view.x += (at[0] - map.width / 2) * away;
    view.y -= (at[1] - map.height / 2) * away;
    keepInside();
  }

  /** Zoom by a key or a button: about what is chosen where that is in sight, so that it stays there. */
  function zoomAbout(factor) {
    const at = own.chosen();
    zoomBy(factor, isInSight(at) ? at : undefined);
  }

  const isInSight = ([x, y]) => x >= 0 && y >= 0 && x <= map.width && y <= map.height;

  /** Whether a circle passes through the map, large enough to be told from the sign in its middle. */
  function isCircleInSight([x, y], radius) {
    const nearest = Math.hypot(Math.max(0, -x, x - map.width), Math.max(0, -y, y - map.height));
    const farthest = Math.hypot(Math.max(x, map.width - x), Math.max(y, map.height - y));
    return radius > 12 && nearest < radius && radius < farthest;
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

  /** Zoom to a box on the map. */
  function showBox(left, right, low, high) {
    view.zoom = 1;
    const fits = Math.min((map.width - BUTTONS) / (right - left), (map.height - MARGIN) / (high - low)) / scale();
    view.zoom = Math.min(mostZoom(), Math.max(1, fits));
    [view.x, view.y] = [(left + right) / 2, (low + high) / 2];
    keepInside();
  }

  /** Move the map if a place of the screen is outside of it. */
  function showPlace([x, y]) {
    if (x > 20 && y > 20 && x < map.width - 20 && y < map.height - 20) return;
    view.x += (x - map.width / 2) / scale();
    view.y -= (y - map.height / 2) / scale();
    keepInside();
  }

  /** The nearest of `size` places of the screen within `reach` pixels; -1 if there is none. */
  function nearest(x, y, reach, size, at) {
    let best = -1, least = reach * reach;
    for (let i = 0; i < size; i++) {
      const [a, b] = at(i);
      const away = (a - x) ** 2 + (b - y) ** 2;
      if (away < least) [best, least] = [i, away];
    }
    return best;
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
    if (event.type === "pointerup" && drag && !drag.isFar) own.click(...local(event), event.pointerType === "mouse");
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
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (ARROWS[event.key]) own.arrow(...ARROWS[event.key], event.shiftKey);
    else if (event.key === "+" || event.key === "=") zoomAbout(1.5);
    else if (event.key === "-") zoomAbout(1 / 1.5);
    else if (event.key === "0") showAll();
    else if (event.key === "c") own.showChosen();
    else return;
    event.preventDefault();
  });

  function hover([x, y]) {
    const told = own.told(x, y);
    tip.hidden = told === null;
    if (told === null) return;
    tip.replaceChildren(element("b", { class: "id", text: told[0] }), told[1]);
    const box = tip.getBoundingClientRect();
    tip.style.left = `${Math.min(x + 14, map.width - box.width - 6)}px`;
    tip.style.top = `${y + 16 + box.height > map.height ? y - box.height - 12 : y + 16}px`;
  }

  byId("zoom-in").addEventListener("click", () => zoomAbout(1.6));
  byId("zoom-out").addEventListener("click", () => zoomAbout(1 / 1.6));
  byId("zoom-chosen").addEventListener("click", () => own.showChosen());
  byId("zoom-all").addEventListener("click", showAll);
  for (const id of ["map", "zoom", "legend"]) byId(id).hidden = false;
  if (payload.credit) {
    byId("credit").textContent = payload.credit;
    byId("credit").hidden = false;
  }

  /** Begin: once everything that the map's own drawing needs is there. */
  function open() {
    paint();
    fit();
    new ResizeObserver(fit).observe(canvas.parentElement);
  }

  return Object.assign(map, {
    scale, toScreen, fromScreen, draw, paint, open, clear, drawBelow, drawNames, disc, drawDiscs, drawTruth, drawSeen, strokeReach, drawScaleBar,
    showBox, showPlace, nearest, isInSight, isCircleInSight,
  });
}

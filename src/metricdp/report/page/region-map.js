// The map of a region: the ground, the box and its cells, and what is reported from the chosen point.

const LEAST_CELL = 5; // pixels; finer cells are not drawn
const STEP = 12, SMALL_STEP = 1; // pixels of an arrow key

function makeRegionMap(state, choose) {
  const corners = [toMap(low), toMap(high)];
  const half = [0, 1].map((axis) => {
    let most = Math.max(Math.abs(corners[0][axis]), Math.abs(corners[1][axis]));
    for (let k = 0; k < nOutputs; k++) most = Math.max(most, Math.abs(toMap(spotOfOutput(k))[axis]));
    return Math.max(most, 1e-3);
  });
  const cell = Math.min(Math.abs(corners[1][0] - corners[0][0]) / cells[arePlaces ? 1 : 0], Math.abs(corners[1][1] - corners[0][1]) / cells[arePlaces ? 0 : 1]);
  const own = { draw: drawNow, click, arrow, told, chosen: () => placeOf(state.point), showChosen };
  const map = makeCanvas({ half, closest: cell, unitLength: frameScale, own });
  const placeOf = (point) => map.toScreen(...toMap(point));
  const pointAt = (x, y) => toPoint(map.fromScreen(x, y));
  const spotOf = (k) => placeOf(spotOfOutput(k));

  function drawBox() {
    const { pen, colours } = map;
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
    const { pen } = map;
    const radius = Math.min(3.5, (nOutputs > 500 ? 1.2 : 2) * map.view.zoom ** 0.25);
    pen.fillStyle = map.colours.dot;
    pen.beginPath();
    for (let k = 0; k < nOutputs; k++) {
      const [x, y] = spotOf(k);
      map.covered.dots.push([x, y, radius]);
      pen.moveTo(x + radius, y);
      pen.arc(x, y, radius, 0, 2 * Math.PI);
    }
    pen.fill();
  }

  /** The circle of the distance that the promise is told for. */
  function drawReach(point) {
    const { pen } = map;
    const around = circle(point, state.distance, 90);
    const places = around.map(placeOf);
    showSign("near", places.length > 1 && places.some(map.isInSight));
    if (places.length < 2) return;
    pen.beginPath();
    const gap = (2 * Math.PI * Math.hypot(places[0][0] - placeOf(point)[0], places[0][1] - placeOf(point)[1])) / 45;
    // one line as far as it goes, so that its dashes are even
    let before = [Infinity, Infinity];
    for (const [x, y] of [...places, places[0]]) {
      if (Math.hypot(x - before[0], y - before[1]) > gap) pen.moveTo(x, y);
      else pen.lineTo(x, y);
      before = [x, y];
    }
    map.strokeReach();
  }

  function drawNow() {
    map.clear();
    map.drawBelow();
    drawBox();
    drawSpots();
    drawReach(state.point);
    map.drawDiscs(state.entries, spotOf, map.colours.accent);
    map.drawTruth(placeOf(state.point));
    if (state.drawn >= 0) map.drawSeen(spotOf(state.drawn), 8, map.colours.ink);
    map.drawNames();
    map.drawScaleBar();
    map.canvas.dataset.drawn = `${state.point.join(" ")} ${map.view.zoom}`;
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
    map.showBox(x - reach, x + reach, y - reach, y + reach);
  }

  function click(x, y) {
    choose(pointAt(x, y));
  }

  function arrow(dx, dy, isSmall) {
    const [x, y] = placeOf(state.point), size = isSmall ? SMALL_STEP : STEP;
    choose(pointAt(x + size * dx, y + size * dy));
    show();
  }

  const show = () => map.showPlace(placeOf(state.point));

  /** What the tooltip says of the output under the pointer. */
  function told(x, y) {
    const found = map.nearest(x, y, 14, nOutputs, spotOf);
    if (found < 0) return null;
    const entry = state.entries.find(([k]) => k === found);
    return [payload.outputs[found], `reported from the point in ${inWords(entry ? entry[1] : 0)}`];
  }

  map.open();
  return { draw: map.draw, paint: map.paint, show, showChosen, placeOf };
}

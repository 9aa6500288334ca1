// The names on the map: whole, level or along their street, clear of what the map is about. Where there is no room there is no name.

const NAME_FONT = "Inter, system-ui, sans-serif";
// how a name is written, and from how many metres per pixel on (Infinity: always)
const LABELS = {
  place: { size: 14, weight: 650, tint: "soft", until: Infinity },
  water: { size: 12, weight: 550, tint: "water-ink", until: 40 },
  park: { size: 12, weight: 550, tint: "park-ink", until: 12 },
  "main street": { size: 11.5, weight: 500, tint: "soft", until: 6 },
  square: { size: 11.5, weight: 550, tint: "soft", until: 3.5 },
  street: { size: 11, weight: 450, tint: "soft", until: 2.6 },
  path: { size: 10.5, weight: 450, tint: "soft", until: 2 },
};
const MOST_NAMES = 150;
const MOST_COVERED = 1; // dots under one name
const RIM = 5; // pixels between a name and the end of the map
const PLACES_ALONG = [0.5, 0.35, 0.65, 0.2, 0.8]; // of a street, where its name may be
const PLACES_BESIDE = [0, -1.3, 1.3]; // lines above and below the middle of a square or a point

/** Names of features: `ends` are the points of each part, `pointAt` where a point is on the map. */
function makeNames(named, pointAt) {
  const ranks = Object.keys(LABELS);
  named.sort((a, b) => ranks.indexOf(a.kind) - ranks.indexOf(b.kind) || b.size - a.size);
  const widths = new Map();

  function widthOf(pen, name, kind) {
    const key = `${kind} ${name}`;
    if (!widths.has(key)) widths.set(key, pen.measureText(name).width);
    return widths.get(key);
  }

  /** `discs` [x, y, radius] and `taken` boxes stay free; of the `dots` at most MOST_COVERED are covered. Returns name, spot and size of each. */
  function draw(pen, { width, height, toScreen, pixels, colours, metres, discs, dots, taken }) {
    const boxes = [...taken];
    const written = [];
    pen.textAlign = "center";
    pen.textBaseline = "middle";
    pen.lineJoin = "round";
    for (const { kind, name, isArea, ends, size } of named) {
      const style = LABELS[kind];
      if (metres > style.until || written.length >= MOST_NAMES) continue;
      const isPoint = ends[0][1] - ends[0][0] < 2;
      pen.font = `${style.weight} ${style.size}px ${NAME_FONT}`;
      const wide = widthOf(pen, name, kind);
      if (!isPoint && size * pixels < wide * (isArea ? 0.4 : 1.05)) continue;
      let best = null, least = MOST_COVERED + 1;
      for (const [from, to] of ends) {
        const spots = isPoint || isArea ? beside(from, to, style.size, toScreen) : along(from, to, wide, toScreen, width, height);
        for (const spot of spots) {
          const box = boxOf(spot, wide, style.size);
          if (box[0] < RIM || box[1] < RIM || box[2] > width - RIM || box[3] > height - RIM) continue;
          if (boxes.some((b) => box[0] < b[2] && box[2] > b[0] && box[1] < b[3] && box[3] > b[1])) continue;
          const covers = coverOf(spot, wide, style.size);
          if (discs.some(([x, y, radius]) => covers(x, y, radius))) continue;
          const covered = dots.reduce((sum, [x, y, radius]) => sum + covers(x, y, radius), 0);
          if (covered < least) [best, least] = [[spot, box], covered];
        }
        if (least === 0) break;
      }
      if (!best) continue;
      const [[x, y, angle], box] = best;
      written.push({ name, x, y, angle, wide, high: style.size });
      boxes.push([box[0] - 4, box[1] - 4, box[2] + 4, box[3] + 4]);
      pen.save();
      pen.translate(x, y);
      pen.rotate(angle);
      [pen.lineWidth, pen.strokeStyle, pen.fillStyle] = [3.5, colours.map, colours[style.tint]];
      pen.strokeText(name, 0, 0);
      pen.fillText(name, 0, 0);
      pen.restore();
    }
    return written;
  }

  function boxOf([x, y, angle], wide, size) {
    const [h, v] = [Math.abs(Math.cos(angle)), Math.abs(Math.sin(angle))];
    const [a, b] = [(wide * h + size * v) / 2, (wide * v + size * h) / 2];
    return [x - a, y - b, x + a, y + b];
  }

  /** Whether the name at this spot touches a disc: both turned so that the name is level. */
  function coverOf([x, y, angle], wide, size) {
    const [h, v] = [Math.cos(angle), Math.sin(angle)];
    return (a, b, radius) => {
      const [dx, dy] = [a - x, b - y];
      return Math.abs(dx * h + dy * v) < wide / 2 + radius && Math.abs(dy * h - dx * v) < size / 2 + radius;
    };
  }

  function beside(from, to, size, toScreen) {
    let [left, right, low, high] = [Infinity, -Infinity, Infinity, -Infinity];
    for (let p = from; p < to; p++) {
      const [x, y] = pointAt(p);
      [left, right, low, high] = [Math.min(left, x), Math.max(right, x), Math.min(low, y), Math.max(high, y)];
    }
    const [x, y] = toScreen((left + right) / 2, (low + high) / 2);
    return PLACES_BESIDE.map((lines) => [x, y + lines * size, 0]);
  }

  /** Where a name fits along the visible runs of a line that are nearly straight there: [x, y, angle]. */
  function along(from, to, wide, toScreen, width, height) {
    return visibleRuns(from, to, toScreen, width, height).flatMap((run) => alongRun(run, wide));
  }

  function alongRun(run, wide) {
    const lengths = [0];
    for (let p = 1; p < run.length; p++) lengths.push(lengths[p - 1] + Math.hypot(run[p][0] - run[p - 1][0], run[p][1] - run[p - 1][1]));
    const total = lengths[lengths.length - 1];
    const placeAt = (away) => {
      let p = 1;
      while (p < lengths.length - 1 && lengths[p] < away) p++;
      const share = (away - lengths[p - 1]) / Math.max(1e-9, lengths[p] - lengths[p - 1]);
      return [0, 1].map((axis) => run[p - 1][axis] + share * (run[p][axis] - run[p - 1][axis]));
    };
    const found = [];
    for (const where of PLACES_ALONG) {
      const [begin, end] = [where * total - wide / 2, where * total + wide / 2];
      if (begin < 0 || end > total) continue;
      const [a, b] = [placeAt(begin), placeAt(end)];
      if (Math.hypot(b[0] - a[0], b[1] - a[1]) < 0.94 * wide) continue;
      let angle = Math.atan2(b[1] - a[1], b[0] - a[0]);
      if (Math.abs(angle) > Math.PI / 2) angle += Math.PI;
      found.push([(a[0] + b[0]) / 2, (a[1] + b[1]) / 2, angle]);
    }
    return found;
  }

  /** The parts of a line inside the map, in pixels: each segment cut at the rim (Liang and Barsky). */
  function visibleRuns(from, to, toScreen, width, height) {
    const runs = [];
    let last = toScreen(...pointAt(from)), isOpen = false;
    for (let p = from + 1; p < to; p++) {
      const next = toScreen(...pointAt(p));
      let [begin, end] = [0, 1];
      for (const [axis, most] of [[0, width], [1, height]]) {
        const step = next[axis] - last[axis];
        const [a, b] = [-last[axis], most - last[axis]].map((away) => (step ? away / step : Math.sign(away) * Infinity));
        [begin, end] = [Math.max(begin, Math.min(a, b)), Math.min(end, Math.max(a, b))];
      }
      const cut = (share) => [last[0] + share * (next[0] - last[0]), last[1] + share * (next[1] - last[1])];
      if (begin < end) {
        if (!isOpen || begin > 0) runs.push([cut(begin)]);
        runs[runs.length - 1].push(cut(end));
      }
      isOpen = begin < end && end === 1;
      last = next;
    }
    return runs;
  }

  return { draw };
}

/** What writes the names of the ground above everything and clear of it: on a canvas of their own, because they fade out with the ground. */
function makeNameLayer(below, canvas) {
  const names = document.createElement("canvas");
  return function write(pen, ratio, view) {
    if (!below) return [];
    const { width, height } = view;
    [names.width, names.height] = [canvas.width, canvas.height];
    const writing = names.getContext("2d");
    writing.setTransform(ratio, 0, 0, ratio, 0, 0);
    const stage = canvas.parentElement.getBoundingClientRect();
    const taken = ["credit", "zoom"].map((id) => byId(id).getBoundingClientRect()).filter((box) => box.width)
      .map((box) => [box.left - stage.left - 6, box.top - stage.top - 6, box.right - stage.left, box.bottom - stage.top]);
    taken.push([width - 150, height - 60, width, height]); // the scale bar
    const written = below.drawNames(writing, { ...view, taken });
    pen.setTransform(1, 0, 0, 1, 0, 0);
    pen.drawImage(names, 0, 0);
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    return written;
  };
}

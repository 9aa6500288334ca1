// What lies beneath the records: water, parks, squares, streets and names. It fades out towards the end of its data.

const GROUND_FONT = "Inter, system-ui, sans-serif";
const FADE_BEGIN = 0.78; // of the way from the middle of the ground to its end
// metres of width, and least and most pixels
const STREET_WIDTHS = { "main street": [13, 1.7, 11], street: [8, 0.9, 7], path: [4, 0.6, 4], water: [10, 1, 8] };
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

function makeGround() {
  const { ground_points: packed, ground_starts: starts } = arrays;
  const { ground, kinds, reach, fade, scale: unitLength } = payload.map;
  if (!ground) return null;
  const at = (p) => (packed[p] * 2 * reach) / 65535 - reach;
  const drawn = [];
  const areas = [], lines = new Map(), named = [];
  let part = 0;
  for (const [kindNumber, isArea, nParts, name] of ground) {
    const kind = kinds[kindNumber];
    const path = isArea ? new Path2D() : lines.get(kind) || new Path2D();
    const ends = [];
    for (const last = part + nParts; part < last; part++) {
      const [from, to] = [starts[part], starts[part + 1]];
      ends.push([from, to]);
      if (to - from < 2) continue;
      path.moveTo(at(2 * from), -at(2 * from + 1));
      for (let p = from + 1; p < to; p++) path.lineTo(at(2 * p), -at(2 * p + 1));
      if (isArea) path.closePath();
    }
    if (isArea) areas.push([kind, path]);
    else lines.set(kind, path);
    if (name) named.push({ kind, name, isArea, ends, size: sizeOf(ends, isArea) });
  }
  const ranks = Object.keys(LABELS);
  named.sort((a, b) => ranks.indexOf(a.kind) - ranks.indexOf(b.kind) || b.size - a.size);
  drawn.push(...named);

  function sizeOf(ends, isArea) {
    let most = 0;
    for (const [from, to] of ends) {
      let along = 0;
      for (let p = from + 1; p < to; p++) along += Math.hypot(at(2 * p) - at(2 * p - 2), at(2 * p + 1) - at(2 * p - 1));
      most = Math.max(most, isArea ? along / 4 : along);
    }
    return most;
  }

  /** A small picture that is opaque in the middle and transparent at the end of the data. */
  const veil = document.createElement("canvas");
  veil.width = veil.height = 192;
  {
    const pen = veil.getContext("2d"), picture = pen.createImageData(192, 192);
    for (let row = 0; row < 192; row++) {
      for (let column = 0; column < 192; column++) {
        const x = ((column + 0.5) / 96 - 1) * reach, y = (1 - (row + 0.5) / 96) * reach;
        const away = (((x - fade[0]) / fade[2]) ** 4 + ((y - fade[1]) / fade[3]) ** 4) ** 0.25;
        const t = Math.min(1, Math.max(0, (1 - away) / (1 - FADE_BEGIN)));
        picture.data[4 * (192 * row + column) + 3] = 255 * t * t * (3 - 2 * t);
      }
    }
    pen.putImageData(picture, 0, 0);
  }

  function draw(pen, { width, height, toScreen, pixels, colours }) {
    const metres = (1000 * unitLength) / pixels; // for one pixel
    const middle = toScreen(0, 0);
    pen.save();
    pen.translate(...middle);
    pen.scale(pixels, pixels);
    for (const [kind, path] of areas) {
      pen.fillStyle = colours[kind === "water" || kind === "park" ? kind : "square"];
      pen.fill(path, "evenodd");
    }
    pen.lineJoin = pen.lineCap = "round";
    const thick = (kind, more) => {
      const [own, least, most] = STREET_WIDTHS[kind] || STREET_WIDTHS.street;
      return (Math.min(most, Math.max(least, own / metres)) + more) / pixels;
    };
    for (const [kind, path] of lines) {
      if (kind !== "water" && kind !== "park") continue;
      [pen.lineWidth, pen.strokeStyle] = [thick("water", 0), colours[kind]];
      pen.stroke(path);
    }
    const streets = ["path", "street", "main street"].filter((kind) => lines.has(kind));
    for (const kind of streets) {
      [pen.lineWidth, pen.strokeStyle] = [thick(kind, 1.6), colours["street-edge"]];
      pen.stroke(lines.get(kind));
    }
    for (const kind of streets) {
      [pen.lineWidth, pen.strokeStyle] = [thick(kind, 0), colours[kind === "main street" ? "main-street" : "street"]];
      pen.stroke(lines.get(kind));
    }
    pen.restore();
    drawNames(pen, { width, height, toScreen, pixels, colours, metres });
    pen.globalCompositeOperation = "destination-in";
    pen.drawImage(veil, middle[0] - reach * pixels, middle[1] - reach * pixels, 2 * reach * pixels, 2 * reach * pixels);
    pen.globalCompositeOperation = "source-over";
  }

  function drawNames(pen, { width, height, toScreen, pixels, colours, metres }) {
    const taken = [];
    const isFree = (box) => taken.every((b) => box[0] > b[2] || box[2] < b[0] || box[1] > b[3] || box[3] < b[1]);
    pen.textAlign = "center";
    pen.textBaseline = "middle";
    pen.lineJoin = "round";
    for (const { kind, name, isArea, ends, size } of drawn) {
      const style = LABELS[kind];
      if (metres > style.until || taken.length > 150) continue;
      const isPoint = ends[0][1] - ends[0][0] < 2;
      pen.font = `${style.weight} ${style.size}px ${GROUND_FONT}`;
      const wide = pen.measureText(name).width;
      if (!isPoint && size * pixels < wide * (isArea ? 0.4 : 1.05)) continue;
      for (const [from, to] of ends) {
        const spot = isPoint || isArea ? middleOf(from, to, toScreen) : alongLine(from, to, wide, toScreen, width, height);
        if (!spot) continue;
        const [x, y, angle] = spot;
        if (x < 0 || y < 0 || x > width || y > height) continue;
        const [h, v] = [Math.abs(Math.cos(angle)), Math.abs(Math.sin(angle))];
        const [a, b] = [(wide * h + style.size * v) / 2 + 8, (wide * v + style.size * h) / 2 + 6];
        const box = [x - a, y - b, x + a, y + b];
        if (!isFree(box)) continue;
        taken.push(box);
        pen.save();
        pen.translate(x, y);
        pen.rotate(angle);
        [pen.lineWidth, pen.strokeStyle, pen.fillStyle] = [3.5, colours.map, colours[style.tint]];
        pen.strokeText(name, 0, 0);
        pen.fillText(name, 0, 0);
        pen.restore();
        break;
      }
    }
  }

  function middleOf(from, to, toScreen) {
    let [left, right, low, high] = [Infinity, -Infinity, Infinity, -Infinity];
    for (let p = from; p < to; p++) {
      [left, right] = [Math.min(left, at(2 * p)), Math.max(right, at(2 * p))];
      [low, high] = [Math.min(low, at(2 * p + 1)), Math.max(high, at(2 * p + 1))];
    }
    return [...toScreen((left + right) / 2, (low + high) / 2), 0];
  }

  /** Where a name fits along a line that is nearly straight there: the middle of what is visible, and its angle. */
  function alongLine(from, to, wide, toScreen, width, height) {
    const seen = [];
    for (let p = from; p < to; p++) {
      const [x, y] = toScreen(at(2 * p), at(2 * p + 1));
      if (x > -wide && y > -wide && x < width + wide && y < height + wide) seen.push([x, y]);
    }
    if (seen.length < 2) return null;
    const lengths = [0];
    for (let p = 1; p < seen.length; p++) lengths.push(lengths[p - 1] + Math.hypot(seen[p][0] - seen[p - 1][0], seen[p][1] - seen[p - 1][1]));
    const total = lengths[lengths.length - 1];
    if (total < 1.05 * wide) return null;
    const pointAt = (along) => {
      let p = 1;
      while (p < lengths.length - 1 && lengths[p] < along) p++;
      const share = (along - lengths[p - 1]) / Math.max(1e-9, lengths[p] - lengths[p - 1]);
      return [0, 1].map((axis) => seen[p - 1][axis] + share * (seen[p][axis] - seen[p - 1][axis]));
    };
    for (const where of [0.5, 0.3, 0.7]) {
      const [begin, end] = [where * total - wide / 2, where * total + wide / 2];
      if (begin < 0 || end > total) continue;
      const [a, b] = [pointAt(begin), pointAt(end)];
      if (Math.hypot(b[0] - a[0], b[1] - a[1]) < 0.94 * wide) continue;
      let angle = Math.atan2(b[1] - a[1], b[0] - a[0]);
      if (Math.abs(angle) > Math.PI / 2) angle += Math.PI;
      return [(a[0] + b[0]) / 2, (a[1] + b[1]) / 2, angle];
    }
    return null;
  }

  return { draw };
}

// What lies beneath the records: water, parks, squares and streets. It fades out towards the end of its data.

const FADE_BEGIN = 0.78; // of the way from the middle of the ground to its end
// metres of width, and least and most pixels
const STREET_WIDTHS = { "main street": [13, 1.7, 11], street: [8, 0.9, 7], path: [4, 0.6, 4], water: [10, 1, 8] };

function makeGround() {
  const { ground_points: packed, ground_starts: starts } = arrays;
  const { ground, kinds, reach, fade, scale: unitLength } = payload.map;
  if (!ground) return null;
  const at = (p) => (packed[p] * 2 * reach) / 65535 - reach;
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

  function draw(pen, { toScreen, pixels, colours }) {
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
    fadeOut(pen, { toScreen, pixels });
  }

  /** Whatever is drawn on this canvas fades out with the ground. */
  function fadeOut(pen, { toScreen, pixels }) {
    const middle = toScreen(0, 0);
    pen.globalCompositeOperation = "destination-in";
    pen.drawImage(veil, middle[0] - reach * pixels, middle[1] - reach * pixels, 2 * reach * pixels, 2 * reach * pixels);
    pen.globalCompositeOperation = "source-over";
  }

  const names = makeNames(named, (p) => [at(2 * p), at(2 * p + 1)]);
  return {
    draw,
    drawNames(pen, view) {
      const written = names.draw(pen, view);
      fadeOut(pen, view);
      return written;
    },
  };
}

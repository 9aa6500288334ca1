// Every door states its promise or refuses.
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import * as metricdp from "../dist/metricdp.js";

const { load } = metricdp;
const FOLDER = new URL("../../../tests/mechanism/vectors/", import.meta.url);
const bytes = (name) => readFileSync(new URL(name, FOLDER));
const city = () => load(bytes("sparse-city.mdp"));

/** Put a file together from metadata and tensors ([name, dtype, shape, typed array]), sealed as an editor would. */
function file(metadata, tensors) {
  const codes = { U64: "<u8", I64: "<i8", I32: "<i4", F64: "<f8" };
  const digest = createHash("sha256");
  const raw = (array) => Buffer.from(array.buffer, array.byteOffset, array.byteLength);
  for (const [name, dtype, shape, array] of [...tensors].sort((a, b) => (a[0] < b[0] ? -1 : 1))) {
    digest.update(`${name} ${codes[dtype]} (${shape.join(", ")}${shape.length === 1 ? "," : ""})\n`).update(raw(array));
  }
  const words = { ...metadata, sha256: digest.digest("hex") };
  const sorted = Object.keys(words).sort().map((key) => `${JSON.stringify(key)}: ${JSON.stringify(words[key])}`);
  words.metadata_sha256 = createHash("sha256").update(`{${sorted.join(", ")}}`).digest("hex");
  const header = { __metadata__: words };
  let end = 0;
  for (const [name, dtype, shape, array] of tensors) {
    header[name] = { dtype, shape, data_offsets: [end, end + array.byteLength] };
    end += array.byteLength;
  }
  const text = Buffer.from(JSON.stringify(header));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(text.length));
  return Buffer.concat([length, text, ...tensors.map((one) => raw(one[3]))]);
}

/** A dense file of places in a row with two outputs; `shares` are the probabilities of the first one. */
function line(longitudes, { eta = "0x1.0000000000000p+7", metadata = {}, tensors = [], pairs, distances, shares } = {}) {
  const n = longitudes.length;
  const words = {
    ...{ format: "metricdp-1", epsilon: "0x1.0000000000000p+0", eta, metric: "haversine", kind: "places", name: "line" },
    ...{ ids: JSON.stringify(longitudes.map((_, i) => `p${i}`)), solver: "", created: "" },
    ...metadata,
  };
  const first = (shares ?? longitudes.map(() => 0.5)).map((share) => BigInt(Math.floor(share * 2 ** 63)));
  return file(words, [
    ["table", "U64", [n, 2], BigUint64Array.from(first.flatMap((weight) => [weight, (1n << 63n) - weight]))],
    ["records", "F64", [n, 2], Float64Array.from(longitudes.flatMap((lon) => [0, lon]))],
    ["prior", "F64", [n], new Float64Array(n).fill(1)],
    ["outputs", "I32", [2], Int32Array.of(0, 1)],
    ["pairs", "I32", [pairs.length, 2], Int32Array.from(pairs.flat())],
    ["distances", "F64", [pairs.length], Float64Array.from(distances)],
    ...tensors,
  ]);
}

const NEAR = { pairs: [[0, 1]], distances: [111] }; // two places a degree apart

test("a report has the coordinates of its output, and nothing else", () => {
  const found = city();
  const report = found.perturb(found.ids[3]);
  assert.deepEqual(Object.keys(report), ["output", "id", "coordinates"]);
  assert.deepEqual([...report.coordinates], found.outputAt(report.output));
});

test("an unknown id is refused without naming it", () => {
  assert.throws(() => city().perturb("my home"), (error) => error.name === "InputError" && !error.message.includes("my home"));
});

test("a source of randomness that fails is an error, and nothing is drawn", () => {
  const found = city();
  const own = Object.getOwnPropertyDescriptor(globalThis, "crypto");
  const broken = [
    undefined,
    {},
    { getRandomValues() { throw new Error("no entropy"); } },
    { getRandomValues: () => null },
  ];
  try {
    for (const source of broken) {
      Object.defineProperty(globalThis, "crypto", { value: source, configurable: true });
      assert.throws(() => found.perturb(found.ids[0]), { name: "RandomnessError" });
      assert.throws(() => found.perturbPoint(57.7, 11.97, { limit: 5 }), { name: "RandomnessError" });
    }
  } finally {
    Object.defineProperty(globalThis, "crypto", own);
  }
  assert.equal(typeof found.perturb(found.ids[0]).id, "string");
});

test("a draw takes 64 bits, and uses the upper 63", () => {
  const found = city();
  const own = Object.getOwnPropertyDescriptor(globalThis, "crypto");
  const asked = [];
  try {
    const getRandomValues = (words) => {
      asked.push(words.byteLength);
      words.set([0xdeadbeef, 0x8badf00d].slice(0, words.length));
      return words;
    };
    Object.defineProperty(globalThis, "crypto", { value: { getRandomValues }, configurable: true });
    const number = 0x8badf00ddeadbeefn >> 1n;
    assert.equal(found.perturb(found.ids[2]).output, found.outputOf(2, number));
  } finally {
    Object.defineProperty(globalThis, "crypto", own);
  }
  assert.deepEqual(asked, [8]);
});

test("changing the bytes after loading changes nothing", () => {
  for (const name of ["sparse-city.mdp", "dense-grid.mdp"]) {
    const data = new Uint8Array(bytes(name));
    const found = load(data);
    const before = found.weight(0, 0);
    data.fill(0);
    assert.equal(found.weight(0, 0), before);
    assert.ok(found.certify());
  }
});

test("a table of two places, and its promise", () => {
  const found = load(line([0, 1], NEAR));
  assert.match(found.certificate.promise, /^Any report is at most exp\(1 d\) times more likely .* within 128 km/);
  assert.throws(() => load(line([0, 1], { ...NEAR, distances: [112] })), { name: "CertificationError" });
  assert.throws(() => load(line([0, 1], { pairs: [], distances: [] })), { name: "CertificationError" });
});

test("regions and whatever comes later are refused by name", () => {
  const later = [["notes", "F64", [2], Float64Array.of(1, 2)]];
  assert.throws(() => load(line([0, 1], { ...NEAR, tensors: later })), { name: "FileFormatError", message: /later version.*"notes"/ });
  const plane = { domain: "plane" };
  assert.throws(() => load(line([0, 1], { ...NEAR, metadata: plane })), { name: "FileFormatError", message: /later version.*"domain"/ });
  for (const format of ["metricdp-4", "metricdp-3", "+epsilons", "metricdp-1+epsilons+epsilons", "toString"]) {
    const other = { ...NEAR, metadata: { format } };
    assert.throws(() => load(line([0, 1], other)), { name: "FileFormatError", message: /later version/ });
  }
  assert.throws(() => load(line([0, 1], { ...NEAR, metadata: { format: "metricdp-3" } })), { message: /metricdp\/plane/ });
});

test("records with epsilons of their own have the smaller one of two", () => {
  const own = (...epsilons) => ({
    ...{ ...NEAR, metadata: { format: "metricdp-1+epsilons" } },
    ...{ tensors: [["epsilons", "F64", [epsilons.length], Float64Array.from(epsilons)]] },
  });
  const { certificate } = load(line([0, 1], own(1, 0.25)));
  assert.deepEqual([certificate.epsilon, certificate.smallestEpsilon], [1, 0.25]);
  const words = /^Any report is at most exp\(e d\) times more .*, with e the smaller of their own epsilons \(.*; e from 0.25 to 1\)\.$/; // all are neighbours
  assert.match(certificate.promise, words);
  assert.equal(load(line([0, 1], own(1, 1e-9))).certificate.smallestEpsilon, 1e-9);
  const bad = [[1, 0], [1, -1], [1, NaN], [NaN, 1], [1, Infinity], [1, 2], [0.5, 0.25], [1, 0.9e-9], [1], [1, 1, 1]];
  for (const epsilons of bad) assert.throws(() => load(line([0, 1], own(...epsilons))), { name: "FileFormatError" });
  assert.throws(() => load(line([0, 1], { ...NEAR, tensors: own(1, 1).tensors })), { name: "FileFormatError" });
  assert.throws(() => load(line([0, 1], { ...NEAR, metadata: own(1, 1).metadata })), { name: "FileFormatError" });
});

test("in a chain of records with epsilons of their own, the promise is that of its steps", () => {
  const epsilons = [0.25, 2, 2];
  const steps = epsilons.slice(1).map((epsilon, i) => Math.min(epsilons[i], epsilon)); // a unit long each
  const tight = steps.reduce((found, step) => [...found, found.at(-1) * Math.exp(-step * (1 - 1e-9))], [0.1]);
  const chain = load(line([0, 1, 2], {
    ...{ eta: "0x1.0000000000000p+0", pairs: [[0, 1], [1, 2]], distances: [1, 1], shares: tight },
    ...{ metadata: { format: "metricdp-1+epsilons", epsilon: "0x1.0000000000000p+1", metric: "euclidean", kind: "vectors" } },
    ...{ tensors: [["epsilons", "F64", [3], Float64Array.from(epsilons)]] },
  }));
  const ratio = Math.log(Number(chain.weight(0, 0)) / Number(chain.weight(2, 0)));
  assert.ok(Math.abs(ratio - 2.25) < 1e-6); // far more than the smaller one of the two records' own times their distance
  assert.ok(ratio > 2 * Math.min(epsilons[0], epsilons[2]));
  assert.match(chain.certificate.promise, /with e the smaller of their own epsilons at each step/);
});

test("requirements beyond the file's own claims", () => {
  const data = line([0, 1], NEAR);
  const { fingerprint } = load(data).certificate;
  assert.ok(load(data, { epsilonAtMost: 1, etaAtLeast: 128, metric: "haversine", fingerprint: fingerprint.slice(0, 16) }));
  const unmet = [{ epsilonAtMost: 0.9 }, { etaAtLeast: 129 }, { metric: "euclidean" }, { fingerprint: "0".repeat(64) }];
  for (const one of unmet) assert.throws(() => load(data, one), { name: "CertificationError" });
  for (const one of [{ fingerprint: "12" }, { epsilon: 1 }]) assert.throws(() => load(data, one), { name: "InputError" });
  assert.throws(() => load(data, { epsilonAtMost: NaN }), { name: "CertificationError" });
});

test("points need a limit, and are refused beyond it", () => {
  const found = load(line([0, 1], NEAR));
  for (const options of [undefined, {}, { limit: 0 }, { limit: NaN }, { limit: Infinity }, { limit: "5" }]) {
    assert.throws(() => found.perturbPoint(0, 0.1, options), { name: "InputError" });
  }
  assert.throws(() => found.perturbPoint(0, 0.1), { name: "InputError" });
  assert.equal(typeof found.perturbPoint(0, 0.1, { limit: 20 }).output, "number");
  assert.throws(() => found.perturbPoint(0, 0.1, { limit: 10 }), { name: "InputError", message: /farther .* than the limit/ });
  for (const point of [[91, 0], [0, 181], [NaN, 0], [0], [0, 0, 0], ["0", 0]]) {
    assert.throws(() => found.perturbPoint(...point, { limit: 20 }), { name: "InputError", message: /finite numbers/ });
  }
});

test("points near records without neighbours, or between groups, are refused whatever the point", () => {
  const alone = load(line([0, 1, 50], NEAR));
  assert.equal(alone.certificate.isolated, 1);
  assert.throws(() => alone.perturbPoint(0, 0, { limit: 1 }), { name: "InputError", message: /no neighbour/ });
  assert.throws(() => alone.perturb("p2"), { name: "InputError", message: /not protected/ });
  assert.ok(alone.perturb("p2", { allowUnprotected: true }));
  assert.ok(alone.perturb("p0"));
  const groups = load(line([0, 1, 3, 4], { pairs: [[0, 1], [2, 3]], distances: [111, 111] }));
  assert.equal(groups.certificate.components, 2);
  assert.match(groups.certificate.promise, /2 groups that no path joins/);
  assert.throws(() => groups.perturbPoint(0, 0, { limit: 100 }), { name: "InputError", message: /no path/ });
  assert.ok(groups.perturbPoint(0, 0, { limit: 50 })); // the groups are 222 km apart, more than three times 50
  assert.equal(groups.forPoints(100).bound(0), Infinity);
});

test("the bound for points is that of records so near", () => {
  const chain = load(line([0, 1, 2], { pairs: [[0, 1], [1, 2]], distances: [111, 111] }));
  const promise = chain.forPoints(60);
  assert.ok(Math.abs(promise.bound(0) - 111.19) < 0.3); // neighbours: 120 km reaches one degree
  assert.ok(Math.abs(promise.bound(110) - 222) < 0.6); // two degrees, along the path
  assert.throws(() => chain.forPoints(60).bound(-1), { name: "InputError" });
});

test("ids of many megabytes are read", () => {
  const long = "x".repeat(6_000_000);
  const ids = JSON.stringify([`${long}"\\\n`.repeat(2), "b"]);
  assert.equal(load(line([0, 1], { ...NEAR, metadata: { ids } })).ids[0].length, 2 * long.length + 6);
});

test("only bytes are files", () => {
  for (const given of ["text", null, undefined, 7, []]) assert.throws(() => load(given), { name: "InputError" });
  const data = bytes("two-sparse.mdp");
  assert.ok(load(data.buffer.slice(data.byteOffset, data.byteOffset + data.length)));
});

test("nothing but load and the errors is public", () => {
  const names = ["CertificationError", "FileFormatError", "InputError", "MetricDPError", "RandomnessError", "load"];
  assert.deepEqual(Object.keys(metricdp).sort(), names);
});

test("the classic script is the same code", () => {
  const text = readFileSync(new URL("../dist/metricdp.classic.js", import.meta.url), "utf8");
  const found = new Function(`${text}; return metricdp;`)();
  assert.deepEqual(Object.keys(found).sort(), Object.keys(metricdp).sort());
  assert.deepEqual(found.load(bytes("sparse-city.mdp")).certificate, city().certificate);
});

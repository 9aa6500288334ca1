// The test vectors of docs/file-format.md, by the package as it is published.
import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import { test } from "node:test";
import { load } from "../dist/metricdp.js";

const FOLDER = new URL("../../../tests/mechanism/vectors/", import.meta.url);
const FILES = readdirSync(FOLDER).filter((name) => name.endsWith(".mdp"));
const vectors = (name) => JSON.parse(readFileSync(new URL(`${name}.json`, FOLDER), "utf8"));
const mechanism = (name) => load(readFileSync(new URL(name, FOLDER)));

test("every file is accepted, and certified again when asked", () => {
  assert.ok(FILES.length >= 10);
  for (const name of FILES) {
    const found = mechanism(name);
    assert.deepEqual(found.certify(), found.certificate);
    assert.ok(found.certificate.compared >= found.certificate.decidedExactly);
  }
});

test("every verdict is the document's", () => {
  const all = vectors("verdicts");
  assert.ok(all.length > 100);
  for (const { name, base64, accepted } of all) {
    let error = null;
    try {
      load(Buffer.from(base64, "base64"));
    } catch (found) {
      error = found;
    }
    assert.equal(error === null, accepted, `${name}: ${error?.message}`);
    if (error) assert.match(error.name, /^(FileFormat|Certification)Error$/, name);
    if (error) assert.doesNotMatch(error.message, /cannot be read: it is damaged, or there/, name); // every reason is known
  }
});

test("the same numbers give the same outputs", () => {
  const loaded = Object.fromEntries(FILES.map((name) => [name, mechanism(name)]));
  for (const [name, row, number, output] of vectors("draws")) {
    assert.equal(loaded[name].outputOf(row, BigInt(number)), output, `${name} ${row} ${number}`);
  }
});

test("weights are those of the table: they sum to 2^63, and numbers reach exactly as many", () => {
  for (const name of FILES) {
    const found = mechanism(name);
    const { records, outputs } = found.certificate;
    for (let row = 0; row < records; row += 1) {
      let sum = 0n;
      for (let k = 0; k < outputs; k += 1) sum += found.weight(row, k);
      assert.equal(sum, 1n << 63n);
    }
  }
});

test("the fingerprint is the document's hash", () => {
  const hashes = vectors("hashes");
  for (const name of FILES) assert.equal(mechanism(name).certificate.fingerprint, hashes[name].metadata_sha256);
});

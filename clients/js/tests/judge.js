// node judge.js FOLDER: prints the verdict on every file of a folder as one JSON object, name to {accepted, pairs, error}.
import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { load } from "../dist/metricdp.js";

const found = {};
for (const name of readdirSync(process.argv[2])) {
  try {
    const { certificate } = load(readFileSync(join(process.argv[2], name)));
    found[name] = { accepted: true, pairs: certificate.pairs, components: certificate.components, isolated: certificate.isolated };
  } catch (error) {
    found[name] = { accepted: false, kind: error.name, error: error.message };
  }
}
console.log(JSON.stringify(found));

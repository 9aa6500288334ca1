// node judge.js FOLDER: prints the verdict on every file of a folder as one JSON object, name to {accepted, pairs, error}.
import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { load } from "../dist/metricdp.js";

const found = {};
for (const name of readdirSync(process.argv[2]).filter((one) => one.endsWith(".mdp"))) {
  try {
    const { certificate } = load(readFileSync(join(process.argv[2], name)));
    const { pairs, components, isolated, promise } = certificate;
    found[name] = { accepted: true, pairs, components, isolated, promise };
  } catch (error) {
    found[name] = { accepted: false, kind: error.name, error: error.message };
  }
}
console.log(JSON.stringify(found));

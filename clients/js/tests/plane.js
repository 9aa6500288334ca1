// node plane.js FOLDER: prints the verdict on every file of a folder by the module for regions, name to {accepted, error}.
// node plane.js FILE outputs: reads lines "A B U U U" and prints the output that three numbers stand for at the point A, B.
import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { load } from "../dist/metricdp.plane.js";

const [place, what] = process.argv.slice(2);
if (what === "outputs") {
  const mechanism = load(readFileSync(place));
  const lines = readFileSync(0, "utf8").trim().split("\n").map((line) => line.split(" "));
  console.log(JSON.stringify(lines.map(([a, b, ...u]) => mechanism.outputOf([Number(a), Number(b)], u.map(BigInt)))));
} else {
  const found = {};
  for (const name of readdirSync(place)) {
    try {
      const { certificate } = load(readFileSync(join(place, name)));
      found[name] = { accepted: true, ...certificate };
    } catch (error) {
      found[name] = { accepted: false, kind: error.name, error: error.message };
    }
  }
  console.log(JSON.stringify(found));
}

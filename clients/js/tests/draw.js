// node draw.js FILE ROW COUNT: draws so many reports of one record and prints how often each output came.
// node draw.js outputs: reads lines "FILE<tab>ROW<tab>NUMBER" and prints the output that each stands for.
import { readFileSync } from "node:fs";
import { load } from "../dist/metricdp.js";

const [file, row, count] = process.argv.slice(2);
if (file === "outputs") {
  const loaded = new Map();
  const lines = readFileSync(0, "utf8").trim().split("\n").map((line) => line.split("\t"));
  const outputs = lines.map(([name, i, number]) => {
    if (!loaded.has(name)) loaded.set(name, load(readFileSync(name)));
    return loaded.get(name).outputOf(Number(i), BigInt(number));
  });
  console.log(JSON.stringify(outputs));
} else {
  const mechanism = load(readFileSync(file));
  const counts = new Array(mechanism.certificate.outputs).fill(0);
  const id = mechanism.ids[Number(row)];
  const begin = performance.now();
  const some = new Array(10_000).fill(id);
  for (let left = Number(count); left > 0; left -= some.length) {
    for (const { output } of mechanism.perturbMany(some.slice(0, left))) counts[output] += 1;
  }
  console.log(JSON.stringify({ counts, seconds: (performance.now() - begin) / 1000 }));
}

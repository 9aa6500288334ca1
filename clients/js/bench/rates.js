// node rates.js FILE: milliseconds to load and certify, and draws per second, in this process.
import { readFileSync } from "node:fs";
import { load } from "../dist/metricdp.js";

const bytes = readFileSync(process.argv[2]);
export function measured(data) {
  const begin = performance.now();
  const mechanism = load(data);
  const loaded = performance.now();
  const certificate = mechanism.certify();
  const certified = performance.now();
  const ids = mechanism.ids;
  const some = Array.from({ length: 20_000 }, (_, n) => ids[n % ids.length]);
  const options = { allowUnprotected: true };
  mechanism.perturbMany(some, options); // compiled by now
  const start = performance.now();
  for (let n = 0; n < 10; n += 1) mechanism.perturbMany(some, options);
  const many = performance.now();
  for (let n = 0; n < 50_000; n += 1) mechanism.perturb(ids[n % ids.length], options);
  const single = performance.now();
  return {
    ...{ records: certificate.records, outputs: certificate.outputs, pairs: certificate.pairs, bytes: data.length },
    ...{ loadMs: Math.round(loaded - begin), certifyMs: Math.round(certified - loaded) },
    ...{ drawsPerSecond: Math.round(2e8 / (many - start)), singleDrawsPerSecond: Math.round(5e7 / (single - many)) },
  };
}
const before = process.cpuUsage();
const found = measured(bytes);
console.log(JSON.stringify({ ...found, processorMs: Math.round((process.cpuUsage(before).user + process.cpuUsage(before).system) / 1000), rssMb: Math.round(process.memoryUsage().rss / 1e6) }));

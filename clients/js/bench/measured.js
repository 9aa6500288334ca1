/** Milliseconds to load and certify a file, the least of five, and draws per second, the most of five. */
export function measured(load, data) {
  const found = { loadMs: Infinity, certifyMs: Infinity, drawsPerSecond: 0, singleDrawsPerSecond: 0 };
  const timed = (work) => {
    const begin = performance.now();
    work();
    return performance.now() - begin;
  };
  let mechanism;
  for (let repetition = 0; repetition < 5; repetition += 1) {
    found.loadMs = Math.min(found.loadMs, Math.round(timed(() => (mechanism = load(data)))));
    found.certifyMs = Math.min(found.certifyMs, Math.round(timed(() => mechanism.certify())));
    const { ids } = mechanism;
    const some = Array.from({ length: 20_000 }, (_, n) => ids[n % ids.length]);
    const options = { allowUnprotected: true };
    const many = timed(() => { for (let n = 0; n < 10; n += 1) mechanism.perturbMany(some, options); });
    const single = timed(() => { for (let n = 0; n < 50_000; n += 1) mechanism.perturb(ids[n % ids.length], options); });
    found.drawsPerSecond = Math.max(found.drawsPerSecond, Math.round(2e8 / many));
    found.singleDrawsPerSecond = Math.max(found.singleDrawsPerSecond, Math.round(5e7 / single));
  }
  const { records, outputs, pairs } = mechanism.certificate;
  return { records, outputs, pairs, bytes: data.length, ...found };
}

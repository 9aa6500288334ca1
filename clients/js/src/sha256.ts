/** SHA-256 (FIPS 180-4), without waiting: browsers' own is asynchronous, and only there in secure contexts. */

const K = /* @__PURE__ */ constants();

/** The first 32 bits of the fractions of the cube roots of the first 64 primes, by whole numbers. */
function constants(): Int32Array {
  const found = new Int32Array(64);
  for (let n = 2, count = 0; count < 64; n += 1) {
    let isPrime = true;
    for (let d = 2; d * d <= n; d += 1) isPrime &&= n % d !== 0;
    if (isPrime) found[count++] = Number(BigInt.asIntN(32, root(BigInt(n) << 96n, 3n)));
  }
  return found;
}

/** Return the whole part of the root of a whole number. */
function root(value: bigint, power: bigint): bigint {
  let low = 0n;
  let high = 1n << 40n;
  while (high - low > 1n) {
    const middle = (low + high) >> 1n;
    if (middle ** power <= value) low = middle;
    else high = middle;
  }
  return low;
}

export class Sha256 {
  private readonly state = new Int32Array(8);
  private readonly rest = new Uint8Array(64);
  private readonly words = new Int32Array(64);
  private nRest = 0;
  private length = 0;

  constructor() {
    const primes = [2, 3, 5, 7, 11, 13, 17, 19];
    primes.forEach((p, k) => (this.state[k] = Number(BigInt.asIntN(32, root(BigInt(p) << 64n, 2n)))));
  }

  update(bytes: Uint8Array): this {
    this.length += bytes.length;
    let place = 0;
    while (place < bytes.length) {
      if (this.nRest === 0 && bytes.length - place >= 64) {
        this.block(bytes, place);
        place += 64;
        continue;
      }
      const taken = Math.min(64 - this.nRest, bytes.length - place);
      this.rest.set(bytes.subarray(place, place + taken), this.nRest);
      this.nRest += taken;
      place += taken;
      if (this.nRest === 64) {
        this.block(this.rest, 0);
        this.nRest = 0;
      }
    }
    return this;
  }

  hex(): string {
    const bits = this.length * 8;
    const end = new Uint8Array(this.nRest < 56 ? 64 - this.nRest : 128 - this.nRest);
    end[0] = 0x80;
    const view = new DataView(end.buffer);
    view.setUint32(end.length - 8, Math.floor(bits / 2 ** 32));
    view.setUint32(end.length - 4, bits >>> 0);
    this.update(end);
    return [...this.state].map((word) => (word >>> 0).toString(16).padStart(8, "0")).join("");
  }

  private block(bytes: Uint8Array, start: number): void {
    const w = this.words;
    for (let t = 0, p = start; t < 16; t += 1, p += 4) {
      w[t] = (bytes[p] << 24) | (bytes[p + 1] << 16) | (bytes[p + 2] << 8) | bytes[p + 3];
    }
    for (let t = 16; t < 64; t += 1) {
      const x = w[t - 15];
      const y = w[t - 2];
      const s0 = ((x >>> 7) | (x << 25)) ^ ((x >>> 18) | (x << 14)) ^ (x >>> 3);
      const s1 = ((y >>> 17) | (y << 15)) ^ ((y >>> 19) | (y << 13)) ^ (y >>> 10);
      w[t] = (w[t - 16] + s0 + w[t - 7] + s1) | 0;
    }
    let [a, b, c, d, e, f, g, h] = this.state;
    for (let t = 0; t < 64; t += 1) {
      const s1 = ((e >>> 6) | (e << 26)) ^ ((e >>> 11) | (e << 21)) ^ ((e >>> 25) | (e << 7));
      const first = (h + s1 + ((e & f) ^ (~e & g)) + K[t] + w[t]) | 0;
      const s0 = ((a >>> 2) | (a << 30)) ^ ((a >>> 13) | (a << 19)) ^ ((a >>> 22) | (a << 10));
      const second = (s0 + ((a & b) ^ (a & c) ^ (b & c))) | 0;
      h = g;
      g = f;
      f = e;
      e = (d + first) | 0;
      d = c;
      c = b;
      b = a;
      a = (first + second) | 0;
    }
    [a, b, c, d, e, f, g, h].forEach((word, k) => (this.state[k] += word));
  }
}

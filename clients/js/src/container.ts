/** The container: safetensors whose sizes are checked before memory is taken, and hashes. docs/file-format.md is the norm. */

import { FileFormatError, need, short } from "./errors.js";
import { canonicalJson, parseJson, type Json } from "./json.js";
import { type Layout, type Shapes, checkNames } from "./layout.js";
import { Sha256 } from "./sha256.js";

const MAX_HEADER_BYTES = 32_000_000;
const BYTES: Record<string, number> = { U64: 8, I64: 8, F64: 8, I32: 4 };
const CODES: Record<string, string> = { U64: "<u8", I64: "<i8", F64: "<f8", I32: "<i4" };

/** A tensor in memory of its own: what happens to the file's bytes later does not change it. */
export interface Tensor {
  dtype: string;
  shape: number[];
  bytes: Uint8Array;
}

/** The parts of a file whose sizes, names, types and hashes are right. */
export interface Parts {
  metadata: Map<string, string>;
  tensors: Map<string, Tensor>;
  shapes: Shapes;
}

interface Entry {
  dtype: string;
  shape: number[];
  begin: number;
  end: number;
}

/** Return the parts of a file in a layout that its metadata name, or refuse it. */
export function readParts(file: Uint8Array, layoutOf: (metadata: Map<string, string>) => Layout): Parts {
  const isLittle = new Uint8Array(new Uint32Array([1]).buffer)[0] === 1;
  if (!isLittle) throw new FileFormatError("this machine has another byte order than mechanism files");
  const { header, offset } = readHeader(file);
  const metadata = metadataOf(header.get("__metadata__"));
  header.delete("__metadata__");
  const layout = layoutOf(metadata);
  const entries = checkedEntries(header, layout, file.length - offset);
  const shapes: Shapes = new Map([...entries].map(([name, entry]) => [name, entry.shape]));
  need(layout.fits(shapes), "the shapes of its tensors do not fit together");
  const rest = new Map([...metadata].filter(([key]) => key !== "metadata_sha256"));
  const text = new TextEncoder().encode(canonicalJson(rest));
  need(new Sha256().update(text).hex() === metadata.get("metadata_sha256"), CHANGED);
  const digest = new Sha256();
  const tensors = new Map<string, Tensor>();
  for (const name of [...entries.keys()].sort()) {
    const { dtype, shape, begin, end } = entries.get(name)!;
    const bytes = new Uint8Array(end - begin); // slices of Node's buffers would share the file's memory
    bytes.set(file.subarray(offset + begin, offset + end));
    const size = shape.length === 1 ? `(${shape[0]},)` : `(${shape.join(", ")})`;
    digest.update(new TextEncoder().encode(`${name} ${CODES[dtype]} ${size}\n`)).update(bytes);
    tensors.set(name, { dtype, shape, bytes });
  }
  need(digest.hex() === metadata.get("sha256"), CHANGED);
  return { metadata, tensors, shapes };
}

const CHANGED = "changed after it was written: its hash does not match";

function readHeader(file: Uint8Array): { header: Map<string, Json>; offset: number } {
  const short = `no mechanism file, or cut short (${file.length} bytes)`;
  need(file.length >= 8, short);
  const view = new DataView(file.buffer, file.byteOffset, 8);
  const length = view.getUint32(0, true);
  need(view.getUint32(4, true) === 0 && length <= Math.min(file.length - 8, MAX_HEADER_BYTES), short);
  let text: string;
  try {
    text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(file.subarray(8, 8 + length));
  } catch {
    throw new FileFormatError("not a mechanism file: its header is not UTF-8");
  }
  const header = parseJson(text);
  need(header instanceof Map, "not a mechanism file: its header is not a table of tensors");
  return { header, offset: 8 + length };
}

function metadataOf(found: Json | undefined): Map<string, string> {
  const isText = found instanceof Map && [...found.values()].every((value) => typeof value === "string");
  need(isText, "not a mechanism file: it has no metadata");
  return found as Map<string, string>;
}

function checkedEntries(header: Map<string, Json>, layout: Layout, size: number): Map<string, Entry> {
  checkNames([...header.keys()], layout.required, layout.optional);
  const entries = new Map<string, Entry>();
  for (const [name, found] of header) {
    const entry = entryOf(name, found);
    need(kindsOf(layout, name).includes(`${entry.dtype}/${entry.shape.length}`), `tensor ${name} has another type`);
    const wanted = entry.shape.reduce((product, n) => product * n, BYTES[entry.dtype]);
    need(entry.end - entry.begin === wanted && entry.end <= size, `cut short or damaged: tensor ${name} does not fit`);
    entries.set(name, entry);
  }
  let position = 0;
  // empty tensors before others that begin at the same place
  for (const { begin, end } of [...entries.values()].sort((a, b) => a.begin - b.begin || a.end - b.end)) {
    need(begin === position, "its tensors overlap or leave gaps");
    position = end;
  }
  need(position === size, `${size - position} bytes belong to no tensor`);
  return entries;
}

function kindsOf(layout: Layout, name: string): string {
  return layout.kinds.split(" ").find((one) => one.startsWith(`${name}:`))!;
}

function entryOf(name: string, found: Json): Entry {
  const isEntry = found instanceof Map && found.size === 3;
  const [dtype, shape, offsets] = isEntry ? ["dtype", "shape", "data_offsets"].map((key) => found.get(key)) : [];
  const isDescribed = typeof dtype === "string" && dtype in BYTES && isWhole(shape) && isWhole(offsets);
  need(isDescribed && offsets.length === 2, `tensor ${short(name)} is not described properly`);
  return { dtype, shape, begin: offsets[0], end: offsets[1] };
}

function isWhole(value: Json | undefined): value is number[] {
  return Array.isArray(value) && value.every((n) => Number.isSafeInteger(n) && (n as number) >= 0);
}

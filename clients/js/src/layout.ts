/** What the formats hold: a new format is a line here, and is refused until then. */

import { FileFormatError, need, short } from "./errors.js";

export type Shapes = Map<string, number[]>;

/** One format: the tensors and metadata that it must and may have, the tensors' types, and whether shapes fit together. */
export interface Layout {
  required: string[];
  optional: string[];
  /** Such as "outputs:I32/1,F64/2 prior:F64/1". */
  kinds: string;
  fits(shapes: Shapes): boolean;
}

const METADATA = "format epsilon eta metric kind name ids solver created sha256 metadata_sha256";
const OPTIONAL_METADATA = "loss lower_bound loss_name";
/** Types and numbers of dimensions; `outputs` are rows of the records, or other points. */
const KINDS =
  "records:F64/2 prior:F64/1 epsilons:F64/1 outputs:I32/1,F64/2 pairs:I32/2 distances:F64/1 table:U64/2 indptr:I64/1 " +
  "columns:I32/1 weights:U64/1 background:U64/1 scale:U64/1 losses:F64/2 travel:F64/2";
/** For each format its tensors: those that it must have, those that it may have, and metadata that it may have. */
const TENSORS: Record<string, [string, string, string]> = {
  "metricdp-1": ["table pairs distances outputs records prior", "losses", OPTIONAL_METADATA],
  "metricdp-2": [
    "indptr columns weights background scale records prior",
    "pairs distances outputs losses travel",
    `${OPTIONAL_METADATA} loss_kind`,
  ],
};
const OWN_BUDGETS = "+epsilons"; // after either: each record has an epsilon of its own

/** Return the layout of a file by its metadata; refuse formats and metadata that are not known. */
export function layoutOf(metadata: Map<string, string>): Layout {
  const format = metadata.get("format") ?? "";
  const hasOwn = format.endsWith(OWN_BUDGETS);
  const base = hasOwn ? format.slice(0, -OWN_BUDGETS.length) : format;
  if (!Object.hasOwn(TENSORS, base)) {
    const region = base === "metricdp-3" ? ": the mechanism of a region, for metricdp/plane" : "";
    throw new FileFormatError(`not a mechanism file, or of a later version: its format is ${short(JSON.stringify(format))}${region}`);
  }
  const [required, optional, words] = TENSORS[base];
  checkNames([...metadata.keys()], METADATA.split(" "), words.split(" "));
  return {
    ...{ required: `${required}${hasOwn ? " epsilons" : ""}`.split(" "), optional: optional.split(" "), kinds: KINDS },
    fits: partsFit,
  };
}

/** Refuse names that are missing, or that are not known. */
export function checkNames(names: string[], required: string[], optional: string[]): void {
  for (const name of required) need(names.includes(name), `${name} is missing`);
  for (const name of names) {
    need([...required, ...optional].includes(name), `or of a later version: ${short(JSON.stringify(name))} is unknown`);
  }
}

function partsFit(shapes: Shapes): boolean {
  const [n, K] = shapes.get("table") ?? [shapes.get("scale")![0], shapes.get("background")![0]];
  const D = shapes.get("records")![1];
  const P = shapes.get("pairs")?.[0] ?? 0;
  const Q = shapes.get("travel")?.[1] ?? 1;
  const wanted: [string, number[]][] = [
    ["records", [n, D]],
    ["prior", [n]],
    ["epsilons", [n]],
    ["pairs", [P, 2]],
    ["distances", [P]],
    ["losses", [n, K]],
    ["travel", [n, Q]],
    ["indptr", [n + 1]],
    ["columns", shapes.get("weights")!],
  ];
  const outputs = shapes.get("outputs") ?? [n];
  return (
    Math.min(n, K, D, Q) > 0 &&
    shapes.has("pairs") === shapes.has("distances") &&
    wanted.every(([name, shape]) => isSame(shapes.get(name) ?? shape, shape)) &&
    (isSame(outputs, [K]) || isSame(outputs, [K, D]))
  );
}

function isSame(a: number[], b: number[]): boolean {
  return `${a}` === `${b}`;
}

/** The container: safetensors whose sizes are checked before memory is taken, and hashes. docs/file-format.md is the norm. */
import { type Layout, type Shapes } from "./layout.js";
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
/** Return the parts of a file in a layout that its metadata name, or refuse it. */
export declare function readParts(file: Uint8Array, layoutOf: (metadata: Map<string, string>) => Layout): Parts;

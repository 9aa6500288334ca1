/** What the formats hold: a new format is a line here, and is refused until then. */
export type Shapes = Map<string, number[]>;
/** One format: the tensors and metadata that it must and may have, the tensors' types, and whether shapes fit together. */
export interface Layout {
    required: string[];
    optional: string[];
    /** Such as "outputs:I32/1,F64/2 prior:F64/1". */
    kinds: string;
    fits(shapes: Shapes): boolean;
}
/** Return the layout of a file by its metadata; refuse formats and metadata that are not known. */
export declare function layoutOf(metadata: Map<string, string>): Layout;
/** Refuse names that are missing, or that are not known. */
export declare function checkNames(names: string[], required: string[], optional: string[]): void;

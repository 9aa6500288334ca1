/**
 * JSON of mechanism files, read strictly: JSON.parse takes the last of two equal names, and cannot tell 6 from 6.0.
 * Nothing in such a file is a fraction, true, false or null, so these are refused as soon as they are seen.
 */
export type Json = number | string | Json[] | Map<string, Json>;
/** Return what a text says; refuse what is no JSON, names something twice in one object, or nests deeply. */
export declare function parseJson(text: string): Json;
/** Return the metadata's text as hashed: keys sorted, ASCII, a blank after each sign. */
export declare function canonicalJson(entries: Map<string, string>): string;

/**
 * JSON of mechanism files, read strictly: JSON.parse takes the last of two equal names, and cannot tell 6 from 6.0.
 * Nothing in such a file is a fraction, true, false or null, so these are refused as soon as they are seen.
 */

import { FileFormatError } from "./errors.js";

export type Json = number | string | Json[] | Map<string, Json>;

const MOST_NESTED = 8; // a header has three levels
const BLANK = /[ \t\n\r]*/y;
const NUMBER = /-?(?:0|[1-9][0-9]*)/y;
const SPECIAL = /["\\]/g;

/** Return what a text says; refuse what is no JSON, names something twice in one object, or nests deeply. */
export function parseJson(text: string): Json {
  let place = 0;

  function matched(pattern: RegExp): RegExpExecArray | null {
    pattern.lastIndex = place;
    const found = pattern.exec(text);
    if (found) place = pattern.lastIndex;
    return found;
  }

  function sign(expected: string): boolean {
    matched(BLANK);
    if (text[place] !== expected) return false;
    place += 1;
    return true;
  }

  function string(): string {
    matched(BLANK);
    const begin = place;
    if (text[place] !== '"') throw broken();
    // one pattern for a whole string would overflow its stack on the ids of a million records
    for (let escaped = true; escaped; ) {
      place += 1;
      const found = matched(SPECIAL);
      if (!found) throw broken();
      escaped = found[0] !== '"'; // what follows a backslash ends nothing
    }
    try {
      return JSON.parse(text.slice(begin, place)) as string;
    } catch {
      throw broken();
    }
  }

  function value(depth: number): Json {
    if (depth > MOST_NESTED) throw broken();
    if (sign("{")) return object(depth);
    if (sign("[")) return list(depth);
    if (text[place] === '"') return string();
    const found = matched(NUMBER);
    if (!found) throw broken();
    return Number(found[0]);
  }

  function object(depth: number): Map<string, Json> {
    const found = new Map<string, Json>();
    if (sign("}")) return found;
    do {
      const name = string();
      if (!sign(":")) throw broken();
      if (found.has(name)) throw new FileFormatError("a name occurs twice in the header");
      found.set(name, value(depth + 1));
    } while (sign(","));
    if (!sign("}")) throw broken();
    return found;
  }

  function list(depth: number): Json[] {
    const found: Json[] = [];
    if (sign("]")) return found;
    do found.push(value(depth + 1));
    while (sign(","));
    if (!sign("]")) throw broken();
    return found;
  }

  const found = value(0);
  matched(BLANK);
  if (place !== text.length) throw broken();
  return found;
}

/** Return the metadata's text as hashed: keys sorted, ASCII, a blank after each sign. */
export function canonicalJson(entries: Map<string, string>): string {
  const keys = [...entries.keys()].sort();
  return `{${keys.map((key) => `${quoted(key)}: ${quoted(entries.get(key)!)}`).join(", ")}}`;
}

function quoted(text: string): string {
  // JSON.stringify escapes quotes, backslashes, control characters and single surrogates
  return JSON.stringify(text).replace(/[\u007f-\uffff]/g, (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

function broken(): FileFormatError {
  return new FileFormatError("not a mechanism file: its header cannot be read");
}

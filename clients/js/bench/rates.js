// node rates.js FILE: milliseconds to load and certify, draws per second, and the memory of this process at its peak.
import { existsSync, readFileSync } from "node:fs";
import { load } from "../dist/metricdp.js";
import { measured } from "./measured.js";

const found = measured(load, readFileSync(process.argv[2]));
// Linux's own count is of this program; resourceUsage().maxRSS begins with the memory of whoever started it
const [, kilobytes] = /^VmHWM:\s+(\d+)/m.exec(existsSync("/proc/self/status") ? readFileSync("/proc/self/status", "utf8") : "") ?? [];
console.log(JSON.stringify({ ...found, peakMb: Math.round((kilobytes ?? process.resourceUsage().maxRSS) / 1000) }));

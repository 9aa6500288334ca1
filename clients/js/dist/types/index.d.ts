/** Read, verify and draw from metricdp mechanism files. */
export { load } from "./mechanism.js";
export type { Certificate, DrawOptions, Mechanism, PointOptions, Report } from "./mechanism.js";
export type { PointPromise } from "./points.js";
export type { Requirement } from "./requirement.js";
export { CertificationError, FileFormatError, InputError, MetricDPError, RandomnessError } from "./errors.js";

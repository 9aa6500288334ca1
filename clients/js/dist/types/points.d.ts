/** The promise for points that are replaced by their nearest record first. */
/**
 * For points x and x' within r of one another, both at most `limit` from a record:
 * Pr[report | x] <= exp(bound(r)) Pr[report | x'].
 *
 * The records of two such points are at most r + 2 limit apart, and bound(r) is the largest epsilon times the longest path between
 * any records that near. It does not go to 0 with r: two points on both sides of a border have different records. The
 * Python library looks at the cells of the records too, so its bound can be smaller, and it may accept where this refuses.
 */
export declare class PointPromise {
    private readonly contents;
    private readonly graph;
    readonly limit: number;
    /** Why nearby points are not protected; empty if they are. */
    readonly fault: string;
    private readonly known;
    /** Refuse if nearby points are not protected, whatever the points are: the refusal reveals nothing. */
    check(): void;
    /** Return the largest logarithm of a ratio of two points' probabilities, for points within `r`, rounded up. */
    bound(r: number): number;
    private widened;
    private found;
    /** Return the length of the longest path between records that are at most `near` apart. */
    private longest;
}

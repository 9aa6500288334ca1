/** What a caller asks of a file beyond its own claims. */
/** What a file must hold beyond its own claims. */
export interface Requirement {
    /** The largest budget that is accepted. */
    epsilonAtMost?: number;
    /** The smallest distance of neighbours that is accepted; regions have none. */
    etaAtLeast?: number;
    metric?: string;
    /** The certificate's fingerprint, or its first 16 or more digits. */
    fingerprint?: string;
}
/** Return why a requirement is not met; empty if it is. */
export declare function unmet(require: Requirement, epsilon: number, eta: number, metric: string, fingerprint: string): string;

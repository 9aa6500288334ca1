/** SHA-256 (FIPS 180-4), without waiting: browsers' own is asynchronous, and only there in secure contexts. */
export declare class Sha256 {
    private readonly state;
    private readonly rest;
    private readonly words;
    private nRest;
    private length;
    constructor();
    update(bytes: Uint8Array): this;
    hex(): string;
    private block;
}

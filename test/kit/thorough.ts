/** The nightly workflow runs every random case; a run of CI has as many as usually find something. */
export const isThorough = process.env["TEST_THOROUGH"] === "true";

import { describe, test } from "bun:test";

/** Why nothing can be built of Go modules here, if nothing can. */
export const noGo = Bun.which("go") === null ? "Go is not installed" : undefined;

/** How long a build of Go modules may take, where none of them has been built or even fetched before. */
export const buildTimeoutMs = 20 * 60_000;

/**
 * A suite that needs something of this machine; `missing` says in a line what is not there. Without it the suite is
 * skipped, but never in CI.
 */
export function describeUnlessMissing(missing: string | undefined, name: string, body: () => void): void {
  if (missing === undefined) return describe(name, body);
  if (process.env["CI"] === "true") return test(name, () => fail(missing));
  process.stderr.write(`${name}: skipped: ${missing}\n`);
  // There is nothing to run it with; the reason is on stderr.
  describe.skip(name, body);
}

function fail(missing: string): never {
  throw new Error(`CI runs every test: ${missing}`);
}

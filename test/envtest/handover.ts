import { readFile } from "node:fs/promises";
import { delimiter } from "node:path";

import type { KeyPair } from "../../host/process/serving/self-signed.ts";

/** What another process needs to use a control plane. It holds the authority's key: a reader of it is admin. */
export interface Handover {
  readonly server: string;
  /** Its private folder, which goes when it goes. */
  readonly directory: string;
  readonly authority: KeyPair;
  readonly auditLog: string;
  /** The folder of the control plane's programs. */
  readonly assets: string;
  /** The key that service account tokens are signed with. */
  readonly tokenKey: string;
}

/** By this variable `bun run test` passes on the reason for the missing control plane. */
export const absentVariable = "TEST_CONTROL_PLANE_ABSENT";
const handoverVariable = "TEST_CONTROL_PLANES";

/** The variable that passes on the control planes, one for each worker that runs test files. */
export const passOn = (handoverFiles: readonly string[]): Readonly<Record<string, string>> => ({
  [handoverVariable]: handoverFiles.join(delimiter),
});

/** The control plane of this worker: tests of two workers never share one, so that a suite has all nodes to itself. */
export function passedOn(environment: Readonly<Record<string, string | undefined>>): string | undefined {
  const files = environment[handoverVariable]?.split(delimiter) ?? [];
  // A worker that crashed is replaced by one with a higher number.
  return files[(Number(environment["BUN_TEST_WORKER_ID"] ?? 1) - 1) % files.length];
}

export const readHandover = async (file: string): Promise<Handover> => JSON.parse(await readFile(file, "utf8"));

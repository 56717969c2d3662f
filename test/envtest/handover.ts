import { readFile } from "node:fs/promises";

import type { KeyPair } from "../../host/process/serving/self-signed.ts";

/** What another process needs to use a control plane. It holds the authority's key: whoever reads it is admin. */
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

/** By these variables `bun run test` tells test files of the control plane it started, or why there is none. */
export const handoverVariable = "TEST_CONTROL_PLANE";
export const absentVariable = "TEST_CONTROL_PLANE_ABSENT";

export const readHandover = async (file: string): Promise<Handover> => JSON.parse(await readFile(file, "utf8"));

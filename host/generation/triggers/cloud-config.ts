import { createHash } from "node:crypto";

import type { Decoded } from "cloud-controller-host/sdk";

import { type Mapping, readMapping } from "../../config/parse/document.ts";

/** The cloud config as a document; what its keys mean is the cloud plugin's business. */
export interface CloudConfig {
  /** Where it came from, for people. */
  readonly source: string;
  readonly document: Mapping;
  /** The host's own switch in it: controllers stay stopped while it is true. */
  readonly disabled: boolean;
  /** Tells contents apart in logs and `/statusz` without showing them. */
  readonly hash: string;
}

export const hashOf = (content: string): string => createHash("sha256").update(content).digest("hex").slice(0, 12);

/** Reads YAML or JSON. `source` names the file or Secret in every problem; contents never appear. */
export function parseCloudConfig(content: string, source: string): Decoded<CloudConfig> {
  const refuse = (problems: readonly string[]): Decoded<CloudConfig> => ({
    ok: false,
    problems: problems.map((problem) => `${source}: ${problem}`),
  });
  const read = readMapping(content, "a cloud config");
  if (!read.ok) return refuse(read.problems);
  const document = read.value;
  const disable = Object.entries(document).findLast(([key]) => key.toLowerCase() === "disablecloudprovider")?.[1];
  if (disable !== undefined && disable !== null && typeof disable !== "boolean")
    return refuse(["disableCloudProvider must be true or false"]);
  const warnings = read.warnings.map((warning) => `${source}: ${warning}`);
  return { ok: true, value: { source, document, disabled: disable === true, hash: hashOf(content) }, warnings };
}

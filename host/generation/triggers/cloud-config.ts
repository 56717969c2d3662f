import { createHash } from "node:crypto";

import { CodedError, type Decoded, type Logger, ProblemsError } from "cloud-controller-host/sdk";

import { fieldChanges } from "../../changes/fields.ts";
import { type Mapping, readMapping } from "../../config/parse/document.ts";

/** The cloud config as a document; what its keys mean is the cloud plugin's business. */
export interface CloudConfig {
  /** Its source, for messages. */
  readonly source: string;
  readonly document: Mapping;
  /** The host's own switch in it: controllers stay stopped while it is true. */
  readonly disabled: boolean;
  /** Of the host's own keys; the cloud plugin reports those of the others. Absent in a valid config. */
  readonly problems?: readonly string[];
  /** Tells contents apart in logs and `/statusz` without showing them. */
  readonly hash: string;
}

/**
 * Paths of the keys with another value, in order; of all keys without a former config. Values never appear, and a path
 * ends before the item of a list, which is named by one of its values.
 */
export function changedKeys(former: CloudConfig | undefined, { document }: CloudConfig): readonly string[] {
  const paths = fieldChanges(former?.document ?? {}, document).map(({ path }) => path.replace(/\[.*$/u, ""));
  return [...new Set(paths)];
}

export const hashOf = (content: string): string => createHash("sha256").update(content).digest("hex").slice(0, 12);

/**
 * A key without what cannot belong to its name. YAML takes `{secret:x}` for a key, as well as what stands before a missing
 * comma: keys are shown in logs, `/statusz` and bundles, where no value may appear.
 */
function nameIn(key: string, value: unknown): string {
  const end = key.search(value === null ? /["':]/u : /"/u);
  return end < 0 ? key : `${key.slice(0, end)}…`;
}

/** Reads YAML or JSON. `source` names the file or Secret in every problem; contents never appear. */
export function parseCloudConfig(content: string, source: string): Decoded<CloudConfig> {
  const refuse = (problems: readonly string[]): Decoded<CloudConfig> => ({
    ok: false,
    problems: problems.map((problem) => `${source}: ${problem}`),
  });
  const read = readMapping(content, "a cloud config");
  if (!read.ok) return refuse(read.problems);
  const document = Object.fromEntries(Object.entries(read.value).map(([key, value]) => [nameIn(key, value), value]));
  const disable = Object.entries(document).findLast(([key]) => key.toLowerCase() === "disablecloudprovider")?.[1];
  const isInvalid = disable !== undefined && disable !== null && typeof disable !== "boolean";
  const problems = [`${source}: disableCloudProvider must be true or false without quotes`];
  const warnings = read.warnings.map((warning) => `${source}: ${warning}`);
  const config = { source, document, disabled: disable === true, hash: hashOf(content) };
  return { ok: true, value: isInvalid ? { ...config, problems } : config, warnings };
}

/** The config of a source's settled content; without a source, an empty one. Throws with all that is wrong. */
export function readCloudConfig(
  source: { readonly description: string } | undefined,
  content: { readonly text: string } | { readonly unreadable: string } | undefined,
  log: Pick<Logger, "warn">,
): CloudConfig {
  if (source === undefined || content === undefined)
    return { source: "no cloud config", document: {}, disabled: false, hash: "" };
  if ("unreadable" in content) throw new CodedError("CloudConfigUnreadable", content.unreadable);
  const decoded = parseCloudConfig(content.text, source.description);
  if (!decoded.ok) throw new ProblemsError("the cloud config is refused", decoded.problems);
  for (const warning of decoded.warnings) log.warn(warning);
  return decoded.value;
}

import { createHash } from "node:crypto";

import type { Decoded } from "cloud-controller-host/sdk";
import { parse, YAMLParseError } from "yaml";

/** The cloud config as a document; what its keys mean is the cloud plugin's business. */
export interface CloudConfig {
  /** Where it came from, for people. */
  readonly source: string;
  readonly document: Readonly<Record<string, unknown>>;
  /** The host's own switch in it: controllers stay stopped while it is true. */
  readonly disabled: boolean;
  /** Tells contents apart in logs and `/statusz` without showing them. */
  readonly hash: string;
}

export const hashOf = (content: string): string => createHash("sha256").update(content).digest("hex").slice(0, 12);

/** Reads YAML or JSON (which is YAML). `source` names the file or Secret in every problem; contents never appear. */
export function parseCloudConfig(content: string, source: string): Decoded<CloudConfig> {
  const refuse = (problem: string): Decoded<CloudConfig> => ({ ok: false, problems: [`${source}: ${problem}`] });
  if (content.trim() === "") return refuse("it is empty; write a cloud config there");
  let parsed: unknown;
  try {
    parsed = parse(content, { prettyErrors: false, logLevel: "error" });
  } catch (error) {
    return refuse(`it is neither YAML nor JSON: ${mistake(error, content)}`);
  }
  if (!isMapping(parsed)) return refuse("it must be a mapping of keys to values");
  const disable = Object.entries(parsed).find(([key]) => key.toLowerCase() === "disablecloudprovider")?.[1];
  if (disable !== undefined && typeof disable !== "boolean")
    return refuse("disableCloudProvider must be true or false");
  return {
    ok: true,
    value: { source, document: parsed, disabled: disable === true, hash: hashOf(content) },
    warnings: [],
  };
}

/** Only the kind of the mistake and its line: the parser's message may quote a value, which may be a secret. */
function mistake(error: unknown, content: string): string {
  if (!(error instanceof YAMLParseError)) return "an alias or a tag in it cannot be resolved";
  const line = content.slice(0, error.pos[0]).split("\n").length;
  return `line ${line}: ${error.code.toLowerCase().replaceAll("_", " ")}`;
}

function isMapping(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

import { createHash } from "node:crypto";

import { type Decoded, messageOf } from "cloud-controller-host/sdk";
import { parse, YAMLParseError } from "yaml";

/** The cloud config as a document; what its keys mean is the cloud plugin's business. */
export interface CloudConfig {
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
    parsed = parse(content, { prettyErrors: false, logLevel: "silent" });
  } catch (error) {
    return refuse(`it is neither YAML nor JSON: ${withoutContent(error)}`);
  }
  if (!isMapping(parsed)) return refuse("it must be a mapping of keys to values");
  const disable = Object.entries(parsed).find(([key]) => key.toLowerCase() === "disablecloudprovider")?.[1];
  if (disable !== undefined && typeof disable !== "boolean")
    return refuse("disableCloudProvider must be true or false");
  return { ok: true, value: { document: parsed, disabled: disable === true, hash: hashOf(content) }, warnings: [] };
}

/** The parser's words and position only: its longer message quotes the line, which may hold a secret. */
function withoutContent(error: unknown): string {
  const message = messageOf(error).split("\n", 1)[0] ?? "";
  return error instanceof YAMLParseError ? `${message} (at character ${error.pos[0]})` : message;
}

function isMapping(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

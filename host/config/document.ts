import { readFile } from "node:fs/promises";

import { CodedError, type Decoded, messageOf } from "cloud-controller-host/sdk";
import { parse, YAMLParseError } from "yaml";

export type Mapping = Readonly<Record<string, unknown>>;

/**
 * Parses a YAML or JSON document that must be a mapping. `wanted` names the expected content for messages. Problems never
 * quote the content, which may be secret.
 */
export function readMapping(content: string, wanted: string): Decoded<Mapping> {
  const refuse = (problem: string): Decoded<Mapping> => ({ ok: false, problems: [problem] });
  if (content.trim() === "") return refuse(`it is empty; write ${wanted} there`);
  let parsed: unknown;
  try {
    parsed = parse(content, { prettyErrors: false, logLevel: "error" });
  } catch (error) {
    return refuse(`it is neither YAML nor JSON: ${mistake(error, content)}`);
  }
  return isMapping(parsed)
    ? { ok: true, value: parsed, warnings: [] }
    : refuse("it must be a mapping of keys to values");
}

/** The kind and line of the error only: the parser's message may quote a value. */
function mistake(error: unknown, content: string): string {
  if (!(error instanceof YAMLParseError)) return "an alias or a tag in it cannot be resolved";
  const line = content.slice(0, error.pos[0]).split("\n").length;
  return `line ${line}: ${error.code.toLowerCase().replaceAll("_", " ")}`;
}

const isMapping = (value: unknown): value is Mapping =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** Reads a file named by the user; rejects with one line that begins with `description`, e.g. `--flag=/path`. */
export async function readNamedFile(description: string, path: string): Promise<string> {
  try {
    return await readFile(path, "utf8");
  } catch (error) {
    throw new CodedError("FileUnreadable", `${description}: ${reasonOf(error)}`, { cause: error });
  }
}

const reasons: Readonly<Record<string, string>> = {
  ENOENT: "there is no such file; create it or correct the flag",
  EACCES: "the file may not be read; give the process's user read permission",
  EISDIR: "this is a folder; name the file in it",
};

function reasonOf(error: unknown): string {
  const code = error instanceof Error && "code" in error ? String(error.code) : "";
  return reasons[code] ?? messageOf(error);
}

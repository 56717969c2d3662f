import { CodedError, type Decoded, isObject } from "cloud-controller-host/sdk";
import {
  type Document,
  isMap,
  isPair,
  isScalar,
  isSeq,
  LineCounter,
  parseDocument,
  type Tags,
  type YAMLMap,
  type YAMLParseError,
} from "yaml";

import { readDocument } from "./read-text.ts";

export type Mapping = Readonly<Record<string, unknown>>;

/** A Secret or a ConfigMap has 1 MiB at most. The parser takes seconds for a megabyte, in which no lease is renewed. */
const maxCharacters = 1024 * 1024;

/**
 * Parses a document in YAML or JSON (which is YAML) that must be a mapping. YAML is read as Go's `sigs.k8s.io/yaml`
 * reads it: `yes` and `on` are booleans, and of a duplicate key the last value applies, with a warning. `wanted` is the
 * noun for an empty document. Neither problems nor warnings show values, which may be secret.
 */
export function readMapping(content: string, wanted: string): Decoded<Mapping> {
  const refuse = (problem: string): Decoded<Mapping> => ({ ok: false, problems: [problem] });
  if (content.trim() === "") return refuse(`it is empty; write ${wanted} there`);
  if (content.length > maxCharacters)
    return refuse(`it has more than ${maxCharacters} characters, which no Secret or ConfigMap can hold`);
  const lines = new LineCounter();
  const document = parseDocument(content, { ...goYAML, lineCounter: lines });
  const [error] = document.errors;
  if (error !== undefined) return refuse(`it is neither YAML nor JSON: ${describeError(error, content)}`);
  let parsed: unknown;
  try {
    parsed = document.toJS({ reviver: (_, value: unknown) => (typeof value === "bigint" ? numberOf(value) : value) });
  } catch {
    return refuse("it is neither YAML nor JSON: an alias in it cannot be resolved");
  }
  return isObject(parsed)
    ? { ok: true, value: parsed, warnings: duplicateKeys(document, lines) }
    : refuse("it must be a mapping of keys to values");
}

/** Go's library leaves timestamps and base-60 numbers, which are YAML 1.1 too, as text. */
const leftAsText = new Set(["tag:yaml.org,2002:timestamp", "tag:yaml.org,2002:binary"]);
const goYAML = {
  version: "1.1",
  uniqueKeys: false,
  prettyErrors: false,
  logLevel: "error",
  intAsBigInt: true,
  customTags: (tags: Tags) =>
    tags.filter((tag) => typeof tag === "string" || (tag.format !== "TIME" && !leftAsText.has(tag.tag))),
} as const;

/** An integer that a number cannot hold exactly stays as its digits: it can only be meant as text. */
const numberOf = (value: bigint): number | string =>
  Number.isSafeInteger(Number(value)) ? Number(value) : String(value);

/** The errors that a slip leads to, in the terms of its writer. */
const slips: Readonly<Partial<Record<YAMLParseError["code"], string>>> = {
  BAD_DQ_ESCAPE: "a backslash in double quotes does not begin an escape sequence; use single quotes",
  BAD_INDENT: "a bracket is not closed, or the line is not indented like those around it",
  BAD_SCALAR_START: "the value begins with a reserved character; quote it",
  BLOCK_AS_IMPLICIT_KEY:
    "the value contains a colon and a space, or the line is not indented like those around it; quote it, or align the line",
  BLOCK_IN_FLOW: "a comma or a closing bracket is missing",
  MISSING_CHAR: "a quotation mark is not closed, or the colon after a key is missing",
  MULTILINE_IMPLICIT_KEY: "the colon after a key is missing",
  MULTIPLE_DOCS: "a second document begins; keep one",
  RESOURCE_EXHAUSTION: "it is nested too deeply",
  TAB_AS_INDENT: "a tab indents the line; use spaces",
  UNEXPECTED_TOKEN: "a comma, a bracket or a dash is not expected there",
};

/** Only the kind of the error and its line: the parser's message may quote a value. */
const describeError = ({ code, pos }: YAMLParseError, content: string): string =>
  `line ${lineAt(content, pos[0])}: ${slips[code] ?? code.toLowerCase().replaceAll("_", " ")}`;

/** An offset behind the last line break belongs to the last line with content. */
const lineAt = (content: string, offset: number): number =>
  content.slice(0, Math.min(offset, content.trimEnd().length)).split("\n").length;

/** One warning per key and mapping, however often it is repeated. */
function duplicateKeys(document: Document, lines: LineCounter): readonly string[] {
  return mappingsIn(document).flatMap(({ items }) => {
    const seen = new Set<string>();
    const lastAt = new Map<string, number>();
    for (const { key } of items) {
      if (!isScalar(key)) continue;
      const name = String(key.value);
      if (seen.has(name)) lastAt.set(name, key.range?.[0] ?? 0);
      seen.add(name);
    }
    return [...lastAt].map(
      ([name, at]) => `line ${lines.linePos(at).line}: duplicate key ${name}; its last value applies`,
    );
  });
}

/** The outer ones first. The library's own walk takes the square of the depth: minutes for some kilobytes of brackets. */
function mappingsIn({ contents }: Document): readonly YAMLMap[] {
  const mappings: YAMLMap[] = [];
  const nodes: unknown[] = [contents];
  for (const node of nodes) {
    if (isMap(node)) mappings.push(node);
    if (isMap(node) || isSeq(node)) for (const item of node.items) nodes.push(item);
    else if (isPair(node)) nodes.push(node.key, node.value);
  }
  return mappings;
}

/** Reads a file named by the user; rejects with one line that begins with `description`, e.g. `--flag=/path`. */
export async function readNamedFile(description: string, path: string): Promise<string> {
  try {
    return await readDocument(path);
  } catch (error) {
    // Its text begins with the path, which the description has.
    if (error instanceof CodedError)
      throw new CodedError("FileUnreadable", `${description}: this ${error.message.slice(path.length + 1)}`);
    const code = error instanceof Error && "code" in error ? String(error.code) : "";
    const reason = reasons[code];
    // The text of a known error would repeat its reason.
    if (reason !== undefined) throw new CodedError("FileUnreadable", `${description}: ${reason}`);
    throw new CodedError("FileUnreadable", `${description}: the file cannot be read`, { cause: error });
  }
}

const reasons: Readonly<Record<string, string>> = {
  ENOENT: "no such file; create it or correct the flag (ENOENT)",
  EACCES: "the file may not be read; give the process's user read permission (EACCES)",
  EISDIR: "this is a folder; name the file in it (EISDIR)",
};

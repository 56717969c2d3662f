import { formatCSV, parseCSV } from "../values/csv.ts";
import { formatDuration, parseDuration } from "../values/durations.ts";
import { bad, good, type Parsed, quoted } from "../values/parsed.ts";
import { parseBool, parseFloat32, parseInteger, parseIP, parseLevel, parseQuantity } from "../values/values.ts";
import type { FlagType } from "./flag.ts";

const isString = (value: unknown): value is string => typeof value === "string";
const isNumber = (value: unknown): value is number => typeof value === "number";
const isBoolean = (value: unknown): value is boolean => typeof value === "boolean";

/** A decimal number. */
const numbers = (word: string, parse: (text: string) => Parsed<number>): FlagType<number> => ({
  word,
  parse,
  format: String,
  is: isNumber,
});

export const int = numbers("int", (text) => parseInteger(text, 64));
export const int32 = numbers("int32", (text) => parseInteger(text, 32));
export const float32 = numbers("float32", parseFloat32);
/** Bytes. */
export const quantity = numbers("quantity", parseQuantity);
export const level = numbers("Level", parseLevel);

/** Milliseconds. */
export const duration: FlagType<number> = {
  word: "duration",
  parse: parseDuration,
  format: formatDuration,
  is: isNumber,
};

/** A switch: `--name` or `--name=false`, never `--name false`. */
export const bool: FlagType<boolean> = { word: "", bare: "true", parse: parseBool, format: String, is: isBoolean };

export const string: FlagType<string> = { word: "string", parse: good, format: (value) => value, is: isString };

export const ip: FlagType<string> = { word: "ip", parse: parseIP, format: (value) => value, is: isString };

/** The first occurrence replaces the default, later ones add to it; an empty argument is the empty list. */
export const strings: FlagType<readonly string[]> = {
  word: "strings",
  parse(text, soFar) {
    const fields = parseCSV(text);
    return fields.ok ? good([...(soFar ?? []), ...fields.value]) : fields;
  },
  format: (value) => `[${formatCSV(value)}]`,
  is: (value): value is readonly string[] => Array.isArray(value) && value.every(isString),
};

/** One path per occurrence, which may contain commas; an empty argument adds none. */
export const paths: FlagType<readonly string[]> = {
  word: "string",
  parse: (text, soFar) => good([...(soFar ?? []), ...(text === "" ? [] : [text])]),
  format: (value) => value.join(","),
  is: (value): value is readonly string[] => strings.is(value),
};

export const int32s: FlagType<readonly number[]> = {
  word: "int32Slice",
  parse(text, soFar) {
    const values = [...(soFar ?? [])];
    for (const part of text.split(",")) {
      const value = parseInteger(part, 32);
      if (!value.ok) return value;
      values.push(value.value);
    }
    return good(values);
  },
  format: (value) => `[${value.join(",")}]`,
  is: (value): value is readonly number[] => Array.isArray(value) && value.every(isNumber),
};

/** A serving certificate for host names; without names, for those in the certificate. */
export interface NamedCertKey {
  readonly certFile: string;
  readonly keyFile: string;
  readonly names: readonly string[];
}

/** `cert,key` or `cert,key:name1,name2`, one pair per occurrence. */
export const certKeys: FlagType<readonly NamedCertKey[]> = {
  word: "namedCertKey",
  parse(text, soFar) {
    const colon = text.indexOf(":");
    const names = colon < 0 ? undefined : text.slice(colon + 1).trim();
    if (names === "") return bad("needs a name after the colon");
    const [certFile = "", keyFile = "", ...rest] = (colon < 0 ? text : text.slice(0, colon)).split(",").map(trimmed);
    if (certFile === "" || keyFile === "" || rest.length > 0)
      return bad("must be the paths of a certificate and of its key, with a comma between them");
    return good([...(soFar ?? []), { certFile, keyFile, names: names?.split(",").map(trimmed) ?? [] }]);
  },
  format: (value) => `[${value.map(formatCertKey).join(";")}]`,
  is: (value): value is readonly NamedCertKey[] => Array.isArray(value) && value.every(isCertKey),
};

const trimmed = (text: string): string => text.trim();
const formatCertKey = ({ certFile, keyFile, names }: NamedCertKey): string =>
  `${certFile},${keyFile}${names.length === 0 ? "" : `:${names.join(",")}`}`;
const isCertKey = (value: unknown): boolean => typeof value === "object" && value !== null && "certFile" in value;

/** `pattern=N,…`: verbosities for log lines whose source matches the pattern. Kept as text. */
export const vmodule: FlagType<string> = {
  word: "pattern=N,...",
  parse(text, soFar) {
    const rules = text.split(",").filter((rule) => rule !== "");
    for (const rule of rules) {
      const [pattern = "", verbosity = "", ...rest] = rule.split("=");
      if (pattern === "" || verbosity === "" || rest.length > 0) return bad(`${quoted(rule)} must be pattern=N`);
      const parsed = parseLevel(verbosity);
      if (!parsed.ok) return bad(`the verbosity in ${quoted(rule)} ${parsed.problem}`);
    }
    return good([...(soFar === undefined || soFar === "" ? [] : [soFar]), ...rules].join(","));
  },
  format: (value) => value,
  is: isString,
};

/** `true` (also when bare), `raw`, `false`, or a version `vX.Y.Z…` that overrides the reported one. */
export const version: FlagType<string> = {
  word: "version",
  bare: "true",
  parse(text) {
    if (text === "raw") return good(text);
    if (text.startsWith("v"))
      return /^v\d+\.\d+\.\d+([-+.].*)?$/.test(text) ? good(text) : bad("must be a version such as v1.2.3");
    const parsed = parseBool(text);
    return parsed.ok ? good(String(parsed.value)) : parsed;
  },
  format: (value) => value,
  is: isString,
};

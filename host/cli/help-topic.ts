import { type AnnotationHelp, CodedError, errorCodes, errorTable } from "cloud-controller-host/sdk";

import { commandNames } from "../config/help/commands.ts";
import { removedFlags } from "../config/parse/scan.ts";
import { didYouMean } from "../config/values/suggestion.ts";
import type { ConfigKey } from "./config-keys.ts";

/** Topics that depend on the clouds among the plugins. */
export interface CloudTopics {
  readonly annotations: readonly AnnotationHelp[];
  /** Keys of the cloud config. */
  readonly keys: readonly ConfigKey[];
}

const slug = (headline: string): string =>
  headline
    .replace(/ flags:$/u, "")
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/gu, "-")
    .replaceAll(/^-|-$/gu, "");

/** The names of all flags in the `--help` text. */
export const flagNames = (text: string): readonly string[] =>
  [...text.matchAll(/^ {2,6}(?:-\w, )?--([a-z0-9-]+)/gmu)].map(([, name = ""]) => name);

const describe = (code: string): string => {
  const row = errorCodes.get(code);
  return row === undefined ? "" : `  ${code}\n      ${row.meaning} ${row.remedy}\n`;
};

/** The errors with their codes, by area. */
const errorsText = (): string =>
  Object.entries(errorTable)
    .map(([area, rows]) => `${area}:\n${Object.keys(rows).map(describe).join("")}`)
    .join("\n");

const annotationText = ({ key, values, fallback, effect, invalid }: AnnotationHelp): string =>
  `  ${key}\n      ${effect}\n      Values: ${values}${fallback === "" ? "" : ` (default ${fallback})`}. Invalid: ${invalid}.\n`;

const configKeyText = ({ path, type, words, fallback, description }: ConfigKey): string =>
  `  ${path}\n      ${description}\n      ${words.length > 0 ? `Values: ${words.join(", ")}` : `Type: ${type}`}${fallback === "" ? "" : ` (default ${fallback})`}.\n`;

/**
 * The key of the cloud config with that path, in any case as the config is read and also for one item of a list, as
 * problems name it, or all keys with that last part.
 */
function configKeysOf(keys: readonly ConfigKey[], topic: string): readonly ConfigKey[] {
  const wanted = topic.toLowerCase().replaceAll(/\[\d+\]/gu, "[]");
  const exact = keys.filter(({ path }) => path.toLowerCase() === wanted);
  return exact.length > 0 ? exact : keys.filter(({ path }) => lastPart(path).toLowerCase() === wanted);
}

const lastPart = (path: string): string => path.slice(path.lastIndexOf(".") + 1);

/** The key without its prefix, which is what people remember. */
const shortKey = (key: string): string => key.slice(key.indexOf("/") + 1);

/** True for the key of an annotation with or without its prefix, and with the number of a port, as Services have it. */
const namesAnnotation = (topic: string, key: string): boolean =>
  [topic, topic.replace(/\d+/u, "<port>")].some((one) => one === key || one === shortKey(key));

/** Topics that print a whole table. */
const wholeTables = ["annotations", "config", "errors"];

/**
 * The part of the `--help` text for a topic: one flag by name, or one group of flags by its headline. Also `annotations`,
 * `config` and `errors`, an annotation by its key, with or without prefix, a key of the cloud config and an error by its
 * code. Throws `InvalidArgument`, with all topics.
 */
export function helpTopic(text: string, topic: string, { annotations, keys }: CloudTopics): string {
  if (topic === "errors") return errorsText();
  if (topic === "config") return keys.map(configKeyText).join("\n");
  if (topic === "annotations") return annotations.map(annotationText).join("\n");
  const annotation = annotations.find(({ key }) => namesAnnotation(topic, key));
  if (annotation !== undefined) return annotationText(annotation);
  if (errorCodes.has(topic)) return describe(topic);
  const groups = new Map(
    text
      .split(/\n\n(?=\S[^\n]* flags:\n)/u)
      .slice(1)
      .map((group) => [slug(group.split("\n", 1)[0] ?? ""), `${group.trimEnd()}\n`] as const),
  );
  const group = groups.get(topic);
  if (group !== undefined) return group;
  const name = topic.replace(/^-+/u, "");
  const flags = new Map(
    [...groups.values()].flatMap((lines) =>
      lines
        .split(/\n\n(?= )/u)
        .map((entry) => [/--([a-z0-9-]+)/u.exec(entry)?.[1] ?? "", `${entry.trimEnd()}\n`] as const),
    ),
  );
  const flag = flags.get(name);
  if (flag !== undefined) return flag;
  const remedy = removedFlags.get(name);
  if (remedy !== undefined) return `  --${name}\n      ${remedy}\n`;
  const configKeys = configKeysOf(keys, topic);
  if (configKeys.length > 0) return configKeys.map(configKeyText).join("\n");
  const suggestion = didYouMean(
    name,
    [
      ...wholeTables,
      ...commandNames,
      ...groups.keys(),
      ...flags.keys(),
      ...errorCodes.keys(),
      ...annotations.map(({ key }) => shortKey(key)),
      ...keys.map(({ path }) => lastPart(path)),
    ],
    "",
  );
  throw new CodedError(
    "InvalidArgument",
    `unknown help topic "${topic}"${suggestion}; topics are each command, flag, annotation, key of the cloud config and error code, all of a kind by ${wholeTables.join(", ")}, and flags by their group: ${[...groups.keys()].join(", ")}`,
  );
}

import { CodedError } from "cloud-controller-host/sdk";

import { groupPattern, namePattern } from "../../resource-names.ts";
import { limits } from "../model/limits.ts";
import { flag, matching, type Reader } from "./readers.ts";

/** Prefix of every annotation of Services that this cloud reads. */
export const annotationPrefix = "service.beta.kubernetes.io/";

/** Beginning of every annotation for one port. */
export const portPrefix = `${annotationPrefix}port_`;

/** One annotation: its reader, and its row of the reference page. */
export interface Annotation<T> {
  /** Without the prefix; `<port>` stands for the number of a port of the Service. */
  readonly key: string;
  /** Valid values. */
  readonly values: string;
  /** Empty: nothing. */
  readonly fallback: string;
  readonly effect: string;
  /** Consequence of an invalid value. */
  readonly invalid: "Service refused" | "ignored, with a warning" | "traffic denied";
  readonly read: Reader<T>;
  /** The value of a Service without the annotation. */
  readonly absent: T;
}

/** The key as users write it, and as messages name it. */
export function fullKey({ key }: Pick<Annotation<unknown>, "key">, port?: number): string {
  if (port !== undefined) return annotationPrefix + key.replace("<port>", `${port}`);
  return fullKeys.getOrInsertComputed(key, () => annotationPrefix + key);
}

/** Keys of the table with the prefix, which every plan looks up many times. */
const fullKeys = new Map<string, string>();

type Row = Omit<Annotation<unknown>, "key" | "read" | "absent" | "effect">;

export const row = <T>(key: string, read: Reader<T>, effect: string, about: Partial<Row> & Pick<Row, "values">) => ({
  key,
  read,
  absent: absentValue(key, read),
  effect,
  fallback: "",
  invalid: "Service refused" as const,
  ...about,
});

function absentValue<T>(key: string, read: Reader<T>): T {
  const absent = read(undefined);
  if ("value" in absent) return absent.value;
  throw new CodedError("Internal", `annotation ${annotationPrefix}${key} has no value when absent`);
}

export const flagRow = (key: string, effect: string) =>
  row(key, flag, effect, { values: "`true`, `false`", fallback: "`false`", invalid: "ignored, with a warning" });

const groupName = matching(groupPattern, "letters, digits, `-`, `_`, `.`, `(` and `)`, without `.` at the end", 90);
const resourceName = matching(
  namePattern,
  "letters, digits, `.`, `_` and `-`, a letter or digit first, and a letter, digit or `_` last",
  limits.nameLength,
);

type NamedRow = Partial<Row> & { readonly values?: string };

/** The name of a network resource. */
export const name = (key: string, effect: string, about: NamedRow = {}) =>
  row(key, resourceName, effect, { values: "name", ...about });

/** The name of a resource group. */
export const group = (key: string, effect: string, fallback: string) =>
  row(key, groupName, effect, { values: "name of a resource group", fallback });

/** The pattern of a part of a text. */
const bare = ({ source }: RegExp): string => source.slice(1, -1);
const prefixId = new RegExp(
  `^/subscriptions/[\\w-]+/resourceGroups/${bare(groupPattern)}/providers/Microsoft\\.Network/publicIPPrefixes/${bare(namePattern)}$`,
  "iu",
);
/** As `reader`, but an absent annotation has no value. */
export const orEmpty = (reader: Reader<string>): Reader<string | undefined> =>
  Object.assign((value: string | undefined) => (value === undefined ? { value } : reader(value)), {
    limits: reader.limits,
  });
const frontendId = new RegExp(
  `^/subscriptions/[\\w-]+/resourceGroups/${bare(groupPattern)}/providers/Microsoft\\.Network/loadBalancers/${bare(namePattern)}/frontendIPConfigurations/${bare(namePattern)}$`,
  "iu",
);
const frontendIdReader = matching(frontendId, "the resource id of a frontend of a load balancer", 1024);
/** The resource id of a frontend; an empty text stands for none, an absent annotation for no wish. */
export const frontend = (key: string, effect: string) =>
  row(key, orEmpty(frontendIdReader), effect, { values: "resource id or empty" });
export const prefix = (key: string, effect: string) =>
  row(key, matching(prefixId, "the resource id of a public IP prefix", 1024), effect, { values: "resource id" });

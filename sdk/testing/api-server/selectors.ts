import type { KubeObject } from "cloud-controller-host/sdk";

import { badRequest } from "./access/status.ts";
import { ownMember } from "./json.ts";

type Labels = Readonly<Record<string, string>>;

/** One condition of a label selector. */
type Requirement = (labels: Labels) => boolean;

const keyForm = String.raw`(?:[A-Za-z0-9.-]+/)?[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?`;
const valueForm = String.raw`[A-Za-z0-9._-]*`;
const forms: readonly { readonly pattern: RegExp; readonly read: (parts: readonly string[]) => Requirement }[] = [
  {
    pattern: new RegExp(`^(${keyForm})\\s*(?:==|=)\\s*(${valueForm})$`),
    read:
      ([name = "", wanted = ""]) =>
      (labels) =>
        ownMember(labels, name) === wanted,
  },
  {
    pattern: new RegExp(`^(${keyForm})\\s*!=\\s*(${valueForm})$`),
    read:
      ([name = "", unwanted = ""]) =>
      (labels) =>
        ownMember(labels, name) !== unwanted,
  },
  {
    pattern: new RegExp(`^(${keyForm})\\s+in\\s*\\(([^()]*)\\)$`),
    read: ([name = "", list = ""]) => oneOf(name, list, true),
  },
  {
    pattern: new RegExp(`^(${keyForm})\\s+notin\\s*\\(([^()]*)\\)$`),
    read: ([name = "", list = ""]) => oneOf(name, list, false),
  },
  {
    pattern: new RegExp(`^!\\s*(${keyForm})$`),
    read:
      ([name = ""]) =>
      (labels) =>
        !Object.hasOwn(labels, name),
  },
  {
    pattern: new RegExp(`^(${keyForm})$`),
    read:
      ([name = ""]) =>
      (labels) =>
        Object.hasOwn(labels, name),
  },
  {
    pattern: new RegExp(`^(${keyForm})\\s*>\\s*(\\d+)$`),
    read:
      ([name = "", bound = ""]) =>
      (labels) =>
        Number(ownMember(labels, name) ?? Number.NaN) > Number(bound),
  },
  {
    pattern: new RegExp(`^(${keyForm})\\s*<\\s*(\\d+)$`),
    read:
      ([name = "", bound = ""]) =>
      (labels) =>
        Number(ownMember(labels, name) ?? Number.NaN) < Number(bound),
  },
];

function oneOf(name: string, list: string, wanted: boolean): Requirement {
  const values = new Set(list.split(",").map((item) => item.trim()));
  return (labels) => {
    const found = ownMember(labels, name);
    return found === undefined ? !wanted : values.has(found) === wanted;
  };
}

function requirement(text: string): Requirement {
  for (const { pattern, read } of forms) {
    const match = pattern.exec(text);
    if (match !== null) return read(match.slice(1));
  }
  throw badRequest(`unable to parse the label selector requirement ${JSON.stringify(text)}`);
}

/** Reads `a=b,c!=d,e in (f,g),h,!i`. Undefined: everything matches. */
function parseLabelSelector(text: string): ((labels: Labels) => boolean) | undefined {
  if (text.trim() === "") return undefined;
  const requirements = text.split(/,(?![^(]*\))/).map((part) => requirement(part.trim()));
  return (labels) => requirements.every((matches) => matches(labels));
}

interface FieldRequirement {
  readonly field: string;
  readonly value: string;
  readonly equal: boolean;
}

/** Reads `metadata.name=x,spec.unschedulable!=true`. */
function parseFieldSelector(text: string): readonly FieldRequirement[] {
  if (text.trim() === "") return [];
  return text.split(",").map((part) => {
    const match = /^\s*([A-Za-z0-9.]+)\s*(==|=|!=)\s*(.*?)\s*$/.exec(part);
    if (match === null) throw badRequest(`unable to parse the field selector requirement ${JSON.stringify(part)}`);
    const [, field = "", operator, wanted = ""] = match;
    return { field, value: wanted, equal: operator !== "!=" };
  });
}

/** Which objects of a kind are meant. */
export interface Selection {
  readonly namespace: string;
  readonly matches: ((object: KubeObject) => boolean) | undefined;
}

interface Selectable {
  readonly kind: string;
  fields(object: KubeObject): Readonly<Record<string, string>>;
}

/** The selection of a request; throws a 400 for a selector that cannot be read or a field that cannot be selected by. */
export function parseSelection(
  resource: Selectable,
  namespace: string,
  selectors: { readonly labelSelector: string; readonly fieldSelector: string },
): Selection {
  const byLabels = parseLabelSelector(selectors.labelSelector);
  const byFields = parseFieldSelector(selectors.fieldSelector);
  const known = { "metadata.name": "", "metadata.namespace": "", ...resource.fields({}) };
  for (const { field } of byFields) {
    if (!Object.hasOwn(known, field)) throw badRequest(`field label not supported for ${resource.kind}: ${field}`);
  }
  if (byLabels === undefined && byFields.length === 0) return { namespace, matches: undefined };
  return {
    namespace,
    matches: (object) =>
      (byLabels === undefined || byLabels(object.metadata?.labels ?? {})) && fieldsMatch(resource, object, byFields),
  };
}

function fieldsMatch(resource: Selectable, object: KubeObject, wanted: readonly FieldRequirement[]): boolean {
  if (wanted.length === 0) return true;
  const { name = "", namespace = "" } = object.metadata ?? {};
  const own: Readonly<Record<string, string>> = resource.fields(object);
  const fields: Readonly<Record<string, string>> = { ...own, "metadata.name": name, "metadata.namespace": namespace };
  return wanted.every(({ field, value, equal }) => (fields[field] === value) === equal);
}

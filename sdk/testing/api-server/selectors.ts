import { type KubeObject, messageOf, parseLabelSelector } from "cloud-controller-host/sdk";

import { badRequest } from "./access/status.ts";

/** Undefined: everything matches. */
function labelSelector(text: string): ((labels: Readonly<Record<string, string>>) => boolean) | undefined {
  if (text.trim() === "") return undefined;
  try {
    return parseLabelSelector(text);
  } catch (error) {
    throw badRequest(`unable to parse requirement: ${messageOf(error)}`);
  }
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

/** Selects objects of a kind. */
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
  const byLabels = labelSelector(selectors.labelSelector);
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

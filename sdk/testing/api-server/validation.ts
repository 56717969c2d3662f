import type { KubeObject } from "cloud-controller-host/sdk";

import type { Problem } from "./access/status.ts";
import type { NameRule, Resource, WriteContext } from "./resource.ts";

const rules: Readonly<Record<NameRule, { readonly pattern: RegExp; readonly limit: number; readonly wants: string }>> =
  {
    subdomain: {
      pattern: /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/,
      limit: 253,
      wants:
        "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character",
    },
    label: {
      pattern: /^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/,
      limit: 63,
      wants:
        "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character",
    },
  };

export const qualifiedName = /^([a-z0-9]([-a-z0-9.]*[a-z0-9])?\/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$/;
export const labelValue = /^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$/;
const maxAnnotationBytes = 256 * 1024;

export const invalidValue = (field: string, value: unknown, wants: string): Problem => ({
  field,
  reason: "FieldValueInvalid",
  message: `Invalid value: ${JSON.stringify(value)}: ${wants}`,
});
export const required = (field: string, why = ""): Problem => ({
  field,
  reason: "FieldValueRequired",
  message: `Required value${why && `: ${why}`}`,
});
export const unsupported = (field: string, value: unknown, supported: readonly string[]): Problem => ({
  field,
  reason: "FieldValueNotSupported",
  message: `Unsupported value: ${JSON.stringify(value)}: supported values: ${supported.map((word) => `"${word}"`).join(", ")}`,
});
export const duplicate = (field: string, value: unknown): Problem => ({
  field,
  reason: "FieldValueDuplicate",
  message: `Duplicate value: ${JSON.stringify(value)}`,
});
export const mayNot = (field: string, why: string): Problem => ({
  field,
  reason: "FieldValueForbidden",
  message: `Forbidden: ${why}`,
});

function nameProblems(rule: NameRule, name: string): readonly Problem[] {
  const { pattern, limit, wants } = rules[rule];
  if (name === "") return [required("metadata.name", "name or generateName is required")];
  if (name.length > limit) return [invalidValue("metadata.name", name, `must be no more than ${limit} characters`)];
  return pattern.test(name) ? [] : [invalidValue("metadata.name", name, wants)];
}

function metadataProblems({ metadata = {} }: KubeObject): readonly Problem[] {
  const problems: Problem[] = [];
  for (const [key, value] of Object.entries(metadata.labels ?? {})) {
    if (!qualifiedName.test(key)) problems.push(invalidValue("metadata.labels", key, "must be a qualified name"));
    if (!labelValue.test(value)) problems.push(invalidValue("metadata.labels", value, "must be a valid label value"));
  }
  let bytes = 0;
  for (const [key, value] of Object.entries(metadata.annotations ?? {})) {
    bytes += Buffer.byteLength(key) + Buffer.byteLength(value);
    if (!qualifiedName.test(key.toLowerCase()))
      problems.push(invalidValue("metadata.annotations", key, "must be a qualified name"));
  }
  if (bytes > maxAnnotationBytes)
    problems.push({
      field: "metadata.annotations",
      reason: "FieldValueInvalid",
      message: `Too long: may not be more than ${maxAnnotationBytes} bytes`,
    });
  return problems;
}

const standardFinalizers: ReadonlySet<string> = new Set(["orphan", "foregroundDeletion", "kubernetes"]);

/** Source: Kubernetes `pkg/apis/core/validation.ValidateFinalizerName`, which custom resources do not go through. */
const finalizerProblems = ({ metadata }: KubeObject, custom: boolean): readonly Problem[] =>
  (metadata?.finalizers ?? []).flatMap((finalizer, index) => {
    if (!qualifiedName.test(finalizer))
      return [invalidValue("metadata.finalizers", finalizer, "must be a qualified name")];
    if (custom || finalizer.includes("/") || standardFinalizers.has(finalizer)) return [];
    const wants = "name is neither a standard finalizer name nor is it fully qualified";
    return [invalidValue(`metadata.finalizers[${index}]`, finalizer, wants)];
  });

/** Source: apimachinery `api/validation.ValidateOwnerReferences`. */
function ownerProblems({ metadata }: KubeObject): readonly Problem[] {
  const field = "metadata.ownerReferences";
  const owners = metadata?.ownerReferences ?? [];
  const problems = owners.flatMap((owner) => {
    const { apiVersion, kind, name, uid } = owner;
    const needed = { kind, name, uid };
    const isEvent = kind === "Event" && (apiVersion === "v1" || apiVersion.startsWith("events.k8s.io/"));
    return [
      ...(apiVersion === "" ? [invalidValue(`${field}.apiVersion`, apiVersion, "version must not be empty")] : []),
      ...Object.entries(needed).flatMap(([key, value]) =>
        value === "" ? [invalidValue(`${field}.${key}`, value, "must not be empty")] : [],
      ),
      ...(isEvent ? [invalidValue(field, owner, "Kind=Event is disallowed from being an owner")] : []),
    ];
  });
  const controllers = owners.filter(({ controller }) => controller);
  if (controllers.length < 2) return problems;
  const found = controllers.map(({ kind, name }) => `${kind}/${name}`).join(" and ");
  const wants = `Only one reference can have Controller set to true. Found "true" in references for ${found}`;
  return [...problems, invalidValue(field, owners, wants)];
}

/** Everything that is wrong with an object that is to be written. */
export function problemsOf(
  resource: Resource,
  next: KubeObject,
  before: KubeObject | undefined,
  world: WriteContext,
): readonly Problem[] {
  return [
    ...(before === undefined ? nameProblems(resource.nameRule, next.metadata?.name ?? "") : immutables(next, before)),
    ...metadataProblems(next),
    ...finalizerProblems(next, resource.custom),
    ...ownerProblems(next),
    ...resource.problems(next, before, world),
  ];
}

const fixed = ["name", "namespace", "uid", "deletionTimestamp"] as const;

function immutables(next: KubeObject, before: KubeObject): readonly Problem[] {
  const added = before.metadata?.deletionTimestamp
    ? (next.metadata?.finalizers ?? []).filter((name) => !before.metadata?.finalizers?.includes(name))
    : [];
  return [
    ...fixed.flatMap((field) => {
      const value = next.metadata?.[field];
      return value === before.metadata?.[field] ? [] : [invalidValue(`metadata.${field}`, value, "field is immutable")];
    }),
    ...(added.length === 0
      ? []
      : [
          mayNot(
            "metadata.finalizers",
            `no new finalizers can be added if the object is being deleted, found new finalizers ${JSON.stringify(added)}`,
          ),
        ]),
  ];
}

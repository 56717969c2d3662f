import { type ConfigMap, kinds, type Secret } from "cloud-controller-host/sdk";

import type { Problem } from "../access/status.ts";
import { equal, ownMember } from "../json.ts";
import { ageColumn, defineResource, nameColumn } from "../resource.ts";
import { configMap as configMapSchema, secret as secretSchema } from "../schema/plain.ts";
import { invalidValue, mayNot, required } from "../validation.ts";

type Data = Readonly<Record<string, string>>;

const count = (data: Data = {}): number => Object.keys(data).length;

const keyPattern = /^[-._a-zA-Z0-9]{1,253}$/;
const keyWish = "must consist of alphanumeric characters, '-', '_' or '.'";

const keyProblems = (field: string, data: Data = {}): readonly Problem[] =>
  Object.keys(data).flatMap((key) => (keyPattern.test(key) ? [] : [invalidValue(`${field}[${key}]`, key, keyWish)]));

const maxBytes = 1024 * 1024;

/** The values of one object have at most a megabyte, in plain text and decoded ones together. */
function sizeProblems(field: string, texts: Data = {}, encoded: Data = {}): readonly Problem[] {
  let bytes = 0;
  for (const text of Object.values(texts)) bytes += Buffer.byteLength(text);
  for (const text of Object.values(encoded)) bytes += Buffer.byteLength(text, "base64");
  if (bytes <= maxBytes) return [];
  return [{ field, reason: "FieldValueTooLong", message: `Too long: may not be more than ${maxBytes} bytes` }];
}

/** Keys that a Secret of a type must have; of `basic-auth` one of both. Source: kubernetes `ValidateSecret`. */
const keysOfType: Readonly<Record<string, readonly string[]>> = {
  "kubernetes.io/dockercfg": [".dockercfg"],
  "kubernetes.io/dockerconfigjson": [".dockerconfigjson"],
  "kubernetes.io/basic-auth": ["username", "password"],
  "kubernetes.io/ssh-auth": ["ssh-privatekey"],
  "kubernetes.io/tls": ["tls.crt", "tls.key"],
};
const accountType = "kubernetes.io/service-account-token";
const accountAnnotation = "kubernetes.io/service-account.name";

function typeProblems({ type = "", data = {}, metadata }: Secret): readonly Problem[] {
  const named = metadata?.annotations?.[accountAnnotation] ?? "";
  if (type === accountType && named === "") return [required(`metadata.annotations[${accountAnnotation}]`)];
  const missing = (ownMember(keysOfType, type) ?? []).filter((key) => !Object.hasOwn(data, key));
  if (type === "kubernetes.io/basic-auth" && missing.length < 2) return [];
  return missing.map((key) => required(`data[${key}]`));
}

/** An immutable object keeps its data and its `immutable` field. */
function immutableProblems(next: ConfigMap | Secret, before: ConfigMap | Secret | undefined): readonly Problem[] {
  if (!before?.immutable) return [];
  const frozen = "field is immutable when `immutable` is set";
  return [
    ...(next.immutable ? [] : [mayNot("immutable", frozen)]),
    ...(equal(next.data, before.data) ? [] : [mayNot("data", frozen)]),
  ];
}

function problemsOfConfigMap(next: ConfigMap, before: ConfigMap | undefined): readonly Problem[] {
  const { data = {}, binaryData = {} } = next;
  const both = Object.keys(data).filter((key) => key in binaryData);
  return [
    ...keyProblems("data", data),
    ...keyProblems("binaryData", binaryData),
    ...sizeProblems("", data, binaryData),
    ...both.map((key) => invalidValue(`data[${key}]`, key, "duplicate of key present in binaryData")),
    ...immutableProblems(next, before),
    ...(before?.immutable && !equal(binaryData, before.binaryData ?? {})
      ? [mayNot("binaryData", "field is immutable when `immutable` is set")]
      : []),
  ];
}

/** `stringData` is written into `data` and not kept; a Secret without a type is `Opaque`. */
function withStringData({ stringData, ...secret }: Secret): Secret {
  const encoded = Object.entries(stringData ?? {}).map(([key, value]) => [key, Buffer.from(value).toString("base64")]);
  return {
    ...secret,
    type: secret.type ?? "Opaque",
    ...(encoded.length === 0 ? {} : { data: { ...secret.data, ...Object.fromEntries(encoded) } }),
  };
}

function problemsOfSecret(next: Secret, before: Secret | undefined): readonly Problem[] {
  return [
    ...keyProblems("data", next.data),
    ...sizeProblems("data", {}, next.data),
    ...typeProblems(next),
    ...immutableProblems(next, before),
    ...(before === undefined || next.type === before.type
      ? []
      : [invalidValue("type", next.type, "field is immutable")]),
  ];
}

export const configMap = defineResource<ConfigMap>({
  kind: kinds.ConfigMap,
  singular: "configmap",
  shortNames: ["cm"],
  schema: configMapSchema,
  columns: [nameColumn, { name: "Data", cell: ({ data, binaryData }) => count(data) + count(binaryData) }, ageColumn],
  problems: problemsOfConfigMap,
});

export const secret = defineResource<Secret>({
  kind: kinds.Secret,
  singular: "secret",
  schema: secretSchema,
  columns: [
    nameColumn,
    { name: "Type", cell: ({ type }) => type ?? "" },
    { name: "Data", cell: ({ data }) => count(data) },
    ageColumn,
  ],
  fields: ({ type }) => ({ type: type ?? "" }),
  prepare: withStringData,
  problems: problemsOfSecret,
});

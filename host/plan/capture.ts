import type { KindRef, KubeObject, ResourceDocument } from "cloud-controller-host/sdk";
import { isObject, keyOf, kinds } from "cloud-controller-host/sdk";

import { type Bundle, bundleHead, isMachineFlag, withoutBrackets } from "../bundle/bundle.ts";
import type { Document } from "../changes/patches.ts";
import type { Setting } from "../config/parse/parse.ts";
import { isSecretKey, redactText } from "../process/log/redact.ts";

/** Everything that a plan has read. */
export interface PlanReads {
  readonly cloudConfig: Document;
  readonly kinds: readonly { readonly kind: KindRef; readonly objects: readonly KubeObject[] }[];
  readonly resources: readonly ResourceDocument[];
}

/** Kinds whose content may be secret. */
const leftOutKinds: readonly KindRef[] = [kinds.Secret, kinds.ConfigMap];
/** Fields of metadata and of nodes that decide nothing, and may be long or tell of what runs there. */
const leftOutFields = new Set(["images", "managedFields", "selfLink", "volumesAttached", "volumesInUse"]);

/** The bundle of a plan, without secrets: those are left out, or replaced in texts. */
export function bundleOf(cloudProvider: string, settings: readonly Setting[], read: PlanReads): Bundle {
  const shown = read.kinds.filter(({ kind }) => !leftOutKinds.some(({ plural }) => plural === kind.plural));
  const byKind = Map.groupBy(shown, ({ kind: { group, plural } }) => `${plural}.${group}`);
  return {
    ...bundleHead,
    anonymized: false,
    cloudProvider,
    flags: settings.flatMap(({ name, text, given }) =>
      given && !isMachineFlag(name) && !isSecretKey(name) ? [`--${name}=${redactText(withoutBrackets(text))}`] : [],
    ),
    cloudConfig: Object.fromEntries(
      Object.entries(withoutSecrets(read.cloudConfig)).filter(([key]) => !/(?:file|path|endpoint)$/iu.test(key)),
    ),
    kinds: [...byKind.values()].flatMap((watches) => {
      const { group = "", version = "", plural = "", kind = "", namespaced = false } = watches[0]?.kind ?? {};
      // Watches of a kind with different selections may have the same objects.
      const objects = new Map(watches.flatMap((watch) => watch.objects.map((object) => [keyOf(object), object])));
      const inOrder = [...objects].toSorted(([one], [other]) => (one < other ? -1 : 1));
      return { group, version, plural, kind, namespaced, objects: inOrder.map(([, object]) => shownObject(object)) };
    }),
    resources: read.resources.map((resource) => {
      const { id } = resource;
      return { ...withoutSecrets(resource), id: typeof id === "string" ? id : "" };
    }),
  };
}

function shownObject(object: KubeObject): Bundle["kinds"][number]["objects"][number] {
  const { metadata: _metadata, ...rest } = object;
  const {
    annotations,
    labels,
    name = "",
    namespace,
    deletionTimestamp,
    resourceVersion: _version,
    ...metadata
  } = object.metadata ?? {};
  return {
    ...withoutSecrets(rest),
    metadata: {
      ...withoutSecrets(metadata),
      name,
      ...(namespace !== undefined && { namespace }),
      ...(deletionTimestamp !== undefined && { deletionTimestamp }),
      ...(labels && { labels: known(labels, () => true) }),
      ...(annotations && { annotations: known(annotations, isOfKubernetes) }),
    },
  };
}

/** Other annotations may contain anything, and no controller of ours reads them. */
const isOfKubernetes = (key: string): boolean =>
  /^[^/]*\b(?:kubernetes|k8s)\.io\//u.test(key) && !key.endsWith("/last-applied-configuration");

const known = (map: Readonly<Record<string, string>>, isKnown: (key: string) => boolean): Record<string, string> =>
  Object.fromEntries(
    Object.entries(map).flatMap(([key, value]) =>
      isKnown(key) && !isSecretKey(key) ? [[key, redactText(value)] as const] : [],
    ),
  );

const withoutSecrets = (document: object): Document =>
  Object.fromEntries(
    Object.entries(document).flatMap(([key, value]: [string, unknown]) =>
      leftOutFields.has(key) || (isSecretKey(key) && typeof value === "string") ? [] : [[key, withoutSecret(value)]],
    ),
  );

function withoutSecret(value: unknown): unknown {
  if (typeof value === "string") return redactText(value);
  if (Array.isArray(value)) return value.map(withoutSecret);
  return isObject(value) ? withoutSecrets(value) : value;
}

import { type InstanceMetadata, type JSONPatchOperation, type Node, taints, taintsOf } from "cloud-controller-host/sdk";

import { labelPairs } from "./labels.ts";

type Labels = Readonly<Record<string, string>>;

/** A label of the cloud that is not set on the node. */
export interface DiscardedLabel {
  readonly label: string;
  readonly reason: string;
}

export interface NodeUpdate {
  /** The node as it is once the patch has been applied. */
  readonly node: Node;
  /**
   * RFC 6902. Its tests fail (422) when the node was recreated or its taints have moved; other writers of the node do
   * not conflict with it.
   */
  readonly patch: readonly JSONPatchOperation[];
  readonly discarded: readonly DiscardedLabel[];
}

/** Plans the initialization of a node: provider ID, labels, and no uninitialized taint. Pure. */
export function applyMetadata(node: Node, metadata: InstanceMetadata): NodeUpdate {
  const facts = factLabels(metadata);
  const { added, discarded } = chooseAdditional(node.metadata?.labels ?? {}, metadata.additionalLabels ?? {});
  const providerID = node.spec?.providerID ? undefined : metadata.providerID || undefined;
  const labels = { ...facts, ...added };
  return {
    discarded,
    node: {
      ...node,
      metadata: { ...node.metadata, labels: { ...node.metadata?.labels, ...labels } },
      spec: {
        ...node.spec,
        ...(providerID !== undefined && { providerID }),
        taints: taintsOf(node).filter(({ key }) => key !== taints.uninitialized),
      },
    },
    patch: [
      { op: "test", path: "/metadata/uid", value: node.metadata?.uid ?? null },
      ...(providerID === undefined ? [] : [{ op: "add" as const, path: "/spec/providerID", value: providerID }]),
      ...labelOperations(node.metadata?.labels, facts, added),
      ...taintOperations(node),
    ],
  };
}

/** Type, zone and region overwrite the node's labels; an empty value leaves them as they are. */
function factLabels(metadata: InstanceMetadata): Labels {
  return Object.fromEntries(
    labelPairs.flatMap(({ fact, beta, stable }) => {
      const value = metadata[fact];
      return value === "" ? [] : [beta, stable].map((label) => [label, value] as const);
    }),
  );
}

/** Domains that belong to Kubernetes: a cloud may not set labels in them. */
const reserved = /(^|\.)(kubernetes|k8s)\.io\//;

function chooseAdditional(
  known: Labels,
  additional: Labels,
): { readonly added: Labels; readonly discarded: readonly DiscardedLabel[] } {
  const added: Record<string, string> = {};
  const discarded: DiscardedLabel[] = [];
  for (const [label, value] of Object.entries(additional)) {
    const existing = known[label];
    if (reserved.test(label)) discarded.push({ label, reason: "kubernetes namespace" });
    else if (existing === undefined) added[label] = value;
    else if (existing !== value) discarded.push({ label, reason: `already present with the value "${existing}"` });
  }
  return { added, discarded };
}

const absent = (path: string): JSONPatchOperation => ({ op: "test", path, value: null });

/** An additional label is set only where it is still absent: another writer's value is kept. */
function labelOperations(existing: Labels | undefined, facts: Labels, added: Labels): readonly JSONPatchOperation[] {
  const all = { ...facts, ...added };
  if (Object.keys(all).length === 0) return [];
  if (existing === undefined) return [absent("/metadata/labels"), { op: "add", path: "/metadata/labels", value: all }];
  return Object.entries(all)
    .filter(([label, value]) => existing[label] !== value)
    .flatMap(([label, value]): readonly JSONPatchOperation[] => {
      const path = `/metadata/labels/${escaped(label)}`;
      const add: JSONPatchOperation = { op: "add", path, value };
      return Object.hasOwn(added, label) ? [absent(path), add] : [add];
    });
}

/** Last index first, so that the others stay where they are. */
function taintOperations(node: Node): readonly JSONPatchOperation[] {
  return taintsOf(node)
    .flatMap(({ key }, index): readonly JSONPatchOperation[] =>
      key === taints.uninitialized
        ? [
            { op: "remove", path: `/spec/taints/${index}` },
            { op: "test", path: `/spec/taints/${index}/key`, value: key },
          ]
        : [],
    )
    .toReversed();
}

/** As a reference token of a JSON pointer. Source: RFC 6901, section 3. */
const escaped = (token: string): string => token.replaceAll("~", "~0").replaceAll("/", "~1");

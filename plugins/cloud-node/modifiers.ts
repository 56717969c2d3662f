import { type InstanceMetadata, labels, type Node, taints, taintsOf } from "cloud-controller-host/sdk";

/** The label pairs of one fact about a machine: the old name, which is the source of truth here, and the stable one. */
export const labelPairs = [
  { fact: "instanceType", beta: labels.instanceTypeBeta, stable: labels.instanceType },
  { fact: "zone", beta: labels.zoneBeta, stable: labels.zone },
  { fact: "region", beta: labels.regionBeta, stable: labels.region },
] as const;

type Labels = Readonly<Record<string, string>>;

export interface InitializedNode {
  readonly node: Node;
  /** Labels of the cloud that were not set, each with the reason. */
  readonly refused: readonly { readonly label: string; readonly reason: string }[];
}

/** The node as it must be once the cloud knows it: provider ID, labels, and without the uninitialized taint. */
export function initialized(node: Node, metadata: InstanceMetadata): InitializedNode {
  const known: Labels = { ...node.metadata?.labels, ...factLabels(metadata) };
  const { added, refused } = chooseAdditional(known, metadata.additionalLabels ?? {});
  return {
    refused,
    node: {
      ...node,
      metadata: { ...node.metadata, labels: { ...known, ...added } },
      spec: {
        ...node.spec,
        ...(node.spec?.providerID || metadata.providerID === "" ? {} : { providerID: metadata.providerID }),
        taints: taintsOf(node).filter(({ key }) => key !== taints.uninitialized),
      },
    },
  };
}

/** Type, zone and region overwrite what the node says; what the cloud does not say leaves the node's labels alone. */
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

function chooseAdditional(known: Labels, additional: Labels): { added: Labels; refused: InitializedNode["refused"] } {
  const added: Record<string, string> = {};
  const refused: { label: string; reason: string }[] = [];
  for (const [label, value] of Object.entries(additional)) {
    const existing = known[label];
    if (reserved.test(label)) refused.push({ label, reason: "its domain is reserved for Kubernetes" });
    else if (existing === undefined) added[label] = value;
    else if (existing !== value)
      refused.push({ label, reason: `the node already has it with the value "${existing}"` });
  }
  return { added, refused };
}

import { type CloudContext, kinds, labelOf, type Node } from "cloud-controller-host/sdk";

/** Node labels that upstream reads: where the node's VM is, and whether it is a VM of Azure at all. */
const resourceGroupLabel = "kubernetes.azure.com/resource-group";
const managedLabel = "kubernetes.azure.com/managed";

/** A node that is labeled as not managed by Azure. */
export const isUnmanaged = (node: Node): boolean => labelOf(node, managedLabel)?.toLowerCase() === "false";

/** The resource groups that a node's VM may be in. */
export class NodeResourceGroups {
  readonly #nodes: () => readonly Node[];
  readonly #clusterGroup: string;

  constructor(context: CloudContext, resourceGroup: string) {
    const informer = context.informers.of(kinds.Node);
    this.#nodes = () => informer.store.list();
    this.#clusterGroup = resourceGroup.toLowerCase();
  }

  /** The group in the node's label, then the cluster's, then those of other nodes; lower case, each once. */
  *groupsFor(node: Node): Generator<string> {
    const seen = new Set<string>();
    for (const group of this.#candidates(node)) {
      if (seen.has(group)) continue;
      seen.add(group);
      yield group;
    }
  }

  /** Other nodes are read only after the likely groups were searched without success. */
  *#candidates(node: Node): Generator<string> {
    yield this.#groupOf(node);
    yield this.#clusterGroup;
    for (const other of this.#nodes()) yield this.#groupOf(other);
  }

  #groupOf(node: Node): string {
    return labelOf(node, resourceGroupLabel)?.toLowerCase() || this.#clusterGroup;
  }
}

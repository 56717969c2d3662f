import { type CloudContext, kinds, labelOf, type Node } from "cloud-controller-host/sdk";

/** Labels by which Azure's tools say where a node's machine is and whether it is Azure's at all. */
const resourceGroupLabel = "kubernetes.azure.com/resource-group";
const managedLabel = "kubernetes.azure.com/managed";

/** A node that says of itself that it is no machine of Azure. */
export const isUnmanaged = (node: Node): boolean => labelOf(node, managedLabel)?.toLowerCase() === "false";

/** In which resource groups the machines of nodes are looked for. */
export class NodePlaces {
  readonly #nodes: () => readonly Node[];
  readonly #home: string;

  constructor(context: CloudContext, resourceGroup: string) {
    const informer = context.informers.of(kinds.Node);
    this.#nodes = () => informer.store.list();
    this.#home = resourceGroup.toLowerCase();
  }

  /** The group that the node's label names, the cluster's, and then those that other nodes are known to be in. */
  *groupsFor(node: Node): Generator<string> {
    const told = new Set<string>();
    for (const group of this.#groups(node)) {
      if (told.has(group)) continue;
      told.add(group);
      yield group;
    }
  }

  /** Other nodes are not looked at before the likely groups were searched in vain. */
  *#groups(node: Node): Generator<string> {
    yield this.#groupOf(node);
    yield this.#home;
    for (const other of this.#nodes()) yield this.#groupOf(other);
  }

  #groupOf(node: Node): string {
    return labelOf(node, resourceGroupLabel)?.toLowerCase() || this.#home;
  }
}

import { kinds, type KubeClient, type Node, type NodeAddress } from "cloud-controller-host/sdk";

/**
 * Every request of this controller that names one node. Reads are cut off when the controller stops; a write that has
 * begun is let finish, because an aborted write is one whose outcome nobody knows.
 */
export interface NodeWrites {
  /** Whole object; its resourceVersion makes a concurrent change a 409. */
  replace(node: Node): Promise<Node>;
  addresses(name: string, observed: readonly NodeAddress[], wanted: readonly NodeAddress[]): Promise<void>;
  labels(name: string, changed: Readonly<Record<string, string>>): Promise<void>;
  read(name: string, read: "latest" | "cached", signal: AbortSignal): Promise<Node>;
}

export function nodeWrites({ client }: { readonly client: KubeClient }): NodeWrites {
  return {
    replace: (node) => client.replace(kinds.Node, node),
    async addresses(name, observed, wanted) {
      await client.patch(kinds.Node, { name }, "strategic", addressesPatch(observed, wanted), {
        subresource: "status",
      });
    },
    async labels(name, changed) {
      await client.patch(kinds.Node, { name }, "strategic", { metadata: { labels: changed } });
    },
    read: (name, read, signal) => client.get(kinds.Node, { name }, { read, signal }),
  };
}

/**
 * The API merges `status.addresses` by `type`, which cannot hold two addresses of one type: the replace marker makes
 * the list be taken as it is. Where the node had no address there is nothing to merge with, and upstream sends none.
 */
function addressesPatch(observed: readonly NodeAddress[], wanted: readonly NodeAddress[]): object {
  const replaced = observed.length === 0 ? [] : [{ $patch: "replace" }];
  return { status: { addresses: [...wanted, ...replaced] } };
}

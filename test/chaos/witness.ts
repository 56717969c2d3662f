import { keyOf, kinds, type Node } from "cloud-controller-host/sdk";

import type { ServedCloud } from "../kit/cloud-server.ts";
import { openWatcher } from "../kit/watcher.ts";

/** Sees every change of a node, and notes what must not be at any moment, however well all ends. */
export interface Witness extends AsyncDisposable {
  /** Nodes that are there, by name. */
  readonly nodes: ReadonlyMap<string, Node>;
  readonly breaches: readonly string[];
}

export async function watchLaws(kubeconfig: string, { memory }: ServedCloud): Promise<Witness> {
  const watcher = openWatcher(kubeconfig);
  const nodes = new Map<string, Node>();
  const breaches: string[] = [];
  const cidrOf = (node: Node): string | undefined => node.spec?.podCIDR;

  const seen = (node: Node): void => {
    const name = keyOf(node);
    const cidr = cidrOf(node);
    const twin = [...nodes.values()].find(
      (other) => keyOf(other) !== name && cidr !== undefined && cidrOf(other) === cidr,
    );
    if (twin !== undefined) breaches.push(`${name} was given ${cidr}, which is that of ${keyOf(twin)}`);
    nodes.set(name, node);
  };

  watcher.informers.of(kinds.Node).handle({
    added: seen,
    updated(before, after) {
      const given = cidrOf(before);
      if (before.metadata?.uid === after.metadata?.uid && given !== undefined && cidrOf(after) !== given)
        breaches.push(`${keyOf(after)} had ${given} and was given ${cidrOf(after)}`);
      seen(after);
    },
    deleted(last) {
      nodes.delete(keyOf(last));
      if (memory.machines.has(keyOf(last))) breaches.push(`${keyOf(last)} was deleted, and its machine is there`);
    },
  });
  await watcher.synced();
  return { nodes, breaches, [Symbol.asyncDispose]: () => watcher[Symbol.asyncDispose]() };
}

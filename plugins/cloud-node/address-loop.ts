import {
  annotationOf,
  annotations,
  type ControllerContext,
  type FailingObjects,
  forEachConcurrently,
  type InstanceMetadata,
  type Instances,
  isNotFound,
  isReplaced,
  isUninitialized,
  keyOf,
  kinds,
  type Node,
  type NodeAddress,
} from "cloud-controller-host/sdk";

import { addressesFromNodeIP } from "./provided-node-ip.ts";

export type WriteContext = Pick<ControllerContext, "client" | "log"> & {
  /** Nodes whose addresses could not be read or written. */
  readonly failing: FailingObjects;
};

interface AddressPass {
  readonly context: WriteContext;
  readonly instances: Instances;
  readonly signal: AbortSignal;
  /** Number of nodes that are updated concurrently. */
  readonly workers: number;
}

/** One pass over all initialized nodes; a node that fails is logged and waits for the next pass. Never throws. */
export async function updateAllAddresses(pass: AddressPass, nodes: readonly Node[]): Promise<void> {
  const { failing } = pass.context;
  if (failing.size > 0) failing.keepOnly(new Set(nodes.filter((node) => !isUninitialized(node)).map(keyOf)));
  await forEachConcurrently(pass, nodes, async (node) => {
    if (isUninitialized(node)) return;
    try {
      const metadata = await pass.instances.instanceMetadata(node, { signal: pass.signal });
      if (metadata === undefined) failing.ended(keyOf(node));
      else await updateAddresses(pass.context, node, metadata);
    } catch (error) {
      if (pass.signal.aborted) return;
      failing.failed(keyOf(node), error);
      pass.context.log.error("Error getting instance metadata for node addresses", { node: keyOf(node), error });
    }
  });
}

/**
 * Writes the cloud's addresses to the node's status where they differ. Never rejects: addresses are compared again every
 * period. Resolves with false if they could not be written. A write in flight is not canceled by a stop.
 */
export async function updateAddresses(
  { client, log, failing }: WriteContext,
  node: Node,
  metadata: InstanceMetadata,
): Promise<boolean> {
  const name = keyOf(node);
  let problem = "Failed to update node addresses";
  try {
    const wanted = wantedAddresses(node, metadata.nodeAddresses);
    const observed = addressesOf(node);
    if (wanted !== undefined && addressesDiffer(observed, wanted)) {
      problem = "Error patching node with cloud ip addresses";
      const body = addressesPatch(node, wanted);
      await client.patch(kinds.Node, { name }, "strategic", body, { subresource: "status", response: "metadata" });
      log.debug(2, "Updated node addresses", { node: name, addresses: wanted });
    }
    failing.ended(name);
    return true;
  } catch (error) {
    if (isNotFound(error) || isReplaced(error)) return true;
    log.error(problem, { node: name, error });
    failing.failed(name, error);
    return false;
  }
}

/**
 * The API merges `status.addresses` by `type`, which cannot hold two addresses of one type: the replace marker makes
 * it take the list as it is. Without old addresses there is nothing to merge with, and upstream sends no marker.
 * A pass may take minutes: a node that was recreated under the name meanwhile refuses the addresses of the former one.
 */
function addressesPatch(node: Node, wanted: readonly NodeAddress[]): object {
  const replaced = addressesOf(node).length === 0 ? [] : [{ $patch: "replace" }];
  return { metadata: { uid: node.metadata?.uid }, status: { addresses: [...wanted, ...replaced] } };
}

const addressesOf = (node: Node): readonly NodeAddress[] => node.status?.addresses ?? [];

/**
 * The addresses that the node's status must have, or undefined when the cloud returned none and the present ones stay.
 * Throws when kubelet's node IP is not among the cloud's addresses.
 */
export function wantedAddresses(node: Node, fromCloud: readonly NodeAddress[]): readonly NodeAddress[] | undefined {
  if (fromCloud.length === 0) return undefined;
  const nodeIP = annotationOf(node, annotations.providedNodeIP);
  const all = withoutDuplicates(withHostname(fromCloud, addressesOf(node)));
  return nodeIP === undefined ? all : addressesFromNodeIP(nodeIP, all);
}

/** A cloud without host names must not remove the one that kubelet reported. */
function withHostname(fromCloud: readonly NodeAddress[], observed: readonly NodeAddress[]): readonly NodeAddress[] {
  if (fromCloud.some(isHostname)) return fromCloud;
  return [...fromCloud, ...observed.filter(isHostname)];
}

const isHostname = ({ type }: NodeAddress): boolean => type === "Hostname";

/** Compares two lists. Order matters among the addresses of one type, where the first is the primary one, and not across types. */
export function addressesDiffer(observed: readonly NodeAddress[], wanted: readonly NodeAddress[]): boolean {
  if (observed.length !== wanted.length) return true;
  const before = byType(observed);
  const after = byType(wanted);
  return [...after].some(([type, list]) => list.join("\n") !== before.get(type)?.join("\n"));
}

function byType(addresses: readonly NodeAddress[]): ReadonlyMap<string, readonly string[]> {
  return new Map(
    [...Map.groupBy(addresses, ({ type }) => type)].map(([type, group]) => [type, group.map(({ address }) => address)]),
  );
}

/** The API rejects a status with a duplicate address. Source: kubernetes/cloud-provider `node/helpers/address.go`. */
export function withoutDuplicates(addresses: readonly NodeAddress[]): readonly NodeAddress[] {
  // A kubelet may have reported thousands of host names.
  const seen = new Set<string>();
  return addresses.filter(({ type, address }) => {
    const before = seen.size;
    return seen.add(`${type}\n${address}`).size > before;
  });
}

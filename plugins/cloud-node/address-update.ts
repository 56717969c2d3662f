import {
  type ControllerContext,
  type InstanceMetadata,
  isNotFound,
  isUninitialized,
  keyOf,
  type Node,
} from "cloud-controller-host/sdk";

import { addressesDiffer, addressesOf, wantedAddresses } from "./addresses.ts";
import type { NodeWrites } from "./node-writes.ts";

/**
 * Brings the addresses in the node's status in step with the cloud; a node that is still tainted is left alone.
 * Never throws: addresses are asked for again every period, so a failure is logged and nothing else waits for it.
 */
export async function updateAddresses(
  { context, writes }: { readonly context: Pick<ControllerContext, "log">; readonly writes: NodeWrites },
  node: Node,
  metadata: InstanceMetadata,
): Promise<void> {
  if (isUninitialized(node)) return;
  const name = keyOf(node);
  try {
    const observed = addressesOf(node);
    const wanted = wantedAddresses(node, metadata.nodeAddresses);
    if (wanted === undefined || !addressesDiffer(observed, wanted)) return;
    await writes.addresses(name, observed, wanted);
    context.log.debug(2, "updated the addresses of the node", { node: name, addresses: wanted });
  } catch (error) {
    if (isNotFound(error)) return;
    context.log.error("failed to update the addresses of the node", { node: name, error });
  }
}

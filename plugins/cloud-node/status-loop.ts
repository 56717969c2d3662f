import {
  type ControllerContext,
  forEachConcurrently,
  type Instances,
  isUninitialized,
  keyOf,
  type Node,
} from "cloud-controller-host/sdk";

import { updateAddresses } from "./address-update.ts";
import type { NodeWrites } from "./node-writes.ts";

interface AddressPass {
  readonly context: Pick<ControllerContext, "log">;
  readonly instances: Instances;
  readonly writes: NodeWrites;
  readonly signal: AbortSignal;
  /** How many nodes are asked about at once. */
  readonly workers: number;
}

/** One pass over all initialized nodes; a node that fails is logged and waits for the next pass. Never throws. */
export async function updateAllAddresses(pass: AddressPass, nodes: readonly Node[]): Promise<void> {
  const known = nodes.filter((node) => !isUninitialized(node));
  await forEachConcurrently(pass, known, async (node) => {
    try {
      const metadata = await pass.instances.instanceMetadata(node, { signal: pass.signal });
      if (metadata !== undefined) await updateAddresses(pass, node, metadata);
    } catch (error) {
      if (pass.signal.aborted) return;
      pass.context.log.error("failed to get instance metadata for the node", { node: keyOf(node), error });
    }
  });
}

import {
  ApiError,
  type Clock,
  isNotFound,
  keyOf,
  kinds,
  type KubeClient,
  type Lease,
  type Node,
} from "cloud-controller-host/sdk";

import { writersOfPodCidrs } from "../nodes/pod-cidrs-writers.ts";

const manager = "kube-controller-manager";
export const leaseName = { name: manager, namespace: "kube-system" } as const;

/** A lease not renewed for that long has no holder, whatever the clock skew between the two machines. */
const staleMs = 5 * 60_000;
/** A node created this soon after the lease was acquired may be older: the two times come from two clocks. */
const skewMs = 60_000;

/** A node whose CIDRs another allocator has written, and what to do about it. */
export interface OtherAllocator {
  readonly node: Node;
  readonly reason: string;
}

/**
 * Detects that kube-controller-manager allocates pod CIDRs now; undefined without a sign of it. The sign is conclusive:
 * the process that holds its lease has written the CIDRs of a node created after it had acquired the lease, and a
 * process cannot change its flags while it holds the lease.
 */
export async function findControllerManager(
  { client, clock }: { readonly client: KubeClient; readonly clock: Clock },
  nodes: readonly Node[],
  signal: AbortSignal,
): Promise<OtherAllocator | undefined> {
  const since = termOf(await readLease(client, signal), clock.now());
  if (since === undefined) return undefined;
  const node = nodes.find(
    (each) =>
      Date.parse(each.metadata?.creationTimestamp ?? "") > since + skewMs && writersOfPodCidrs(each).has(manager),
  );
  return node === undefined
    ? undefined
    : {
        node,
        reason: `${manager} allocates pod CIDRs too (node ${keyOf(node)}): run it with --allocate-node-cidrs=false, or disable this controller`,
      };
}

/** Undefined when there is none, or when reading it is forbidden. */
async function readLease(client: KubeClient, signal: AbortSignal): Promise<Lease | undefined> {
  try {
    return await client.get(kinds.Lease, leaseName, { signal });
  } catch (error) {
    if (isNotFound(error) || (error instanceof ApiError && error.status === 403)) return undefined;
    throw error;
  }
}

/** When the present holder acquired the lease; undefined without a holder. */
function termOf(lease: Lease | undefined, now: number): number | undefined {
  const { holderIdentity, acquireTime, renewTime } = lease?.spec ?? {};
  const renewed = Date.parse(renewTime ?? "");
  const acquired = Date.parse(acquireTime ?? "");
  return holderIdentity && now - renewed < staleMs && !Number.isNaN(acquired) ? acquired : undefined;
}

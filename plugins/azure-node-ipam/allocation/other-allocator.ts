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

/** A lease that nobody has renewed for so long is nobody's, whatever the clocks of the two machines say. */
const staleMs = 5 * 60_000;
/** A node made so soon after the lease was taken may be older than it: the two times are of two clocks. */
const skewMs = 60_000;

/**
 * Whether kube-controller-manager gives CIDRs to nodes now, and how that is known; undefined when there is no sign of
 * it. Sure, and no guess: the process that holds its lease has written CIDRs of a node which was made after it had
 * taken the lease, and it cannot change its flags while it holds it.
 */
export async function signOfControllerManager(
  { client, clock }: { readonly client: KubeClient; readonly clock: Clock },
  nodes: readonly Node[],
  signal: AbortSignal,
): Promise<string | undefined> {
  const since = termOf(await readLease(client, signal), clock.now());
  if (since === undefined) return undefined;
  const node = nodes.find(
    (each) =>
      Date.parse(each.metadata?.creationTimestamp ?? "") > since + skewMs && writersOfPodCidrs(each).has(manager),
  );
  return node === undefined
    ? undefined
    : `${manager} gives CIDRs to nodes, the last that was seen is ${keyOf(node)}: run it with --allocate-node-cidrs=false, or this controller not at all`;
}

/** Undefined when there is none, or when we may not know. */
async function readLease(client: KubeClient, signal: AbortSignal): Promise<Lease | undefined> {
  try {
    return await client.get(kinds.Lease, leaseName, { signal });
  } catch (error) {
    if (isNotFound(error) || (error instanceof ApiError && error.status === 403)) return undefined;
    throw error;
  }
}

/** When the present holder has taken the lease; undefined when nobody holds it. */
function termOf(lease: Lease | undefined, now: number): number | undefined {
  const { holderIdentity, acquireTime, renewTime } = lease?.spec ?? {};
  const renewed = Date.parse(renewTime ?? "");
  const acquired = Date.parse(acquireTime ?? "");
  return holderIdentity && now - renewed < staleMs && !Number.isNaN(acquired) ? acquired : undefined;
}

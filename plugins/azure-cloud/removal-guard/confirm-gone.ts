import { forEachConcurrently, isNotFound, kinds, type KubeClient } from "cloud-controller-host/sdk";

import { abandonable } from "../arm/transport/signals.ts";
import { serviceLabel } from "../endpoint-slices.ts";
import type { Owner } from "./items.ts";

/** Objects that are read one by one. Of more, so many are spread over all of them: a list that is cut off lacks its end. */
const maxReads = 64;
const workers = 16;
/** For all reads of one confirmation: each alone could wait and be repeated for as long as the API server asks. */
const limitMs = 10_000;

type Reader = Pick<KubeClient, "get" | "list">;

const idOf = (owner: Owner): string =>
  owner.kind === "endpoint" ? `endpoint ${owner.service} ${owner.node}` : `${owner.kind} ${owner.name}`;

/**
 * Reads objects that a list lacks, each by itself, past every cache. All are gone if those that are read are; else only
 * these. What cannot be read, or not within 10 s, is not gone.
 */
export async function confirmGone(
  client: Reader,
  owners: readonly Owner[],
  signal = AbortSignal.timeout(limitMs),
): Promise<(owner: Owner) => boolean> {
  const all = [...new Map(owners.map((owner) => [idOf(owner), owner])).values()];
  const step = Math.max(1, all.length / maxReads);
  const sample = Array.from({ length: Math.min(all.length, maxReads) }, (_, index) => all[Math.floor(index * step)]);
  const gone = new Set<string>();
  // Also where the client ignores the signal.
  const isGoneInTime = (owner: Owner): Promise<boolean> =>
    abandonable(() => isGone(client, owner, signal), signal).catch(() => false);
  await forEachConcurrently({ workers, signal }, sample, async (owner) => {
    if (owner !== undefined && (await isGoneInTime(owner))) gone.add(idOf(owner));
  });
  const isAllGone = gone.size === sample.length;
  const asked = new Set(all.map(idOf));
  return (owner) => (isAllGone ? asked.has(idOf(owner)) : gone.has(idOf(owner)));
}

async function isGone(client: Reader, owner: Owner, signal: AbortSignal): Promise<boolean> {
  try {
    if (owner.kind === "endpoint") return !(await hasEndpoint(client, owner, signal));
    if (owner.kind === "Node") await client.get(kinds.Node, { name: owner.name }, { signal });
    else await client.get(kinds.Service, placeOf(owner.name), { signal });
    return false;
  } catch (error) {
    return isNotFound(error);
  }
}

async function hasEndpoint(
  client: Reader,
  { service, node }: Extract<Owner, { readonly kind: "endpoint" }>,
  signal: AbortSignal,
): Promise<boolean> {
  const { namespace, name } = placeOf(service);
  const labelSelector = `${serviceLabel}=${name}`;
  const slices = await client.list(kinds.EndpointSlice, { namespace, labelSelector, signal });
  return slices.some(({ endpoints }) => endpoints?.some(({ nodeName }) => nodeName === node));
}

/** Of the key of a Service. */
function placeOf(key: string): { readonly namespace: string; readonly name: string } {
  const [namespace = "", name = ""] = key.split("/");
  return { namespace, name };
}

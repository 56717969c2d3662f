import { kinds, type Lease } from "cloud-controller-host/sdk";

import { leaseNames } from "../deployments.ts";
import type { Action } from "../history.ts";
import type { World } from "../world.ts";

/** That of the deployment of a host. */
const leaseOf = (world: World, { host }: Pick<Action, "host">) =>
  ({ namespace: "kube-system", name: leaseNames[world.deploymentOfHost(host)] }) as const;
/** Holder identity that belongs to none of the simulated hosts; it never renews. */
export const intruder = "intruder";

const change = (world: World, action: Action, text: string, spec: NonNullable<Lease["spec"]>): void => {
  const lease = leaseOf(world, action);
  if (world.api.get(kinds.Lease, lease) === undefined) return;
  world.note("user", text);
  world.api.update(kinds.Lease, lease, (now) => ({ ...now, spec: { ...now.spec, ...spec } }));
};

/** Seconds within which the holder renews the Lease, or notices who has it. */
const renewedWithin = ({ lease: { retryPeriodMs } }: World): number => Math.ceil(retryPeriodMs / 400);

/** Only while every process has observed it: one that never has creates it at once, as in client-go. */
export function deleteLease(world: World, action: Action): void {
  const lease = leaseOf(world, action);
  if (world.api.get(kinds.Lease, lease) === undefined) return;
  if (world.hosts.some(({ isAlive, running }) => !isAlive || !running?.status.leader)) return;
  world.note("user", "deletes the Lease");
  world.api.delete(kinds.Lease, lease);
}

/** Takes the Lease, as a process of another installation would that does not respect its holder. */
export function stealLease(world: World, action: Action): void {
  const renewTime = new Date().toISOString().replace("Z", "000Z");
  const leaseDurationSeconds = renewedWithin(world) + (action.pick % 20);
  change(world, action, "steals the Lease", { holderIdentity: intruder, leaseDurationSeconds, renewTime });
}

export function emptyLease(world: World, action: Action): void {
  change(world, action, "empties the holder of the Lease", { holderIdentity: "" });
}

/**
 * Changes times that its holder has written, and leaves the holder. One that has ended holds it until the longest is up: a
 * process that starts in between cannot know that the first duration which it sees is not that of the holder.
 */
export function editLease(world: World, action: Action): void {
  const leaseDurationSeconds = [1, renewedWithin(world), 3_600][action.pick % 3] ?? 1;
  world.heldUntil = Math.max(world.heldUntil, world.now + leaseDurationSeconds * 1_000);
  change(world, action, `sets the duration of the Lease to ${leaseDurationSeconds} s`, { leaseDurationSeconds });
}

import { type CloudContext, kinds, type Node, type Service } from "cloud-controller-host/sdk";

import { lastSegment, sameName } from "../../arm/resource-id.ts";
import { vmIdOf } from "../../instances/provider-id.ts";
import type { StuckMember, StuckMembers } from "../pools/member-write.ts";

/** Duration after which an operation of Azure on a member is reported. Failed syncs are retried sooner. */
const patienceMs = 10 * 60_000;
/** A member that was not found for this long is deleted, or has recovered. */
const forgetMs = 24 * 3_600_000;

const stuckStates = ["Failed", "Updating"] as const;

interface Known {
  readonly state: (typeof stuckStates)[number];
  readonly sinceMs: number;
  readonly lastMs: number;
  readonly reported: Set<string>;
}

/**
 * Reports network interfaces and instances that cannot join or leave a pool, because their last operation failed or does
 * not end, to their node and to the Services of the pool. Each once until it has been written: every sync finds them again.
 */
export function stuckMembers({
  clock,
  events,
  informers,
}: Pick<CloudContext, "clock" | "events" | "informers">): StuckMembers {
  const known = new Map<string, Known>();
  const report = (subject: Node | Service, key: string, { id, kind, change }: StuckMember, text: string): void => {
    const { state, reported } = known.get(id.toLowerCase()) ?? {};
    if (reported === undefined || reported.has(`${key} ${change}`)) return;
    reported.add(`${key} ${change}`);
    events.event(subject, "Warning", `${kind === "instance" ? "Instance" : "NetworkInterface"}${state}`, text);
  };
  return {
    found(member) {
      const { id, vmId, services } = member;
      const state = stuckStates.find((one) => sameName(one, member.state ?? ""));
      const now = clock.monotonic();
      for (const [one, { lastMs }] of known) if (now - lastMs > forgetMs) known.delete(one);
      const before = known.get(id.toLowerCase());
      if (state === undefined) {
        known.delete(id.toLowerCase());
        return;
      }
      // After a gap it may be another operation.
      const isSame = before?.state === state && (state === "Failed" || now - before.lastMs < patienceMs);
      const { sinceMs, reported } = isSame ? before : { sinceMs: now, reported: new Set<string>() };
      known.set(id.toLowerCase(), { state, sinceMs, lastMs: now, reported });
      if (state === "Updating" && now - sinceMs < patienceMs) return;
      const nodes = informers.of(kinds.Node).store.list();
      const node = vmId === undefined ? undefined : nodes.find((one) => sameName(vmIdOf(one) ?? "", vmId));
      const text = messageOf(member, state, node?.metadata?.name ?? lastSegment(vmId ?? id));
      if (node !== undefined) report(node, "node", member, text);
      for (const key of services) {
        const service = informers.of(kinds.Service).store.get(key);
        if (service !== undefined) report(service, key, member, text);
      }
    },
    written: (id) => void known.delete(id.toLowerCase()),
  };
}

/** The state, the consequence, and what a person can do. */
function messageOf({ id, kind, change }: StuckMember, state: Known["state"], node: string): string {
  const effect = change === "join" ? `node ${node} gets no traffic` : `node ${node} stays in it`;
  // Reimaging discards what the instance has on its own disks.
  const repair = kind === "instance" ? "drain its node and reimage it" : `run az network nic update --ids ${id}`;
  const [since, advice] =
    state === "Failed"
      ? ["is Failed", `to repair it, ${repair}`]
      : ["has been Updating for 10 minutes", "its activity log has the operation that does not end"];
  return `${kind} ${lastSegment(id)} cannot ${change} a backend pool, ${effect}: its provisioning state ${since}; ${advice}`;
}

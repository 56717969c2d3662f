import { type CloudContext, keyOf, kinds, type Node, type Service } from "cloud-controller-host/sdk";

import { lastSegment, sameName } from "../../arm/resource-id.ts";
import { vmIdOf } from "../../instances/provider-id.ts";
import type { FailedInterface, FailedInterfaces } from "../pools/instance-pools.ts";

/**
 * Reports network interfaces that ARM accepts no write of because the last one failed, to their node and to the Services
 * of the pool. Each once until it has been written: every sync finds them again.
 */
export function failedInterfaces({ events, informers }: Pick<CloudContext, "events" | "informers">): FailedInterfaces {
  const reported = new Map<string, Set<string>>();
  return {
    leftOut({ id, vmId, change, services }: FailedInterface) {
      const given = reported.getOrInsertComputed(id.toLowerCase(), () => new Set());
      const nodes = informers.of(kinds.Node).store.list();
      const node = vmId === undefined ? undefined : nodes.find((one) => sameName(vmIdOf(one) ?? "", vmId));
      const name = node?.metadata?.name ?? lastSegment(vmId ?? id);
      const effect = change === "join" ? `node ${name} gets no traffic` : `node ${name} stays in it`;
      const message = `network interface ${lastSegment(id)} cannot ${change} a backend pool, ${effect}: its provisioning state is Failed; repair it, for example with az network nic update --ids ${id}`;
      const report = (subject: Node | Service | undefined, key: string): void => {
        if (subject === undefined || given.has(`${key} ${change}`)) return;
        given.add(`${key} ${change}`);
        events.event(subject, "Warning", "NetworkInterfaceFailed", message);
      };
      report(node, `node ${name}`);
      const all = informers.of(kinds.Service).store.list();
      for (const service of all) if (services.includes(keyOf(service))) report(service, keyOf(service));
    },
    written: (id) => void reported.delete(id.toLowerCase()),
  };
}

import type { Action } from "../history.ts";
import type { World } from "../world.ts";
import { reload } from "./hosts.ts";
import { editLease } from "./leases.ts";
import { joinNodes, loseNode, replaceVM, returnNode } from "./nodes.ts";
import { foreignFrontend, foreignRoute, foreignRule, foreignTag } from "./others.ts";
import { changeService, createService, flipService, recreateService, revertService } from "./services.ts";

const scaleSets = "/virtualMachineScaleSets";
/** Lists that show other VMs. */
const ofOtherVMs = ["/Microsoft.Compute/virtualMachines", "/networkInterfaces"] as const;

/** What is read, and what others do meanwhile: to the same resource, or to what the product writes it for. */
export const changes: readonly (readonly [path: string, change: (world: World, action: Action) => void])[] = [
  ["/loadBalancers", foreignFrontend],
  ["/loadBalancers", changeService],
  ["/loadBalancers", createService],
  ["/loadBalancers", revertService],
  ["/networkSecurityGroups", foreignRule],
  ["/networkSecurityGroups", changeService],
  ["/networkSecurityGroups", foreignTag],
  ["/networkSecurityGroups", revertService],
  ["/publicIPAddresses", createService],
  ["/publicIPAddresses", recreateService],
  ["/routeTables", foreignRoute],
  ["/routeTables", joinNodes],
  [scaleSets, replaceVM],
  [scaleSets, joinNodes],
  [scaleSets, loseNode],
  [scaleSets, returnNode],
  ["/nodes", returnNode],
  ["/nodes", replaceVM],
  ["/services", changeService],
  ["/services", recreateService],
  ["/services", flipService],
  ["/secrets", reload],
  ["/leases", editLease],
];

/** Something changes between the moment at which a read is answered and the one at which its reply arrives. */
export function changeAtRead(world: World, action: Action): void {
  const [type, change] = changes[action.pick % changes.length] ?? ["", foreignTag];
  const { virtualMachines } = world.cluster;
  const other =
    virtualMachines.length > 0 && type === scaleSets ? ofOtherVMs[Math.floor(action.pick / 64) % 3] : undefined;
  const path = other ?? type;
  // Shorter than the time limit of a request to ARM.
  const holdMs = 500 + Math.floor(action.forMs / 4);
  world.note("network", `holds the reply to the next read of ${path} for ${holdMs} ms`);
  world.reads.hold({
    path,
    holdMs,
    change: () => {
      world.note("network", `holds the reply to a read of ${path}`);
      change(world, action);
    },
  });
}

/** Holds the reply to the next read of load balancers: what happens meanwhile has a time of its own. */
export function holdRead(world: World, { forMs }: Action): void {
  const path = "/loadBalancers";
  world.note("network", `holds the reply to the next read of ${path} for ${forMs} ms`);
  const change = (): void => world.note("network", `holds the reply to a read of ${path}`);
  world.reads.hold({ path, holdMs: forMs, change });
}

import { keyOf, kinds, type Node } from "cloud-controller-host/sdk";

import { deletedByUser } from "../actions/nodes.ts";
import type { World } from "../world.ts";
import type { Violate } from "./table.ts";

/** Watches every change of a node. */
export function watchNodes(world: World, violate: Violate): void {
  const cidrs = new Map<string, string>();
  world.api.onChange(kinds.Node, (type, node, before) => {
    const name = keyOf(node);
    if (type === "DELETED") {
      cidrs.delete(name);
      world.note("api", `node ${name} is deleted`);
      if (deletedByUser.get(world) === name) deletedByUser.delete(world);
      else if (world.isOfMachine(name, node))
        violate("no running VM loses its node", `${name} was deleted, and its VM runs`);
      return;
    }
    const cidr = node.spec?.podCIDR;
    if (cidr === undefined) return;
    const [twin] = [...cidrs].find(([other, taken]) => other !== name && taken === cidr) ?? [];
    if (twin !== undefined) violate("one CIDR, one node", `${name} got ${cidr}, which ${twin} has`);
    const had = cidrOf(before);
    if (had !== undefined && had !== cidr) violate("one CIDR, one node", `${name} had ${had} and got ${cidr}`);
    cidrs.set(name, cidr);
  });
}

const cidrOf = (node: Node | undefined): string | undefined => node?.spec?.podCIDR;

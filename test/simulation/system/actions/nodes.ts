import { kinds } from "cloud-controller-host/sdk";

import { freshNode, setReady } from "../../../../host/sandbox/kubelet.ts";
import { type Action, maxNodesOf } from "../history.ts";
import type { World } from "../world.ts";

/** Without heartbeats for so long, a node is Unknown. */
const graceMs = 40_000;

const instancesOf = (world: World) => world.instances();
const nameAt = (world: World, pick: number): string | undefined => {
  const instances = instancesOf(world);
  return instances[pick % Math.max(1, instances.length)]?.computerName.toLowerCase();
};

/** A kubelet registers its node. */
function register(world: World, name: string): void {
  if (world.api.get(kinds.Node, { name }) !== undefined || !world.isInUse(name)) return;
  world.note("kubelet", `registers ${name}`);
  world.api.create(kinds.Node, freshNode(name, new Date()));
}

const become = (world: World, name: string, status: "True" | "Unknown"): void => {
  world.note("kubelet", `${name} is ${status === "True" ? "ready" : "silent"}`);
  setReady(world.api, name, status);
};

export function joinNodes(world: World, { pick, forMs }: Pick<Action, "pick" | "forMs">): void {
  const count = Math.min(1 + (pick % 3), maxNodesOf(world.history) - instancesOf(world).length);
  if (count <= 0) return;
  world.note("cloud", `adds ${count} VMs`);
  const { scaleSets } = world.cluster;
  const scaleSet = scaleSets[instancesOf(world).length % scaleSets.length] ?? "vmss0";
  if (world.azure.get(`/providers/Microsoft.Compute/virtualMachineScaleSets/${scaleSet}`) === undefined) return;
  for (const { computerName } of world.azure.addScaleSetInstances(scaleSet, count))
    world.after(forMs * world.random() * 0.1, () => register(world, computerName.toLowerCase()));
}

/** A VM is deleted, as by a scale-in; its kubelet falls silent. */
export function loseNode(world: World, { pick }: Action): void {
  const name = nameAt(world, pick);
  if (name === undefined || instancesOf(world).length <= 1) return;
  world.note("cloud", `deletes the VM ${name}`);
  void world.azure.removeInstance(name);
  world.after(graceMs, () => become(world, name, "Unknown"));
}

/** A user deletes a node whose VM runs on; its kubelet registers it again. */
export function returnNode(world: World, { pick, forMs }: Pick<Action, "pick" | "forMs">): string | undefined {
  const name = nameAt(world, pick);
  if (name === undefined || world.api.get(kinds.Node, { name }) === undefined) return undefined;
  world.note("user", `deletes the node ${name}`);
  deletedByUser.set(world, name);
  world.api.delete(kinds.Node, { name });
  world.after(forMs * 0.2, () => register(world, name));
  return name;
}

/** A user deletes a node, and its kubelet is stopped for good: its VM serves nothing any more, and runs on. */
export function retireNode(world: World, { pick }: Action): void {
  const name = nameAt(world, pick);
  if (name === undefined || world.api.get(kinds.Node, { name }) === undefined) return;
  world.note("user", `retires the node ${name}`);
  world.retired.add(name);
  deletedByUser.set(world, name);
  world.api.delete(kinds.Node, { name });
}

/** Deletes a node as well, but it is registered right after a write, perhaps the one that takes it out of its pools. */
export function returnNodeAtWrite(world: World, { pick, forMs }: Action): void {
  const name = returnNode(world, { pick, forMs });
  if (name === undefined) return;
  for (const host of world.hosts)
    host.afterWrites(1 + (pick % 4), () => world.after(forMs * 0.001, () => register(world, name)));
}

/** The node that a user deletes at this moment. */
export const deletedByUser = new WeakMap<World, string>();

/** Registers a node when the one of the VM that had its name before is gone. */
function registerAgain(world: World, name: string): void {
  if (!world.azure.hasInstance(name)) return;
  if (world.api.get(kinds.Node, { name }) === undefined) register(world, name);
  else world.after(5_000, () => registerAgain(world, name));
}

/** The node under that name has not been initialized yet, or is the one of the VM that has the name now. */
function isOfVM(world: World, name: string): boolean {
  const providerID = world.api.get(kinds.Node, { name })?.spec?.providerID;
  const vm = world.vmOf(name)?.replace("/", "/virtualMachines/");
  return providerID === undefined || providerID.endsWith(`/${vm}`);
}

/** A VM is deleted, and another one with another address has its name. */
export function replaceVM(world: World, { pick, forMs }: Action): void {
  const name = nameAt(world, pick);
  const [scaleSet] = (name === undefined ? undefined : world.vmOf(name))?.split("/") ?? [];
  if (name === undefined || scaleSet === undefined) return;
  world.note("cloud", `replaces the VM ${name}`);
  void world.azure.removeInstance(name);
  world.azure.addScaleSetInstances(scaleSet, 1, { computerName: name });
  world.after(graceMs, () => become(world, name, "Unknown"));
  world.after(graceMs + forMs * 0.2, () => registerAgain(world, name));
}

/** A scale set is deleted with its VMs, and created again under its name with as many others. */
export function replaceScaleSet(world: World, { pick, forMs }: Action): void {
  const { scaleSets, dualStack } = world.cluster;
  const scaleSet = scaleSets[pick % scaleSets.length] ?? "vmss0";
  const names = world.azure.instances(scaleSet).map(({ computerName }) => computerName.toLowerCase());
  const id = `/providers/Microsoft.Compute/virtualMachineScaleSets/${scaleSet}`;
  if (world.azure.get(id) === undefined) return;
  world.note("cloud", `deletes the scale set ${scaleSet}`);
  world.azure.delete(id);
  for (const name of names) world.after(graceMs, () => become(world, name, "Unknown"));
  world.after(forMs * 0.2, () => {
    world.note("cloud", `creates the scale set ${scaleSet}`);
    world.azure.addScaleSet({ name: scaleSet, dualStack });
    for (const { computerName } of world.azure.addScaleSetInstances(scaleSet, names.length))
      register(world, computerName.toLowerCase());
  });
}

/** A VM is stopped and started again. */
export function stopNode(world: World, { pick, forMs }: Action): void {
  const name = nameAt(world, pick);
  if (name === undefined) return;
  world.note("cloud", `stops the VM ${name}`);
  world.azure.changeInstance(name, { powerState: "stopped" });
  world.after(graceMs, () => world.azure.hasInstance(name) && become(world, name, "Unknown"));
  world.after(graceMs + forMs, () => {
    if (!world.azure.hasInstance(name)) return;
    world.azure.changeInstance(name, { powerState: "running" });
    // The VM may have replaced another one whose node is still there: once ready, it would never be deleted.
    if (!isOfVM(world, name)) {
      registerAgain(world, name);
      return;
    }
    register(world, name);
    become(world, name, "True");
  });
}

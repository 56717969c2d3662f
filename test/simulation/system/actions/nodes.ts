import { keyOf, kinds, labels, type Node } from "cloud-controller-host/sdk";

import { freshNode, setReady } from "../../../../host/sandbox/kubelet.ts";
import { standalone } from "../clusters.ts";
import { type Action, maxNodesOf } from "../history.ts";
import { scaleSetPath } from "../machines.ts";
import type { World } from "../world.ts";

/** Without heartbeats for so long, a node is Unknown. */
const graceMs = 40_000;

const nameAt = ({ machines: { all } }: World, pick: number): string | undefined =>
  all[pick % Math.max(1, all.length)]?.name;

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
  const { length } = world.machines.all;
  const count = Math.min(1 + (pick % 3), maxNodesOf(world.history) - length);
  if (count <= 0) return;
  world.note("cloud", `adds ${count} VMs`);
  const { scaleSets, virtualMachines } = world.cluster;
  const sets = [...scaleSets, ...virtualMachines];
  const set = sets[length % sets.length] ?? "vmss0";
  if (set !== standalone && world.azure.get(scaleSetPath(set)) === undefined) return;
  for (const name of world.machines.add(set, count)) {
    const path = world.machineOf(name)?.path;
    // The kubelet of a VM that is replaced before never does.
    world.after(forMs * world.random() * 0.1, () => world.machineOf(name)?.path === path && register(world, name));
  }
}

/** A VM is deleted, as by a scale-in; its kubelet falls silent. */
export function loseNode(world: World, { pick }: Action): void {
  const name = nameAt(world, pick);
  if (name === undefined || world.machines.all.length <= 1) return;
  world.note("cloud", `deletes the VM ${name}`);
  world.machines.remove(name);
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

/** It has the label with which users and autoscalers keep nodes out of load balancers. */
export const isExcluded = ({ metadata }: Node): boolean => labels.excludeFromLoadBalancers in (metadata?.labels ?? {});

/** A user excludes a node from load balancers and, of three times two, takes that back. One node serves on. */
export function excludeNode(world: World, { pick, forMs }: Action): void {
  const serving = world.api.list(kinds.Node).filter((node) => !isExcluded(node) && world.isInUse(keyOf(node)));
  const node = serving[pick % Math.max(1, serving.length)];
  if (node === undefined || serving.length === 1) return;
  const name = keyOf(node);
  world.note("user", `excludes ${name} from load balancers`);
  label(world, name, { [labels.excludeFromLoadBalancers]: "" });
  if (pick % 3 === 0) return;
  world.after(forMs, () => {
    if (world.api.get(kinds.Node, { name }) === undefined) return;
    world.note("user", `lets ${name} serve again`);
    label(world, name, {});
  });
}

/** Sets the label of a node that excludes it, or removes it. */
function label(world: World, name: string, wanted: Readonly<Record<string, string>>): void {
  world.api.update(kinds.Node, { name }, ({ metadata, ...node }) => {
    const { [labels.excludeFromLoadBalancers]: _former, ...others } = metadata?.labels ?? {};
    return { ...node, metadata: { ...metadata, labels: { ...others, ...wanted } } };
  });
}

/** The node that a user deletes at this moment. */
export const deletedByUser = new WeakMap<World, string>();

/** Registers a node when the one of the VM that had its name before is gone. */
function registerAgain(world: World, name: string): void {
  const machine = world.machineOf(name);
  if (machine === undefined) return;
  if (world.api.get(kinds.Node, { name }) === undefined) register(world, name);
  // Another VM has the id of the former one: nothing deletes the node, which is that of the new VM from now on.
  else if (machine.set === standalone) become(world, name, "True");
  else world.after(5_000, () => registerAgain(world, name));
}

/** The node under that name has not been initialized yet, or is the one of the VM that has the name now. */
function isOfVM(world: World, name: string): boolean {
  const node = world.api.get(kinds.Node, { name });
  return node === undefined || world.isOfMachine(name, node);
}

/** A VM is deleted, and another one with another address has its name. */
export function replaceVM(world: World, { pick, forMs }: Action): void {
  const hasNode = (name: string): boolean => world.api.get(kinds.Node, { name }) !== undefined;
  // Azure gives no instance of a scale set the name of a former one: an ID that was read before the node came is right.
  const replaceable = world.machines.all.filter(({ name, set }) => hasNode(name) || set === standalone);
  const { name, set } = replaceable[pick % Math.max(1, replaceable.length)] ?? {};
  if (name === undefined || set === undefined) return;
  const uidOf = (): string | undefined => world.api.get(kinds.Node, { name })?.metadata?.uid;
  const former = uidOf();
  world.note("cloud", `replaces the VM ${name}`);
  world.machines.remove(name);
  world.machines.add(set, 1, name);
  // A user may delete the node of the former VM before, so that the kubelet of the new one registers its own.
  world.after(graceMs, () => uidOf() === former && become(world, name, "Unknown"));
  world.after(graceMs + forMs * 0.2, () => registerAgain(world, name));
}

/** A scale set is deleted with its VMs, and created again under its name with as many others. */
export function replaceScaleSet(world: World, { pick, forMs }: Action): void {
  const { scaleSets, dualStack } = world.cluster;
  const scaleSet = scaleSets[pick % scaleSets.length] ?? "vmss0";
  const names = world.azure.instances(scaleSet).map(({ computerName }) => computerName.toLowerCase());
  const id = scaleSetPath(scaleSet);
  if (world.azure.get(id) === undefined) return;
  world.note("cloud", `deletes the scale set ${scaleSet}`);
  world.azure.delete(id);
  for (const name of names) world.after(graceMs, () => become(world, name, "Unknown"));
  world.after(forMs * 0.2, () => {
    world.note("cloud", `creates the scale set ${scaleSet}`);
    world.azure.addScaleSet({ name: scaleSet, dualStack });
    for (const name of world.machines.add(scaleSet, names.length)) register(world, name);
  });
}

/** A VM is stopped and started again. */
export function stopNode(world: World, { pick, forMs }: Action): void {
  const name = nameAt(world, pick);
  if (name === undefined) return;
  world.note("cloud", `stops the VM ${name}`);
  world.machines.setPower(name, "stopped");
  world.after(graceMs, () => world.machines.has(name) && become(world, name, "Unknown"));
  world.after(graceMs + forMs, () => {
    if (!world.machines.has(name)) return;
    world.machines.setPower(name, "running");
    // The VM may have replaced another one whose node is still there: once ready, it would never be deleted.
    if (!isOfVM(world, name)) {
      registerAgain(world, name);
      return;
    }
    register(world, name);
    become(world, name, "True");
  });
}

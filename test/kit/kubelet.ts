import { kinds, type KubeClient, type Node } from "cloud-controller-host/sdk";
import type { MemoryCloud, MemoryMachine } from "cloud-controller-host/sdk/testing";

import { freshNode } from "../../host/sandbox/kubelet.ts";
import { createNode } from "./azure.ts";

/** `node-7`, whose VM has the address 10.240.0.7. */
export const nodeName = (index: number): string => `node-${index}`;

/** A VM in the cloud. */
function bootMachine({ machines }: Pick<MemoryCloud, "machines">, name: string): MemoryMachine {
  const index = Number(/\d+$/.exec(name)?.[0] ?? 0);
  const machine: MemoryMachine = {
    instanceType: "large",
    region: "north",
    zone: `north-${(index % 3) + 1}`,
    nodeAddresses: [
      { type: "InternalIP", address: `10.240.${index >> 8}.${index & 255}` },
      { type: "Hostname", address: name },
    ],
  };
  machines.set(name, machine);
  return machine;
}

/** Creates a VM and registers its node, as the kubelet would: tainted, and Ready. */
export async function joinNode(
  admin: KubeClient,
  memory: Pick<MemoryCloud, "machines">,
  name: string,
  node: Node = freshNode(name, new Date()),
): Promise<void> {
  bootMachine(memory, name);
  await createNode(admin, node);
}

/** Sets the condition Ready, as the kubelet does or, for a silent one, the node lifecycle controller. */
export async function setReady(admin: KubeClient, name: string, status: "True" | "False" | "Unknown"): Promise<void> {
  const at = new Date().toISOString().replace(/\.\d+Z$/, "Z");
  const condition = { type: "Ready", status, lastHeartbeatTime: at, lastTransitionTime: at };
  const body = { status: { conditions: [condition] } };
  await admin.patch(kinds.Node, { name }, "strategic", body, { subresource: "status" });
}

/** Deletes the VM; its kubelet stops reporting. */
export async function loseMachine(
  admin: KubeClient,
  { machines }: Pick<MemoryCloud, "machines">,
  name: string,
): Promise<void> {
  machines.delete(name);
  await setReady(admin, name, "Unknown");
}

export const getNode = (admin: KubeClient, name: string): Promise<Node> => admin.get(kinds.Node, { name });

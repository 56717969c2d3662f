import { kinds, type Node, taints, taintsOf } from "cloud-controller-host/sdk";

import type { TestClient } from "../envtest/client.ts";

export const nodeOf = (admin: TestClient, name: string): Promise<Node> => admin.get(kinds.Node, { name });

export const isTainted = (node: Node, taint: string): boolean => taintsOf(node).some(({ key }) => key === taint);

export const isGone = async (admin: TestClient, name: string): Promise<boolean> =>
  (await admin.list(kinds.Node)).every(({ metadata }) => metadata?.name !== name);

/** Adds the uninitialized taint again, to a node that is already initialized. */
export async function waitAgain(admin: TestClient, name: string): Promise<void> {
  const waiting = [{ key: taints.uninitialized, value: "true", effect: "NoSchedule" }];
  await admin.patch(kinds.Node, { name }, "merge", { spec: { taints: waiting } });
}

/** The kubelet has not been heard of. */
export async function loseKubelet(admin: TestClient, name: string): Promise<void> {
  const conditions = [{ type: "Ready", status: "Unknown", reason: "NodeStatusUnknown", message: "no word" }];
  await admin.patch(kinds.Node, { name }, "strategic", { status: { conditions } }, { subresource: "status" });
}

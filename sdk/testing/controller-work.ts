import { kinds, type Node, type Service } from "../kinds.ts";
import type { KubeClient } from "../kube.ts";
import { taints } from "../labels.ts";
import type { MemoryCloud } from "./memory-cloud.ts";

/** Creates work for the controller under test; called once per round, counted from 0. */
export type CreateWork = (fixture: {
  readonly admin: KubeClient;
  readonly memory: MemoryCloud;
  readonly round: number;
}) => Promise<void>;

/** Work for the usual controllers: new nodes, stopped nodes, pod CIDRs and a Service of type LoadBalancer. */
export const commonWork: CreateWork = async ({ admin, memory, round }) => {
  for (const shutdown of [false, true]) {
    const name = `node-${round}-${shutdown ? "down" : "new"}`;
    const address = `10.${round}.${shutdown ? 1 : 2}.4`;
    memory.machines.set(name, { shutdown, nodeAddresses: [{ type: "InternalIP", address }], zone: "z1", region: "r1" });
    await admin.create(kinds.Node, newNode(name, round, shutdown));
  }
  await admin.create(kinds.Service, newService(`web-${round}`));
};

function newNode(name: string, round: number, down: boolean): Node {
  const at = new Date().toISOString();
  const spec = down
    ? { podCIDRs: [`10.244.${round}.0/24`], podCIDR: `10.244.${round}.0/24` }
    : { taints: [{ key: taints.uninitialized, value: "true", effect: "NoSchedule" }] };
  return {
    apiVersion: "v1",
    kind: "Node",
    metadata: { name },
    spec,
    status: {
      conditions: [{ type: "Ready", status: down ? "Unknown" : "True", lastHeartbeatTime: at, lastTransitionTime: at }],
    },
  };
}

const newService = (name: string): Service => ({
  apiVersion: "v1",
  kind: "Service",
  metadata: { name, namespace: "default" },
  spec: { type: "LoadBalancer", selector: { app: name }, ports: [{ port: 80, protocol: "TCP" }] },
});

import { kinds, type KubeClient, type Node, type Taint, taints } from "cloud-controller-host/sdk";

import type { AzureSimulator } from "../../../plugins/azure-cloud/simulator/simulator.ts";
import { createNode } from "../../kit/azure.ts";
import { setReady } from "../../kit/kubelet.ts";
import { balancedService, cleanupFinalizer, deleteService, patchService } from "../../kit/services.ts";
import { recordedDay } from "./writes.ts";

export interface Day {
  readonly admin: KubeClient;
  readonly simulator: AzureSimulator;
  readonly startHost: () => Promise<unknown>;
  /** Lets the cloud finish the routes that it was asked for. */
  readonly routesAreMade: () => void;
}

const name = (index: number): string => `vmss000000${index}`;
const foreignFinalizer = "example.com/other";

/** Nodes as their kubelets registered them: what the recording wrote of them, without what the cloud added. */
const kubeletNodes: readonly Node[] = [0, 1, 2].map((index) => {
  const written = recordedDay.find(({ verb, uri }) => verb === "update" && uri.endsWith(name(index)));
  const { metadata, spec, status }: Node = JSON.parse(JSON.stringify(written?.body));
  const kept = Object.entries(metadata?.labels ?? {}).filter(([label]) => label.startsWith("kubernetes.io/"));
  const waiting: Taint = { key: taints.uninitialized, value: "true", effect: "NoSchedule" };
  return {
    apiVersion: "v1",
    kind: "Node",
    metadata: { name: name(index), labels: Object.fromEntries(kept) },
    spec: { taints: [waiting, ...(spec?.taints ?? [])] },
    ...(status === undefined ? {} : { status }),
  };
});

export interface Step {
  /** As in the recording. */
  readonly step: string;
  readonly act: (day: Day) => Promise<unknown>;
}

/** What happened on the day, read from what was written on it. */
export const script: readonly Step[] = [
  {
    step: "nodes initialized, CIDRs given, routes made",
    act: ({ startHost, simulator }) => {
      // So slow that all nodes have their CIDRs before the first is initialized, as on the day.
      simulator.setLatency(700);
      return startHost();
    },
  },
  {
    step: "load balancer created",
    act: ({ admin, simulator }) => {
      simulator.setLatency(0);
      return admin.create(kinds.Service, balancedService("web"));
    },
  },
  {
    step: "second finalizer present, type flipped to ClusterIP",
    act: ({ admin }) =>
      patchService(admin, "web", {
        metadata: { finalizers: [cleanupFinalizer, foreignFinalizer] },
        spec: { type: "ClusterIP" },
      }),
  },
  {
    step: "back to LoadBalancer",
    act: ({ admin, routesAreMade }) => {
      // On the day the cloud took a minute for its routes.
      routesAreMade();
      return patchService(admin, "web", { metadata: { finalizers: null }, spec: { type: "LoadBalancer" } });
    },
  },
  { step: "service deleted", act: ({ admin }) => deleteService(admin, "web") },
  {
    step: "node 1 deallocated and not ready",
    act: ({ admin, simulator }) => {
      simulator.changeInstance(name(1), { powerState: "deallocated" });
      return setReady(admin, name(1), "Unknown");
    },
  },
  {
    step: "node 1 running and ready again",
    act: ({ admin, simulator }) => {
      simulator.changeInstance(name(1), { powerState: "running" });
      return setReady(admin, name(1), "True");
    },
  },
  {
    // Young as the nodes are, none is deleted yet; on the day the cloud's caches still knew the machine.
    step: "node 2 gone from the cloud, not ready",
    async act({ admin, simulator }) {
      await simulator.removeInstance(name(2));
      await setReady(admin, name(2), "Unknown");
    },
  },
];

/** Machines, and nodes registered for them. Before this nothing runs. */
export async function beginDay({ admin, simulator }: Day): Promise<void> {
  await simulator.addInstances(kubeletNodes.length);
  for (const node of kubeletNodes) await createNode(admin, node);
}

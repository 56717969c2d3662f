import { kinds, labels, type Node, taints } from "cloud-controller-host/sdk";

import type { SandboxApiServer } from "./api-server/server.ts";

/** What a kubelet with an external cloud provider registers: its name and the taint that waits for us. */
export function freshNode(name: string, now: Date): Node {
  const time = now.toISOString().replace(/\.\d+Z$/, "Z");
  return {
    apiVersion: "v1",
    kind: "Node",
    metadata: {
      name,
      labels: { [labels.hostname]: name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64" },
    },
    spec: { taints: [{ key: taints.uninitialized, value: "true", effect: "NoSchedule" }] },
    status: {
      addresses: [{ type: "Hostname", address: name }],
      capacity: { cpu: "4", memory: "16Gi", pods: "110" },
      allocatable: { cpu: "4", memory: "16Gi", pods: "110" },
      conditions: [
        {
          type: "Ready",
          status: "True",
          reason: "KubeletReady",
          message: "kubelet is posting ready status",
          lastHeartbeatTime: time,
          lastTransitionTime: time,
        },
      ],
      nodeInfo: {
        architecture: "amd64",
        bootID: "",
        containerRuntimeVersion: "containerd://2.1.0",
        kernelVersion: "6.8.0",
        kubeProxyVersion: "",
        kubeletVersion: "v1.36.3",
        machineID: "",
        operatingSystem: "linux",
        osImage: "Sandbox",
        systemUUID: "",
      },
    },
  };
}

/** Registers a node for each machine, as if its kubelet had just started. */
export function seedNodes(api: SandboxApiServer, machines: readonly { readonly nodeName: string }[]): void {
  const now = new Date();
  for (const { nodeName } of machines) api.create(kinds.Node, freshNode(nodeName, now));
}

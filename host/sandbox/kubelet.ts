import { kinds, labels, type Node, type NodeCondition, taints, timestamp } from "cloud-controller-host/sdk";
import type { SandboxApiServer } from "cloud-controller-host/sdk/testing/api-server";

/** The Node object that a kubelet with an external cloud provider registers: uninitialized, and Ready. */
export function freshNode(name: string, now: Date): Node {
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
      conditions: [readyCondition("True", now)],
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

const readyTexts = {
  True: { reason: "KubeletReady", message: "kubelet is posting ready status" },
  Unknown: { reason: "NodeStatusUnknown", message: "Kubelet stopped posting node status." },
} as const;

const readyCondition = (status: keyof typeof readyTexts, now: Date): NodeCondition => ({
  type: "Ready",
  status,
  ...readyTexts[status],
  lastHeartbeatTime: timestamp(now.getTime()),
  lastTransitionTime: timestamp(now.getTime()),
});

/** Registers a node and its heartbeat lease, as a kubelet that has just started. */
export function registerNode(api: SandboxApiServer, name: string): void {
  const now = new Date();
  api.create(kinds.Node, freshNode(name, now));
  const renewTime = now.toISOString().replace("Z", "000Z");
  api.create(kinds.Lease, {
    metadata: { name, namespace: "kube-node-lease" },
    spec: { holderIdentity: name, leaseDurationSeconds: 40, renewTime },
  });
}

/** Sets the Ready condition: `Unknown` as the node-lifecycle controller does when heartbeats have stopped. */
export function setReady(api: SandboxApiServer, name: string, status: keyof typeof readyTexts): void {
  if (api.get(kinds.Node, { name }) === undefined) return;
  const conditions = [readyCondition(status, new Date())];
  api.update(kinds.Node, { name }, (node) => ({ ...node, status: { ...node.status, conditions } }), "status");
}

import type { Node } from "cloud-controller-host/sdk";

import { freshNode } from "../../host/sandbox/kubelet.ts";

const images = 50;
const at = "2026-11-20T18:31:44Z";

/**
 * A node of about 20 KB, as a kubelet on a node that has run for a while reports it: 50 images with digest and tag, five
 * conditions, node info, capacity, labels and annotations. The API server adds managedFields.
 */
export function realNode(name: string): Node {
  const node = freshNode(name, new Date());
  return {
    ...node,
    metadata: {
      ...node.metadata,
      labels: {
        ...node.metadata?.labels,
        "beta.kubernetes.io/arch": "amd64",
        "beta.kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.azure.com/agentpool": "workers",
        "kubernetes.azure.com/node-image-version": "AKSUbuntu-2204gen2containerd-202611.01.0",
      },
      annotations: {
        "csi.volume.kubernetes.io/nodeid": JSON.stringify({ "disk.csi.azure.com": name, "file.csi.azure.com": name }),
        "node.alpha.kubernetes.io/ttl": "0",
        "volumes.kubernetes.io/controller-managed-attach-detach": "true",
      },
    },
    status: { ...node.status, ...status(name) },
  };
}

const status = (name: string): NonNullable<Node["status"]> & Readonly<Record<string, unknown>> => ({
  conditions: ["MemoryPressure", "DiskPressure", "PIDPressure", "Ready"].map((type) => ({
    type,
    status: type === "Ready" ? "True" : "False",
    lastHeartbeatTime: at,
    lastTransitionTime: at,
    reason: type === "Ready" ? "KubeletReady" : `KubeletHasNo${type}`,
    message: type === "Ready" ? "kubelet is posting ready status" : `kubelet has no ${type}`,
  })),
  addresses: [{ type: "Hostname", address: name }],
  capacity: { cpu: "8", memory: "32867500Ki", pods: "110", "ephemeral-storage": "129886128Ki" },
  allocatable: { cpu: "7820m", memory: "29066412Ki", pods: "110", "ephemeral-storage": "119703055367" },
  daemonEndpoints: { kubeletEndpoint: { Port: 10_250 } },
  nodeInfo: {
    architecture: "amd64",
    bootID: "2f0f1f8e-52a0-4a5f-9f0c-6b4b3f3f2f10",
    containerRuntimeVersion: "containerd://2.1.4-1",
    kernelVersion: "5.15.0-1098-azure",
    kubeProxyVersion: "v1.36.3",
    kubeletVersion: "v1.36.3",
    machineID: "0f3c2b1a4d5e6f708192a3b4c5d6e7f8",
    operatingSystem: "linux",
    osImage: "Ubuntu 22.04.5 LTS",
    systemUUID: "9b1deb4d-3b7d-4bad-9bdd-2b0d7b3dcb6d",
  },
  images: Array.from({ length: images }, (_, index) => ({
    names: [
      `registry.example.com/platform/team-${index % 7}/component-${index}@sha256:${String(index).padStart(64, "0123456789abcdef")}`,
      `registry.example.com/platform/team-${index % 7}/component-${index}:v1.${index}.${index % 10}-20261101`,
    ],
    sizeBytes: 20_000_000 + index * 1_234_567,
  })),
});

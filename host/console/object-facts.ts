import type { Fact, Node, Service } from "cloud-controller-host/sdk";

/** The state of an object in Kubernetes, for people. */
export function serviceFacts({ spec, status, metadata }: Service): readonly Fact[] {
  const addresses = (status?.loadBalancer?.ingress ?? []).map(({ ip, hostname }) => ip ?? hostname ?? "");
  const conditions = (status?.conditions ?? []).map(({ type, status: value, reason, message, lastTransitionTime }) => ({
    name: `condition ${type}`,
    value: `${value} since ${lastTransitionTime}: ${reason}: ${message}`,
  }));
  return [
    { name: "type", value: spec?.type ?? "ClusterIP" },
    ...(spec?.loadBalancerClass === undefined ? [] : [{ name: "class", value: spec.loadBalancerClass }]),
    { name: "addresses", value: addresses.join(", ") || "none" },
    { name: "finalizers", value: metadata?.finalizers?.join(", ") || "none" },
    ...(metadata?.deletionTimestamp === undefined
      ? []
      : [{ name: "being deleted since", value: metadata.deletionTimestamp }]),
    ...conditions,
  ];
}

export function nodeFacts({ spec, status }: Node): readonly Fact[] {
  const addresses = (status?.addresses ?? []).map(({ type, address }) => `${type} ${address}`);
  return [
    { name: "provider ID", value: spec?.providerID ?? "none" },
    { name: "addresses", value: addresses.join(", ") || "none" },
    { name: "pod CIDRs", value: spec?.podCIDRs?.join(", ") || "none" },
    { name: "taints", value: (spec?.taints ?? []).map(({ key, effect }) => `${key}:${effect}`).join(", ") || "none" },
  ];
}

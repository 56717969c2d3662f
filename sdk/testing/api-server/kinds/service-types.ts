import type { Service, ServicePort } from "cloud-controller-host/sdk";

import { equal } from "../json.ts";

export type ServiceSpec = NonNullable<Service["spec"]>;

/** The fields of each type of Service. Source: kube-apiserver `registry/core/service`. */
export const isLoadBalancer = ({ type }: ServiceSpec): boolean => type === "LoadBalancer";
export const needsClusterIP = ({ type }: ServiceSpec): boolean => type !== "ExternalName";
export const isHeadless = ({ clusterIP, clusterIPs }: ServiceSpec): boolean =>
  (clusterIP ?? clusterIPs?.[0]) === "None";
export const needsNodePorts = (spec: ServiceSpec): boolean =>
  spec.type === "NodePort" || (isLoadBalancer(spec) && spec.allocateLoadBalancerNodePorts !== false);
export const mayHaveNodePorts = (spec: ServiceSpec): boolean => spec.type === "NodePort" || isLoadBalancer(spec);
export const needsHealthCheckPort = (spec: ServiceSpec): boolean =>
  isLoadBalancer(spec) && spec.externalTrafficPolicy === "Local";
export const isExternallyAccessible = (spec: ServiceSpec): boolean =>
  mayHaveNodePorts(spec) || (spec.type !== "ExternalName" && (spec.externalIPs ?? []).length > 0);

/** Fields that go when a change of type makes them meaningless, unless the client has changed them too. */
const typeDependent: readonly {
  readonly needed: (spec: ServiceSpec) => boolean;
  readonly keys: readonly (keyof ServiceSpec)[];
}[] = [
  {
    needed: needsClusterIP,
    keys: ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy"],
  },
  { needed: needsHealthCheckPort, keys: ["healthCheckNodePort"] },
  { needed: isLoadBalancer, keys: ["allocateLoadBalancerNodePorts", "loadBalancerClass"] },
  { needed: isExternallyAccessible, keys: ["externalTrafficPolicy"] },
];

export function withoutFieldsOfOldType(spec: ServiceSpec, before: ServiceSpec): ServiceSpec {
  const next: { -readonly [Field in keyof ServiceSpec]: ServiceSpec[Field] } = { ...spec };
  for (const { needed, keys } of typeDependent) {
    if (!needed(before) || needed(spec)) continue;
    if (keys.every((key) => next[key] === undefined || equal(next[key], before[key])))
      for (const key of keys) delete next[key];
  }
  const portsGo = mayHaveNodePorts(before) && !mayHaveNodePorts(spec) && equal(nodePortsOf(spec), nodePortsOf(before));
  return portsGo && next.ports !== undefined ? { ...next, ports: next.ports.map(withoutNodePort) } : next;
}

const nodePortsOf = ({ ports = [] }: ServiceSpec): readonly number[] => ports.map(({ nodePort }) => nodePort ?? 0);
const withoutNodePort = ({ nodePort: _nodePort, ...port }: ServicePort): ServicePort => port;

/** Allocated fields that an update omits keep their values. */
export function withAllocated(spec: ServiceSpec, before: ServiceSpec): ServiceSpec {
  const next: { -readonly [Field in keyof ServiceSpec]: ServiceSpec[Field] } = { ...spec };
  if (needsClusterIP(before) && needsClusterIP(spec)) {
    if (spec.clusterIP === undefined && before.clusterIP !== undefined) next.clusterIP = before.clusterIP;
    if (spec.clusterIP === undefined && spec.clusterIPs === undefined && before.clusterIPs !== undefined)
      next.clusterIPs = before.clusterIPs;
    if (
      next.clusterIP !== undefined &&
      next.clusterIP !== before.clusterIP &&
      equal(next.clusterIPs, before.clusterIPs)
    )
      next.clusterIPs = [next.clusterIP];
    if (spec.ipFamilyPolicy === undefined && before.ipFamilyPolicy !== undefined)
      next.ipFamilyPolicy = before.ipFamilyPolicy;
  }
  if (needsNodePorts(before) && needsNodePorts(spec) && spec.ports !== undefined)
    next.ports = portsWithAllocated(spec.ports, before.ports ?? []);
  if (needsHealthCheckPort(before) && needsHealthCheckPort(spec) && before.healthCheckNodePort !== undefined)
    next.healthCheckNodePort ??= before.healthCheckNodePort;
  return next;
}

const portKey = ({ protocol = "TCP", port }: ServicePort): string => `${protocol}/${port}`;

function portsWithAllocated(ports: readonly ServicePort[], before: readonly ServicePort[]): readonly ServicePort[] {
  const known = new Map(before.map((port) => [portKey(port), port.nodePort]));
  const requested = new Set(ports.map(({ nodePort }) => nodePort));
  return ports.map((port) => {
    const nodePort = known.get(portKey(port));
    return port.nodePort !== undefined || nodePort === undefined || requested.has(nodePort)
      ? port
      : { ...port, nodePort };
  });
}

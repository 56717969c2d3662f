import type { Service, ServicePort } from "cloud-controller-host/sdk";

import { equal } from "../json.ts";
import type { WriteContext } from "../resource.ts";
import { type Family, familyOf, type ServiceAddresses } from "../service-addresses.ts";
import {
  isExternallyAccessible,
  isHeadless,
  isLoadBalancer,
  needsClusterIP,
  needsHealthCheckPort,
  needsNodePorts,
  type ServiceSpec,
  withAllocated,
  withoutFieldsOfOldType,
} from "./service-types.ts";

type ServiceStatus = NonNullable<Service["status"]>;

const sessionTimeoutSeconds = 10_800;

/** The Service as stored by the API server: with defaults, cluster IPs and node ports. */
export function prepareService(next: Service, before: Service | undefined, { addresses }: WriteContext): Service {
  const sent = withDefaults(next.spec ?? {});
  const old = before?.spec;
  const own = old === undefined ? sent : withoutFieldsOfOldType(withAllocated(sent, old), old);
  const spec = withPorts(withClusterIPs(own, old, addresses), addresses);
  return { ...next, spec, ...(next.status === undefined ? {} : { status: statusFor(spec, old, next.status) }) };
}

function withDefaults(spec: ServiceSpec): ServiceSpec {
  const { type = "ClusterIP", sessionAffinity = "None", sessionAffinityConfig, ...own } = spec;
  const typed: ServiceSpec = { ...own, type, sessionAffinity };
  const timeout = sessionAffinityConfig?.clientIP?.timeoutSeconds ?? sessionTimeoutSeconds;
  return {
    ...typed,
    ...(sessionAffinity === "ClientIP" ? { sessionAffinityConfig: { clientIP: { timeoutSeconds: timeout } } } : {}),
    ...(spec.ports === undefined ? {} : { ports: spec.ports.map(portWithDefaults) }),
    ...(isExternallyAccessible(typed) ? { externalTrafficPolicy: spec.externalTrafficPolicy ?? "Cluster" } : {}),
    ...(needsClusterIP(typed) ? { internalTrafficPolicy: spec.internalTrafficPolicy ?? "Cluster" } : {}),
    ...(isLoadBalancer(typed) ? { allocateLoadBalancerNodePorts: spec.allocateLoadBalancerNodePorts ?? true } : {}),
  };
}

function portWithDefaults(port: ServicePort): ServicePort {
  const targetPort =
    port.targetPort === undefined || port.targetPort === 0 || port.targetPort === "" ? port.port : port.targetPort;
  return { ...port, protocol: port.protocol ?? "TCP", targetPort };
}

function withClusterIPs(spec: ServiceSpec, old: ServiceSpec | undefined, addresses: ServiceAddresses): ServiceSpec {
  if (!needsClusterIP(spec)) return spec;
  const requested = spec.clusterIPs ?? (spec.clusterIP === undefined ? [] : [spec.clusterIP]);
  const selectsNothing = Object.keys(spec.selector ?? {}).length === 0;
  const open = isHeadless(spec) && selectsNothing && spec.ipFamilies === undefined;
  const ipFamilyPolicy = spec.ipFamilyPolicy ?? (open ? "RequireDualStack" : "SingleStack");
  const known = familiesOf(spec.ipFamilies, requested, ipFamilyPolicy, addresses);
  const narrowed = ipFamilyPolicy === "SingleStack" && equal(spec.ipFamilies, old?.ipFamilies);
  const ipFamilies = narrowed ? known.slice(0, 1) : known;
  const clusterIPs = isHeadless(spec)
    ? ["None"]
    : ipFamilies.flatMap((family, index) => requested[index] ?? addresses.freeIP(family) ?? []);
  const [clusterIP] = clusterIPs;
  return { ...spec, ipFamilyPolicy, ipFamilies, clusterIPs, ...(clusterIP === undefined ? {} : { clusterIP }) };
}

function familiesOf(
  wanted: readonly string[] | undefined,
  ips: readonly string[],
  policy: string,
  { families: both }: ServiceAddresses,
): readonly Family[] {
  const named = wanted ?? ips.map((ip) => familyOf(ip) ?? "").filter((family) => family !== "");
  const known = both.filter((family) => named.includes(family)).toSorted((a, b) => named.indexOf(a) - named.indexOf(b));
  const [primary = both[0]] = known;
  if (policy === "SingleStack") return known.length === 0 ? [primary] : known;
  return [primary, ...both.filter((family) => family !== primary)];
}

function withPorts(spec: ServiceSpec, addresses: ServiceAddresses): ServiceSpec {
  const ports = needsNodePorts(spec) && spec.ports !== undefined ? givenNodePorts(spec.ports, addresses) : spec.ports;
  const taken = new Set((ports ?? []).flatMap(({ nodePort }) => nodePort ?? []));
  const health = needsHealthCheckPort(spec) ? (spec.healthCheckNodePort ?? addresses.freePort(taken)) : undefined;
  return {
    ...spec,
    ...(ports === undefined ? {} : { ports }),
    ...(health === undefined ? {} : { healthCheckNodePort: health }),
  };
}

/** Gives each port a node port; one that is there twice, for two protocols, gets the same one for both. */
function givenNodePorts(ports: readonly ServicePort[], addresses: ServiceAddresses): readonly ServicePort[] {
  const taken = new Set(ports.flatMap(({ nodePort }) => nodePort ?? []));
  const byPort = new Map(
    ports.flatMap(({ port, nodePort }) => (nodePort === undefined ? [] : [[port, nodePort] as const])),
  );
  return ports.map((port) => {
    const nodePort = port.nodePort ?? byPort.get(port.port) ?? addresses.freePort(taken);
    if (nodePort === undefined) return port;
    taken.add(nodePort);
    byPort.set(port.port, nodePort);
    return { ...port, nodePort };
  });
}

/** The ingress is removed with the type LoadBalancer; the default ipMode of an address is VIP. */
function statusFor(spec: ServiceSpec, old: ServiceSpec | undefined, status: ServiceStatus): ServiceStatus {
  if (old !== undefined && isLoadBalancer(old) && !isLoadBalancer(spec)) return { ...status, loadBalancer: {} };
  const ingress = status.loadBalancer?.ingress;
  if (ingress === undefined) return status;
  const complete = ingress.map((entry) => (entry.ip === undefined ? entry : { ipMode: "VIP", ...entry }));
  return { ...status, loadBalancer: { ingress: complete } };
}

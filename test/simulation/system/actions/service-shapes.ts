import type { Service } from "cloud-controller-host/sdk";

import type { World } from "../world.ts";

type Spec = NonNullable<Service["spec"]>;

/** What a user asks for. */
export interface Shape {
  /** By their names without the prefix. `{name}`, `{number}` and `{now}` stand for the Service's and the time. */
  readonly annotations?: Readonly<Record<string, string>>;
  readonly spec?: Partial<Spec>;
}

export interface Feature extends Shape {
  /** A shape has at most one feature of each group. */
  readonly group: string;
  /** A Service of the other kind would be refused, or warned that it has no effect. */
  readonly scheme?: "internal" | "public";
  /** A Service of both families would need another value for the other one, or be refused. */
  readonly isIPv4Only?: true;
}

export const prefix = "service.beta.kubernetes.io/";
/** Start of the names of the public IPs that users have created for Services of theirs. */
export const usersIP = "foreign-of-";
export const usersPrefix = "/providers/Microsoft.Network/publicIPPrefixes/foreign-prefix";

export type Port = NonNullable<Spec["ports"]>[number];
export const port = (number: number, protocol: "TCP" | "UDP" = "TCP", more: Partial<Port> = {}): Port => ({
  name: `${protocol.toLowerCase()}-${number}`,
  protocol,
  port: number,
  ...more,
});
/** Those of a Service without a wish. */
export const defaultPorts: readonly Port[] = [port(80)];
const two = [port(80), port(443)];
const internal = { "azure-load-balancer-internal": "true" } as const;
const link = { ...internal, "azure-pls-create": "true" } as const;

export const features: readonly Feature[] = [
  { group: "none" },
  { group: "none" },
  { group: "ports", spec: { ports: two } },
  { group: "ports", spec: { ports: [port(80), port(53, "UDP")] } },
  { group: "ports", spec: { ports: [port(53), port(53, "UDP"), port(80), port(443), port(8443)] } },
  { group: "ports", spec: { ports: [port(80, "TCP", { appProtocol: "http" }), port(443)] } },
  { group: "ports", annotations: { port_443_no_lb_rule: "true" }, spec: { ports: two } },
  { group: "ports", annotations: { port_443_no_probe_rule: "true" }, spec: { ports: two } },
  { group: "ports", annotations: { "port_443_health-probe_port": "80" }, spec: { ports: two } },
  { group: "ranges", isIPv4Only: true, spec: { loadBalancerSourceRanges: ["192.0.2.0/24"] } },
  { group: "ranges", isIPv4Only: true, annotations: { "azure-allowed-ip-ranges": "198.51.100.0/24,192.0.2.0/25" } },
  { group: "ranges", isIPv4Only: true, annotations: { "load-balancer-source-ranges": "203.0.113.0/28" } },
  { group: "ranges", annotations: { "azure-allowed-service-tags": "AzureCloud,AzureFrontDoor.Backend" } },
  {
    group: "ranges",
    isIPv4Only: true,
    annotations: { "azure-deny-all-except-load-balancer-source-ranges": "true" },
    spec: { loadBalancerSourceRanges: ["192.0.2.0/24"] },
  },
  { group: "ranges", annotations: { "azure-disable-load-balancer-nsg-rule": "true" } },
  { group: "traffic", spec: { externalTrafficPolicy: "Local" } },
  { group: "affinity", spec: { sessionAffinity: "ClientIP" } },
  { group: "scheme", scheme: "internal", annotations: internal },
  {
    group: "scheme",
    scheme: "internal",
    annotations: { ...internal, "azure-load-balancer-internal-subnet": "subnet1" },
  },
  {
    group: "scheme",
    scheme: "internal",
    isIPv4Only: true,
    annotations: { ...internal, "azure-load-balancer-ipv4": "10.240.250.1{number}" },
  },
  // Azure allows one rule for all ports per pool without floating IP, which internal IPv6 addresses cannot have.
  {
    group: "scheme",
    scheme: "internal",
    isIPv4Only: true,
    annotations: { ...internal, "azure-load-balancer-enable-high-availability-ports": "true" },
  },
  { group: "scheme", scheme: "internal", isIPv4Only: true, annotations: link },
  {
    group: "scheme",
    scheme: "internal",
    isIPv4Only: true,
    annotations: {
      ...link,
      "azure-pls-name": "link-{name}",
      "azure-pls-ip-configuration-ip-address-count": "2",
      "azure-pls-proxy-protocol": "true",
      "azure-pls-visibility": "*",
    },
  },
  { group: "address", scheme: "public", annotations: { "azure-pip-tags": "team=network" } },
  { group: "address", scheme: "public", annotations: { "azure-dns-label-name": "{name}-{now}" } },
  { group: "address", scheme: "public", annotations: { "azure-pip-ip-tags": "RoutingPreference=Internet" } },
  { group: "address", scheme: "public", isIPv4Only: true, annotations: { "azure-pip-name": `${usersIP}{name}` } },
  { group: "address", scheme: "public", isIPv4Only: true, annotations: { "azure-pip-prefix-id": "{prefix}" } },
  { group: "address", scheme: "public", annotations: { "azure-additional-public-ips": "203.0.113.1{number}" } },
  { group: "address", annotations: { "azure-load-balancer-configurations": "gold" } },
  { group: "timeout", annotations: { "azure-load-balancer-tcp-idle-timeout": "10" } },
  // It is refused, and its user must hear of it.
  { group: "timeout", annotations: { "azure-load-balancer-tcp-idle-timeout": "1" } },
  { group: "rules", annotations: { "azure-load-balancer-disable-tcp-reset": "true" } },
  { group: "rules", annotations: { "azure-disable-load-balancer-floating-ip": "true" } },
  { group: "drain", annotations: { "azure-load-balancer-drain-seconds": "20" } },
  { group: "probe", annotations: { "azure-load-balancer-health-probe-interval": "10" } },
  { group: "probe", annotations: { "azure-load-balancer-health-probe-num-of-probe": "4" } },
  {
    group: "probe",
    annotations: {
      "azure-load-balancer-health-probe-protocol": "http",
      "azure-load-balancer-health-probe-request-path": "/healthz",
    },
  },
];

/** Where Services have Pods, all but one of so many have the nodes of these alone, whatever else they have. */
export const localEvery = 5;

/** Has no divisor in common with the number of features. */
export const stride = 11;

/** The features of a number: half of them stand alone. */
function featuresOf(pick: number, isPossible: (feature: Feature) => boolean): readonly Feature[] {
  const { length } = features;
  const round = Math.floor(pick / length);
  const numbers = round % 2 === 0 ? [pick % length] : [pick % length, (pick * stride + round) % length];
  const [one, other] = numbers.flatMap((number) => features[number] ?? []).filter(isPossible);
  if (one === undefined || other === undefined) return [one ?? other ?? []].flat();
  const fits = one.group !== other.group && (one.scheme ?? other.scheme) === (other.scheme ?? one.scheme);
  return fits ? [one, other] : [one];
}

const combined = (chosen: readonly Feature[]): Shape => ({
  annotations: Object.assign({}, ...chosen.map(({ annotations }) => annotations)),
  spec: Object.assign({}, ...chosen.map(({ spec }) => spec)),
});

/** Of a dual-stack cluster: every fourth Service has IPv6 alone, the others IPv4 or both. The first family stays. */
function families(name: string, isIPv4Only: boolean, isDual: boolean): Partial<Spec> {
  if (Number(name.slice(1)) % 4 === 3) return { ipFamilyPolicy: "SingleStack", ipFamilies: ["IPv6"] };
  if (isIPv4Only || !isDual) return { ipFamilyPolicy: "SingleStack", ipFamilies: ["IPv4"] };
  return { ipFamilyPolicy: "RequireDualStack", ipFamilies: ["IPv4", "IPv6"] };
}

/** The shape of a number for a Service of a cluster: without what only another one has. */
export function shapeOf({ cluster }: World, name: string, pick: number): Shape {
  const isSeveral = Object.keys(cluster.balancers).length > 1;
  const isIPv6 = cluster.dualStack && families(name, true, false).ipFamilies?.[0] === "IPv6";
  const chosen = featuresOf(pick, ({ spec, annotations, isIPv4Only }) => {
    // On one of several load balancers, it has the nodes of its Pods alone: see below.
    if (spec?.externalTrafficPolicy === "Local") return !isSeveral;
    if (annotations?.["azure-load-balancer-configurations"] !== undefined) return isSeveral;
    return !(isIPv6 && isIPv4Only);
  });
  const shape = combined(chosen);
  if (cluster.hasPods && (pick + Number(name.slice(1))) % localEvery > 0)
    return { ...shape, spec: { ...shape.spec, externalTrafficPolicy: "Local" } };
  if (!cluster.dualStack) return shape;
  const isIPv4Only = chosen.some((feature) => feature.isIPv4Only === true);
  const isDual = Math.floor(pick / features.length) % 3 !== 1;
  return { ...shape, spec: { ...shape.spec, ...families(name, isIPv4Only, isDual) } };
}

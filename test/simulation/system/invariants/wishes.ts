import { isIPv6 } from "node:net";

import { annotations, type Service } from "cloud-controller-host/sdk";

import { isTheirs, theirMark } from "../actions/theirs.ts";
import { familiesOf, ruleText } from "../azure-view.ts";
import { deploymentOf } from "../deployments.ts";

/** True for a Service that the product serves. */
export const isBalanced = (service: Service): boolean =>
  service.spec?.type === "LoadBalancer" && service.metadata?.deletionTimestamp === undefined && !isTheirs(service);

export const annotationOf = ({ metadata }: Service, key: string): string | undefined =>
  metadata?.annotations?.[`service.beta.kubernetes.io/${key}`];
const isTrue = (service: Service, key: string): boolean => annotationOf(service, key) === "true";
const listOf = (service: Service, key: string): readonly string[] => annotationOf(service, key)?.split(",") ?? [];

/** The IPv4 address that it asks for. */
export const requestedAddress = (service: Service): string | undefined =>
  annotationOf(service, "azure-load-balancer-ipv4") ?? service.spec?.loadBalancerIP;

export const isInternal = (service: Service): boolean => isTrue(service, "azure-load-balancer-internal");
/** Its traffic reaches nodes under their own addresses. Rules for its own address from before may stay, as upstream. */
export const isDirect = (service: Service): boolean => isTrue(service, "azure-disable-load-balancer-floating-ip");

/** The load-balancing rules of a family that a Service asks for. */
export function wantedRules(service: Service, family: string): readonly string[] {
  const { ports = [], sessionAffinity } = service.spec ?? {};
  const hasAllPorts = isInternal(service) && isTrue(service, "azure-load-balancer-enable-high-availability-ports");
  const hasNoFloatingIP = isInternal(service) && family === "IPv6";
  const common = {
    distribution: sessionAffinity === "ClientIP" ? "SourceIP" : "Default",
    idleMinutes: Number(annotationOf(service, "azure-load-balancer-tcp-idle-timeout") ?? 4),
    resets: !isTrue(service, "azure-load-balancer-disable-tcp-reset"),
    floats: !hasNoFloatingIP && (hasAllPorts || !isDirect(service)),
  };
  if (hasAllPorts) return [ruleText({ ...common, protocol: "All", port: 0 })];
  const served = ports.filter(({ port }) => !isTrue(service, `port_${port}_no_lb_rule`));
  return served.map(({ protocol = "TCP", port }) => ruleText({ ...common, protocol, port })).toSorted();
}

/** What the security group must let through to its address, and nothing else. */
export function wantedOpenings(service: Service): readonly string[] {
  if (isDirect(service) || isTrue(service, "azure-disable-load-balancer-nsg-rule")) return [];
  const { ports = [], loadBalancerSourceRanges = [] } = service.spec ?? {};
  const lists = ["azure-allowed-ip-ranges", "load-balancer-source-ranges", "azure-allowed-service-tags"];
  const given = [...loadBalancerSourceRanges, ...lists.flatMap((key) => listOf(service, key))];
  const sources = given.length > 0 ? given : ["Internet"];
  return ports.flatMap(({ protocol, port }) => sources.map((source) => `${protocol ?? "TCP"} ${port} from ${source}`));
}

/** Addresses of a family that its status shows besides that of its frontend. */
export const additionalAddresses = (service: Service, family: string): readonly string[] =>
  listOf(service, "azure-additional-public-ips").filter((address) => isIPv6(address) === (family === "IPv6"));

/** What a user asks for, without the mark of a deployment that serves it. Patches change the order of keys. */
export const wishOf = ({ metadata, spec }: Service): string =>
  JSON.stringify([
    sorted(metadata?.annotations).filter(([key, value]) => key !== annotations.servedBy || value === theirMark),
    metadata?.labels,
    sorted(spec),
    metadata?.deletionTimestamp,
  ]);

/** Annotations that decide where its frontend is and which address it has. */
const placing = [
  "azure-pip-name",
  "azure-pip-prefix-id",
  "azure-pip-ip-tags",
  "azure-load-balancer-configurations",
  "azure-load-balancer-internal-subnet",
  "azure-load-balancer-ipv4",
] as const;

/**
 * What invariants compare of what a user asks for. A Service that asks for as much as shortly before may look whole while
 * a write from between is still to come, whatever else of its wish has changed.
 */
export const visibleWishOf = (service: Service): string =>
  JSON.stringify([
    isBalanced(service),
    deploymentOf(service),
    isInternal(service),
    placing.map((key) => annotationOf(service, key)),
    service.spec?.loadBalancerIP,
    familiesOf(service).map((family) => [family, wantedRules(service, family), additionalAddresses(service, family)]),
    wantedOpenings(service),
  ]);

const sorted = (object: object = {}) => Object.entries(object).toSorted(([one], [other]) => one.localeCompare(other));

import { lastSegment, sameName, startsWithName } from "../../arm/resource-id.ts";
import { limits } from "./limits.ts";
import type { Family } from "./model.ts";

const ipv6Suffix = "-IPv6";
/** Names end here, so that the suffix fits. */
const maxLength = limits.nameLength - ipv6Suffix.length;
export const sharedProbeName = "cluster-service-shared-health-probe";
export const internalSuffix = "-internal";

/** The parts of a Service that its resource names are made of. */
export interface Named {
  /** `a` and the UID without hyphens, 32 characters at most. */
  readonly base: string;
  /** Subnet annotation of an internal Service. */
  readonly subnet: string | undefined;
  readonly dualStack: boolean;
}

/** Only resources of dual-stack Services carry the suffix; an IPv6-only Service has none. */
const suffixOf = ({ dualStack }: Pick<Named, "dualStack">, family: Family): string =>
  dualStack && family === "IPv6" ? ipv6Suffix : "";

/** Source: upstream `getDefaultFrontendIPConfigName`. */
export function frontendName(named: Named, family: Family): string {
  return nameWithSubnet(named) + suffixOf(named, family);
}

function nameWithSubnet({ base, subnet }: Named): string {
  if (subnet === undefined) return base;
  const full = `${base}-${subnet}`;
  if (full.length <= maxLength) return full;
  const cut = full.slice(0, maxLength);
  return /[\p{L}_]$/u.test(cut) ? cut : `${cut.slice(0, -1)}_`;
}

/** Name of a rule and of its probe; only the subnet's part is cut. Source: upstream `getLoadBalancerRuleName`. */
export function ruleName(named: Named, protocol: string, port: number, family: Family): string {
  const end = `${protocol}-${port}`;
  const room = maxLength - named.base.length - end.length - 2;
  const middle = named.subnet === undefined ? "" : `${named.subnet.slice(0, room)}-`;
  return `${named.base}-${middle}${end}${suffixOf(named, family)}`;
}

export const poolName = (clusterName: string, family: Family): string =>
  family === "IPv6" ? `${clusterName}${ipv6Suffix}` : clusterName;

/** Pool of a Service with `externalTrafficPolicy: Local` on one of several load balancers. */
export const localPoolName = (serviceKey: string, family: Family): string =>
  serviceKey.replace("/", "-").toLowerCase() + (family === "IPv6" ? ipv6Suffix.toLowerCase() : "");

/** Pools that this provider fills; load balancers with other pools are never deleted. */
export const isClusterPool = (name: string, clusterName: string): boolean =>
  sameName(name, poolName(clusterName, "IPv4")) || sameName(name, poolName(clusterName, "IPv6"));

export const isIPv6Name = (name: string): boolean => name.toLowerCase().endsWith(ipv6Suffix.toLowerCase());

/** Name of the public IP that is created for a Service. Source: upstream `getPublicIPName`. */
export function publicIPName(clusterName: string, named: Named, family: Family, prefixId: string): string {
  const name = `${clusterName}-${named.base}${prefixId === "" ? "" : `-${lastSegment(prefixId)}`}`;
  return name.slice(0, maxLength) + suffixOf(named, family);
}

/** True if `publicIPName` gives such a name, for whatever prefix and family. */
export const isPublicIPNameOf = (clusterName: string, base: string, name: string): boolean =>
  startsWithName(name, `${clusterName}-${base}`.slice(0, maxLength));

/** True if a rule, probe or frontend name belongs to the Service of the base name. */
export const hasBase = (name: string | undefined, base: string): boolean =>
  name !== undefined && (name.length === base.length || name[base.length] === "-") && name.startsWith(base);

/** As `hasBase`, in any case: rules and probes are compared like that. */
export const hasBaseInAnyCase = (name: string | undefined, base: string): boolean =>
  name !== undefined && (name.length === base.length || name[base.length] === "-") && startsWithName(name, base);

/** Frontends that this provider created, for whichever Service, have such a name. */
export const isServiceFrontend = (name: string | undefined): boolean => /^a[0-9a-f]{31}(-|$)/iu.test(name ?? "");

/** A load balancer's kind is decided by its name. */
export const isInternalName = (name: string): boolean => name.toLowerCase().endsWith(internalSuffix);

export const withoutInternal = (name: string): string =>
  (isInternalName(name) ? name.slice(0, -internalSuffix.length) : name).toLowerCase();

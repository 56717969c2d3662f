import type { FrontendIPConfiguration, Subnet } from "@azure/arm-network";

import { canonicalAddress, familyOf, parsePrefix, prefixContains, sameAddress } from "../../model/addresses.ts";
import { childId, sameId } from "../../model/ids.ts";
import type { Family } from "../../model/model.ts";
import { frontendName, hasBase, isIPv6Name, isServiceFrontend } from "../../model/names.ts";
import { type Subject, wantedAddress, wantedAddresses, wantedPublicIP } from "../../service/subject.ts";
import { type Balancer, frontendsWith, namedFor } from "./edits.ts";

export type Frontend = Readonly<FrontendIPConfiguration>;

/** The address desired for a frontend of one family. */
export type FrontendTarget =
  | { readonly kind: "public"; readonly publicIPId: string }
  | { readonly kind: "private"; readonly subnet: Readonly<Subnet> };

/** True if the Service created the frontend. Frontend names compare case-sensitively, as upstream. */
export const isPrimary = (frontend: Frontend, { base }: Subject): boolean => hasBase(frontend.name, base);

const isOfFamily = (name: string | undefined, { dualStack }: Subject, family: Family): boolean =>
  !dualStack || isIPv6Name(name ?? "") === (family === "IPv6");

/**
 * Frontends that the Service uses for a family: its own by name, and those of other Services that have the public IP or
 * private address which it asks for, or the public IP that is its own. Source: upstream `serviceOwnsFrontend`, which leaves
 * out the last ones: ARM would refuse the Service a frontend of its own for as long as the other one has it.
 */
export function frontendsOf(
  balancer: Balancer,
  subject: Subject,
  family: Family,
  target: FrontendTarget,
): readonly Frontend[] {
  const own = namedFor(balancer.frontendIPConfigurations, subject.base);
  return [
    ...own.filter((frontend) => isPrimary(frontend, subject) && isOfFamily(frontend.name, subject, family)),
    ...addressed(balancer, subject, family, target).filter((frontend) => !isPrimary(frontend, subject)),
  ];
}

/** Frontends with the public IP of the target, or the private address that the Service requests. */
function addressed(balancer: Balancer, subject: Subject, family: Family, target: FrontendTarget): readonly Frontend[] {
  if (target.kind === "private") {
    const address = wantedAddress(subject, family);
    const { frontendIPConfigurations: all = [] } = balancer;
    return address === "" ? [] : all.filter(({ privateIPAddress }) => sameAddress(privateIPAddress, address));
  }
  const found = target.publicIPId === "" ? [] : frontendsWith(balancer, target.publicIPId);
  const isChosen = wantedAddresses(subject).length > 0 || wantedPublicIP(subject, family) !== "";
  return isChosen ? found : found.filter(({ name }) => isServiceFrontend(name));
}

/** True if a frontend must be replaced to become the one that the Service wants. Source: upstream `isFrontendIPChanged`. */
export function isChanged(frontend: Frontend, subject: Subject, family: Family, target: FrontendTarget): boolean {
  if (frontend.name !== frontendName(subject, family)) return isPrimary(frontend, subject);
  if (target.kind === "public")
    return frontend.publicIPAddress?.id !== undefined && !sameId(frontend.publicIPAddress.id, target.publicIPId);
  if (subject.subnet !== undefined && !sameId(frontend.subnet?.id, target.subnet.id)) return true;
  const address = wantedAddress(subject, family);
  return address !== "" && !sameAddress(frontend.privateIPAddress, address);
}

/** A single-stack IPv6 Service and the IPv4 half of a dual-stack one have frontends of one name; none changes its family. */
export const isOfOtherFamily = (balancer: Balancer | undefined, subject: Subject, family: Family): boolean =>
  namedFor(balancer?.frontendIPConfigurations, subject.base).some(
    ({ name, subnet, privateIPAddressVersion = "IPv4" }) =>
      name === frontendName(subject, family) && subnet !== undefined && privateIPAddressVersion !== family,
  );

interface NewFrontend {
  readonly balancer: Balancer;
  readonly balancerId: string;
  readonly zones: readonly string[];
  /** The frontend that it replaces. */
  readonly replaced: Frontend | undefined;
}

/** A frontend has its id before it exists, so that rules of the same write can refer to it. */
export function newFrontend(subject: Subject, family: Family, target: FrontendTarget, about: NewFrontend): Frontend {
  const name = frontendName(subject, family);
  const common = { name, id: childId(about.balancerId, "frontendIPConfigurations", name) };
  if (target.kind === "public") return { ...common, publicIPAddress: { id: target.publicIPId } };
  const address = privateAddress(subject, family, target.subnet, about.balancer);
  const zones = about.replaced === undefined ? about.zones : about.replaced.zones;
  return {
    ...common,
    ...(zones !== undefined && zones.length > 0 && { zones: [...zones] }),
    subnet: reducedSubnet(target.subnet),
    ...(family === "IPv6" && { privateIPAddressVersion: family }),
    ...(address === undefined
      ? { privateIPAllocationMethod: "Dynamic" }
      : { privateIPAllocationMethod: "Static", privateIPAddress: address }),
  };
}

/** Only id and name of a frontend's subnet are written. */
export const reducedSubnet = ({ id, name }: Readonly<Subnet>): Subnet => ({
  ...(id !== undefined && { id }),
  ...(name !== undefined && { name }),
});

/** The address asked for, else the one that the Service had, if the subnet still has it; else Azure chooses. */
function privateAddress(
  subject: Subject,
  family: Family,
  subnet: Readonly<Subnet>,
  balancer: Balancer,
): string | undefined {
  const wanted = wantedAddress(subject, family);
  if (wanted !== "") return canonicalAddress(wanted);
  const taken = (balancer.frontendIPConfigurations ?? []).map(({ privateIPAddress }) => privateIPAddress);
  return subject.service.status?.loadBalancer?.ingress
    ?.flatMap(({ ip }) => ip ?? [])
    .find(
      (ip) => familyOf(ip) === family && isInSubnet(subnet, ip) && !taken.some((address) => sameAddress(address, ip)),
    );
}

const prefixesOf = ({ addressPrefix, addressPrefixes }: Readonly<Subnet>): readonly string[] =>
  addressPrefixes ?? (addressPrefix === undefined ? [] : [addressPrefix]);

const isInSubnet = (subnet: Readonly<Subnet>, address: string): boolean =>
  prefixesOf(subnet).some((text) => {
    const prefix = parsePrefix(text);
    return prefix !== undefined && prefixContains(prefix, address);
  });

/** Why a private frontend of the family cannot be in the subnet. */
export function subnetProblem(subject: Subject, family: Family, subnet: Readonly<Subnet>): string | undefined {
  const prefixes = prefixesOf(subnet);
  const address = wantedAddress(subject, family);
  if (address === "" || prefixes.length === 0 || isInSubnet(subnet, address)) return undefined;
  return `address ${address} is not in subnet ${subnet.name ?? subnet.id} (${prefixes.join(", ")})`;
}

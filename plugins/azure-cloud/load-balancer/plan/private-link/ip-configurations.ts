import type { PrivateLinkServiceIpConfiguration, Subnet } from "@azure/arm-network";

import { sameId } from "../../model/ids.ts";
import { limits } from "../../model/limits.ts";
import { annotations } from "../../service/annotations.ts";
import type { Subject } from "../../service/subject.ts";

const { nameLength: maxNameLength } = limits;

/** IP configurations: static addresses first, dynamic ones up to the count. Source: upstream `reconcilePLSIpConfigs`. */
export function desiredIPConfigurations(
  subject: Subject,
  link: string,
  subnet: Readonly<Subnet>,
): readonly PrivateLinkServiceIpConfiguration[] {
  const addresses = subject.settings.get(annotations.plsAddresses);
  const count = subject.settings.get(annotations.plsCount) ?? 1;
  const common = { privateIPAddressVersion: "IPv4", ...(subnet.id !== undefined && { subnet: { id: subnet.id } }) };
  const statics = addresses.map((privateIPAddress, index) => ({
    ...common,
    name: named(`${subnet.name}-${link}`, `-static-${privateIPAddress}`),
    privateIPAddress,
    privateIPAllocationMethod: "Static",
    primary: index === 0,
  }));
  const dynamics = Array.from({ length: Math.max(0, count - addresses.length) }, (_, index) => ({
    ...common,
    name: named(`${subnet.name}-${link}`, `-dynamic-${index}`),
    privateIPAllocationMethod: "Dynamic",
    primary: addresses.length === 0 && index === 0,
  }));
  return [...statics, ...dynamics];
}

const named = (start: string, end: string): string => start.slice(0, maxNameLength - end.length) + end;

/** Names make no difference; subnet, static addresses and which one is primary do. */
export function sameIPConfigurations(
  present: readonly PrivateLinkServiceIpConfiguration[] | undefined,
  desired: readonly PrivateLinkServiceIpConfiguration[],
): boolean {
  if (present?.length !== desired.length) return false;
  const subnet = desired[0]?.subnet?.id;
  const keys = (list: readonly PrivateLinkServiceIpConfiguration[]): string =>
    list
      .map(({ privateIPAllocationMethod, privateIPAddress, primary }) =>
        privateIPAllocationMethod === "Static"
          ? `${privateIPAddress} ${primary ?? false}`
          : `dynamic ${primary ?? false}`,
      )
      .toSorted()
      .join();
  return present.every((one) => sameId(one.subnet?.id, subnet)) && keys(present) === keys(desired);
}

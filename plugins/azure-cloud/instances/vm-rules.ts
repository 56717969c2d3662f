import { CodedError } from "cloud-controller-host/sdk";

import type { InterfaceRecord, InterfaceReference, IPConfigurationRecord } from "./records.ts";

/** Upstream's rules for the fields of a VM, the same for every kind. */

/** `<region>-<n>` for a VM in a zone, otherwise its fault domain as text; undefined without either. */
export function zoneOf(
  vm: { readonly location: string; readonly zone: string | undefined },
  faultDomain: number | undefined,
): string | undefined {
  if (vm.zone === undefined) return faultDomain?.toString();
  if (!/^\d+$/u.test(vm.zone))
    throw new CodedError("IncompleteVM", `failed to parse zone "${vm.zone}": it is not a number`);
  return `${vm.location.toLowerCase()}-${Number(vm.zone)}`;
}

export const noZone = (id: string): CodedError =>
  new CodedError("IncompleteVM", `failed to get zone info of ${id}: it has neither a zone nor a fault domain`);

const shutDownStates = new Set(["stopped", "deallocated", "deallocating"]);

/** A VM that is being created or updated is not shut down, whatever its power state. */
export const isShutDown = (vm: { readonly provisioningState: string; readonly powerState: string }): boolean =>
  vm.provisioningState.toLowerCase() === "succeeded" && shutDownStates.has(vm.powerState);

/** Ignores a cached VM that is being deleted: a newer list may have its successor of the same name. */
export const unlessDeleting = <Row extends { readonly provisioningState: string }>(row: Row | undefined) =>
  row === undefined || isDeleting(row) ? undefined : row;

export const isDeleting = (vm: { readonly provisioningState: string }): boolean =>
  vm.provisioningState.toLowerCase() === "deleting";

/** The only interface, or the one that is marked as primary. */
export const findPrimary = (references: readonly InterfaceReference[]): InterfaceReference | undefined =>
  references.length === 1 ? references[0] : references.find(({ primary }) => primary);

export function primaryInterface(references: readonly InterfaceReference[], vmId: string): InterfaceReference {
  const primary = findPrimary(references);
  if (primary === undefined)
    throw new CodedError("IncompleteVM", `failed to find a primary network interface of ${vmId}`);
  return primary;
}

/** The only ip configuration, or the one that is marked as primary. */
export const findPrimaryConfiguration = ({ ipConfigurations }: InterfaceRecord): IPConfigurationRecord | undefined =>
  ipConfigurations.length === 1 ? ipConfigurations[0] : ipConfigurations.find(({ primary }) => primary);

export function primaryConfiguration(nic: InterfaceRecord): IPConfigurationRecord {
  const primary = findPrimaryConfiguration(nic);
  if (primary === undefined)
    throw new CodedError("IncompleteVM", `failed to determine the primary ip configuration of ${nic.id}`);
  return primary;
}

const maskTags = { ipv4: "kubernetesNodeCIDRMaskIPV4", ipv6: "kubernetesNodeCIDRMaskIPV6" } as const;

/** Prefix lengths from a set's tags; 0 where the tag is missing or not a number. Without a set, the standard sizes. */
export function masksOf(tags: Readonly<Record<string, string>> | undefined): {
  readonly ipv4: number;
  readonly ipv6: number;
} {
  if (tags === undefined) return { ipv4: 24, ipv6: 64 };
  const mask = (tag: string): number => {
    const value = tags[tag];
    return value !== undefined && /^[+-]?\d+$/u.test(value) ? Number(value) : 0;
  };
  return { ipv4: mask(maskTags.ipv4), ipv6: mask(maskTags.ipv6) };
}

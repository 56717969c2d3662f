import { CodedError } from "cloud-controller-host/sdk";

import type { InterfaceRecord, InterfaceReference, IPConfigurationRecord } from "./records.ts";

/** Upstream's rules for what a machine's fields mean to Kubernetes; the same for every kind of machine. */

/** `<region>-<n>` for a machine in a zone, else its fault domain as text; undefined when the cloud says neither. */
export function zoneOf(
  machine: { readonly location: string; readonly zone: string | undefined },
  faultDomain: number | undefined,
): string | undefined {
  if (machine.zone === undefined) return faultDomain?.toString();
  if (!/^\d+$/u.test(machine.zone))
    throw new CodedError("MalformedZone", `failed to parse zone "${machine.zone}": it is not a number`);
  return `${machine.location.toLowerCase()}-${Number(machine.zone)}`;
}

export const noZone = (id: string): CodedError =>
  new CodedError("NoZone", `failed to get zone info of ${id}: it has neither a zone nor a fault domain`);

const shutDownStates = new Set(["stopped", "deallocated", "deallocating"]);

/** A machine that is being made or changed is not shut down, whatever its power state says. */
export const isShutDown = (machine: { readonly provisioningState: string; readonly powerState: string }): boolean =>
  machine.provisioningState.toLowerCase() === "succeeded" && shutDownStates.has(machine.powerState);

export const isDeleting = (machine: { readonly provisioningState: string }): boolean =>
  machine.provisioningState.toLowerCase() === "deleting";

/** The only interface, or the one that is marked as primary. */
export function primaryInterface(references: readonly InterfaceReference[], machineId: string): InterfaceReference {
  const [only] = references;
  const primary = references.length === 1 ? only : references.find((reference) => reference.primary);
  if (primary === undefined)
    throw new CodedError("NoPrimaryInterface", `failed to find a primary network interface of ${machineId}`);
  return primary;
}

/** The only ip configuration, or the one that is marked as primary. */
export function primaryConfiguration(nic: InterfaceRecord): IPConfigurationRecord {
  const [only] = nic.ipConfigurations;
  const primary =
    nic.ipConfigurations.length === 1 ? only : nic.ipConfigurations.find((configuration) => configuration.primary);
  if (primary === undefined)
    throw new CodedError("NoPrimaryConfiguration", `failed to determine the primary ip configuration of ${nic.id}`);
  return primary;
}

const maskTags = { ipv4: "kubernetesNodeCIDRMaskIPV4", ipv6: "kubernetesNodeCIDRMaskIPV6" } as const;

/** Prefix lengths from a set's tags; 0 where the tag is missing or not a number. */
export function masksOf(tags: Readonly<Record<string, string>>): { readonly ipv4: number; readonly ipv6: number } {
  const mask = (tag: string): number => {
    const value = tags[tag];
    return value !== undefined && /^[+-]?\d+$/u.test(value) ? Number(value) : 0;
  };
  return { ipv4: mask(maskTags.ipv4), ipv6: mask(maskTags.ipv6) };
}

/** What counts when a node's set cannot be found. */
export const standardMasks = { ipv4: 24, ipv6: 64 } as const;

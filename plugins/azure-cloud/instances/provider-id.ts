import { CodedError, type Node } from "cloud-controller-host/sdk";

import { parseArmPath, sameName, siblingId } from "../arm/resource-id.ts";

const scheme = "azure://";

/** The parts of a VM's provider ID, in this order. */
const managedParts = ["azure:///subscriptions/", "/resourceGroups/", "/providers/Microsoft.Compute/"] as const;

/**
 * upstream: the test of a provider ID, case-sensitive. An ID that does not match is not a VM of Azure. A kubelet chooses
 * it, of up to a megabyte, for which a regular expression would take minutes.
 */
export function isManagedProviderID(providerID: string): boolean {
  let end = 0;
  for (const part of managedParts) {
    const at = providerID.indexOf(part, end);
    if (at < 0 || (end === 0 && at > 0)) return false;
    end = at + part.length;
  }
  return !providerID.slice(0, end).includes("\n");
}

const vmIdPattern = /^\/subscriptions\/([^/]+)\/resourceGroups\/([^/]+)\/providers\/Microsoft\.Compute\/(.+)$/iu;

/**
 * `azure://` and the ARM id, with only the resource group in lower case. ARM may spell the other parts in any case, but a
 * node whose provider ID has them in another one would not be a VM of Azure, for good.
 */
export function providerIDOf(armId: string): string {
  const [, subscription, group, rest] = vmIdPattern.exec(armId) ?? [];
  if (subscription === undefined || group === undefined || rest === undefined)
    throw new CodedError("InvalidResourceID", `"${armId}" is not the id of a VM`);
  const [subscriptions, groups, compute] = managedParts;
  return `${subscriptions}${subscription}${groups}${group.toLowerCase()}${compute}${rest}`;
}

/** ARM id of the VM behind a node; undefined before the node has a provider ID of Azure. */
export function vmIdOf({ spec: { providerID = "" } = {} }: Node): string | undefined {
  return providerID.toLowerCase().startsWith(scheme) ? providerID.slice(scheme.length) : undefined;
}

/** Id of the uniform scale set of an instance; undefined for any other VM. */
export function scaleSetIdOf(vmId: string): string | undefined {
  const path = parseArmPath(vmId);
  if (path?.type.toLowerCase() !== "virtualmachinescalesets/virtualmachines") return undefined;
  return siblingId(path, "Microsoft.Compute/virtualMachineScaleSets", path.names[0] ?? "");
}

/** An instance of a uniform scale set, or a network interface that is a resource itself. */
type ConfigurationOwner =
  | { readonly kind: "instance"; readonly id: string; readonly scaleSetId: string }
  | { readonly kind: "interface"; readonly id: string };

/** The owner of an IP configuration, by the configuration's id; undefined for an id of another kind. */
export function ownerOf(ipConfigurationId: string): ConfigurationOwner | undefined {
  const path = parseArmPath(ipConfigurationId);
  if (path === undefined) return undefined;
  const type = path.type.toLowerCase();
  const [first = "", second = ""] = path.names;
  if (type.startsWith("virtualmachinescalesets/virtualmachines/networkinterfaces")) {
    const scaleSetId = siblingId(path, "Microsoft.Compute/virtualMachineScaleSets", first);
    return { kind: "instance", id: `${scaleSetId}/virtualMachines/${second}`, scaleSetId };
  }
  if (type.startsWith("networkinterfaces"))
    return { kind: "interface", id: siblingId(path, "Microsoft.Network/networkInterfaces", first) };
  return undefined;
}

/** The parts of a provider ID. */
export interface VmName {
  readonly subscription: string;
  readonly resourceGroup: string;
  /** Set for an instance of a uniform scale set. */
  readonly scaleSet?: string;
  /** Instance id in its scale set, or the name of the virtual machine. */
  readonly name: string;
}

/** Splits a provider ID of Azure's form; throws for one that does not name a VM. */
export function parseProviderID(providerID: string): VmName {
  const path = parseArmPath(providerID.slice(scheme.length));
  const [first, second] = path?.names ?? [];
  const type = path?.type.toLowerCase();
  if (path?.resourceGroup !== undefined && first !== undefined) {
    const { subscription, resourceGroup } = path;
    if (type === "virtualmachines") return { subscription, resourceGroup, name: first };
    if (type === "virtualmachinescalesets/virtualmachines" && second !== undefined)
      return { subscription, resourceGroup, scaleSet: first, name: instanceIdOf(first, second) };
  }
  throw notAVirtualMachine(providerID);
}

/** upstream's words. */
export const notAVirtualMachine = (providerID: string): CodedError =>
  new CodedError("InvalidProviderID", `error splitting providerID "${providerID}": it does not name a virtual machine`);

/** The same for a VM in this config's subscription; nothing is known of VMs in another one. */
export function parseOwn(providerID: string, subscription: string): VmName {
  const vm = parseProviderID(providerID);
  if (sameName(vm.subscription, subscription)) return vm;
  throw new CodedError(
    "OtherSubscription",
    `providerID "${providerID}" is in another subscription than this config's (${subscription})`,
  );
}

/** Some tools write `<scale set>_<instance id>` for the instance id. */
const instanceIdOf = (scaleSet: string, segment: string): string =>
  segment.toLowerCase().startsWith(`${scaleSet.toLowerCase()}_`) ? segment.slice(scaleSet.length + 1) : segment;

const suffixLength = 6;
const suffixPattern = /^[0-9a-z]{6}$/iu;

/** The parts of a scale set's computer name: the prefix, and the instance id from its last six digits in base 36. */
export function parseComputerName(
  nodeName: string,
): { readonly prefix: string; readonly instanceId: string } | undefined {
  const suffix = nodeName.slice(-suffixLength);
  if (!suffixPattern.test(suffix)) return undefined;
  return { prefix: nodeName.slice(0, -suffixLength), instanceId: String(Number.parseInt(suffix, 36)) };
}

/** True for an instance of a uniform scale set. */
export const namesInstance = (providerID: string): boolean =>
  /\/virtualMachineScaleSets\/[^/]+\/virtualMachines\//iu.test(providerID);

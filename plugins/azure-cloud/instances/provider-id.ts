import { CodedError } from "cloud-controller-host/sdk";

import { parseArmPath, sameName } from "../arm/resource-id.ts";

const scheme = "azure://";

/** Upstream's test of a provider ID, case included: what does not match it is somebody else's machine. */
const managedPattern = /^azure:\/\/\/subscriptions\/.*\/resourceGroups\/.*\/providers\/Microsoft\.Compute\/.*/u;
export const isManagedProviderID = (providerID: string): boolean => managedPattern.test(providerID);

const groupPattern = /^(.*?\/resourceGroups\/)([^/]+)(\/providers\/.*)$/iu;

/** `azure://` and the ARM id, with only the resource group in lower case. */
export function providerIDOf(armId: string): string {
  const [, before, group, after] = groupPattern.exec(armId) ?? [];
  if (group === undefined) throw new CodedError("MalformedID", `"${armId}" is not the id of a machine`);
  return `${scheme}${before}${group.toLowerCase()}${after}`;
}

/** A machine as its provider ID names it. */
export interface MachineName {
  readonly subscription: string;
  readonly resourceGroup: string;
  /** Set for an instance of a uniform scale set. */
  readonly scaleSet?: string;
  /** Instance id in its scale set, or the name of the virtual machine. */
  readonly name: string;
}

/** Rejects a provider ID of Azure's form that names no machine. */
export function parseProviderID(providerID: string): MachineName {
  const path = parseArmPath(providerID.slice(scheme.length));
  const [first, second] = path?.names ?? [];
  const type = path?.type.toLowerCase();
  if (path?.resourceGroup !== undefined && !path.collection && first !== undefined) {
    const { subscription, resourceGroup } = path;
    if (type === "virtualmachines") return { subscription, resourceGroup, name: first };
    if (type === "virtualmachinescalesets/virtualmachines" && second !== undefined)
      return { subscription, resourceGroup, scaleSet: first, name: instanceIdOf(first, second) };
  }
  throw new CodedError("MalformedID", `error splitting providerID "${providerID}": it names no virtual machine`);
}

/** The same for a machine that must be in this config's subscription: of another one nothing can be said. */
export function parseOwn(providerID: string, subscription: string): MachineName {
  const machine = parseProviderID(providerID);
  if (sameName(machine.subscription, subscription)) return machine;
  throw new CodedError(
    "OtherSubscription",
    `providerID "${providerID}" is in another subscription than this config's (${subscription})`,
  );
}

/** Some tools write `<scale set>_<instance id>` where the instance id belongs. */
const instanceIdOf = (scaleSet: string, segment: string): string =>
  segment.toLowerCase().startsWith(`${scaleSet.toLowerCase()}_`) ? segment.slice(scaleSet.length + 1) : segment;

const suffixLength = 6;
const suffixPattern = /^[0-9a-z]{6}$/iu;

/** What a node name says about its place in a scale set: the name's start, and its last six digits in base 36. */
export function parseComputerName(
  nodeName: string,
): { readonly prefix: string; readonly instanceId: string } | undefined {
  const suffix = nodeName.slice(-suffixLength);
  if (nodeName.length < suffixLength || !suffixPattern.test(suffix)) return undefined;
  return { prefix: nodeName.slice(0, -suffixLength), instanceId: String(Number.parseInt(suffix, 36)) };
}

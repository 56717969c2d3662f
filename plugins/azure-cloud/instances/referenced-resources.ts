import type { Subnet } from "@azure/arm-network";
import { type CloudContext, CodedError, type Logger, messageOf, ProblemsError } from "cloud-controller-host/sdk";

import type { ArmClients } from "../arm/clients.ts";
import { ArmError } from "../arm/errors.ts";
import { sameName } from "../arm/resource-id.ts";
import { abandonable } from "../arm/transport/signals.ts";
import type { AzureConfig } from "../config/decode.ts";
import type { ScaleSetCatalog } from "./scale-set-reads.ts";
import { vmTypes } from "./vm-types.ts";

const limitMs = 10_000;

/** A resource that the config names and that does not exist. */
interface Problem {
  readonly text: string;
  /** The keys that lead to it. Absent where nothing works without it. */
  readonly keys?: readonly (keyof AzureConfig)[];
}

const scaleSetKeys = ["subscriptionId", "resourceGroup", "vmType", "primaryScaleSetName"] as const;
const subnetKeys = [
  "subscriptionId",
  "networkResourceSubscriptionID",
  "resourceGroup",
  "vnetResourceGroup",
  "vnetName",
  "subnetName",
] as const;

/**
 * Checks that the subscription, the resource group, the primary scale set and the subnet of the config exist. A reload
 * that leads to a missing one is refused: the running generation is better than one that fails for every node. A primary
 * scale set or a subnet that the running generation misses, too, keeps no reload from its new secret: it is logged, and so
 * are all problems at the start, where there is nothing to keep. Only ARM's own 404 is a problem; any other failure of
 * these reads leaves the question open.
 */
export async function checkReferencedResources(
  config: AzureConfig,
  parts: { readonly clients: ArmClients; readonly scaleSets: ScaleSetCatalog },
  { changedKeys, generation, log, signal }: Pick<CloudContext, "changedKeys" | "generation" | "log" | "signal">,
): Promise<void> {
  const limit = AbortSignal.any([signal, AbortSignal.timeout(limitMs)]);
  const checks = [() => scaleSetProblems(config, parts.scaleSets), () => subnetProblems(config, parts.clients, log)];
  const results = await Promise.allSettled(checks.map((check) => abandonable(check, limit)));
  signal.throwIfAborted();
  const problems: Problem[] = [];
  for (const result of results) if (result.status === "fulfilled") problems.push(...result.value);
  const failed = results.find((result) => result.status === "rejected");
  if (failed !== undefined)
    log.warn("Unable to check that all resources of the cloud config exist", { error: failed.reason });
  if (problems.length === 0) return;
  const texts = problems.map(({ text }) => text);
  if (generation > 1 && problems.some((problem) => isNew(problem, changedKeys)))
    throw new ProblemsError("the cloud config names resources that do not exist", texts);
  for (const text of texts) log.error(`The cloud config names a resource that does not exist: ${text}`);
}

/** False for what the running generation misses, too. */
function isNew({ keys }: Problem, changedKeys: readonly string[] | undefined): boolean {
  if (keys === undefined || changedKeys === undefined) return true;
  const changed = new Set(changedKeys.map((key) => key.toLowerCase()));
  return keys.some((key) => changed.has(key.toLowerCase()));
}

async function scaleSetProblems(config: AzureConfig, catalog: ScaleSetCatalog): Promise<readonly Problem[]> {
  const { resourceGroup, subscriptionId, primaryScaleSetName: primary } = config;
  const scaleSets = await problemOf404(catalog.inGroup(resourceGroup).get("cached"), {
    SubscriptionNotFound: `subscriptionId: subscription ${subscriptionId} does not exist or is not visible to the identity`,
  });
  if (typeof scaleSets === "string") return [{ text: scaleSets }];
  if (catalog.isMissing(resourceGroup))
    return [{ text: `resourceGroup: ${resourceGroup} does not exist in subscription ${subscriptionId}` }];
  const isScaleSet = vmTypes[config.vmType].primarySetKey === "primaryScaleSetName";
  if (!isScaleSet || primary === "" || scaleSets.some(({ name }) => sameName(name, primary))) return [];
  const text = `primaryScaleSetName: scale set ${primary} does not exist in resource group ${resourceGroup}`;
  return [{ text, keys: scaleSetKeys }];
}

async function subnetProblems(config: AzureConfig, clients: ArmClients, log: Logger): Promise<readonly Problem[]> {
  const { vnetName, subnetName } = config;
  if (vnetName === "" || subnetName === "") return [];
  const group = config.vnetResourceGroup || config.resourceGroup;
  const notFound = `subnetName: subnet ${subnetName} of virtual network ${vnetName} does not exist in resource group ${group}`;
  const subnet = await problemOf404(clients.network.subnets.get(group, vnetName, subnetName), {
    NotFound: notFound,
    ResourceNotFound: notFound,
    ParentResourceNotFound: notFound,
    ResourceGroupNotFound: `vnetResourceGroup: ${group} does not exist`,
  });
  if (typeof subnet === "string") return [{ text: subnet, keys: subnetKeys }];
  if (!(await hasWayOut(subnet, config, clients)))
    log.warn(
      "Nodes may not reach the internet: the subnet has no default outbound access and no NAT gateway, and no load balancer has an outbound rule; add one of them, unless a route leads to a firewall",
      { subnet: subnetName, virtualNetwork: vnetName },
    );
  return [];
}

/** Azure gives new subnets no default outbound access. A rule without disabled SNAT is a way out, too. */
async function hasWayOut(
  { defaultOutboundAccess, natGateway }: Subnet,
  config: AzureConfig,
  { network }: ArmClients,
): Promise<boolean> {
  if (defaultOutboundAccess !== false || natGateway !== undefined) return true;
  const group = config.loadBalancerResourceGroup || config.resourceGroup;
  for await (const {
    outboundRules = [],
    loadBalancingRules = [],
    frontendIPConfigurations = [],
  } of network.loadBalancers.list(group)) {
    const isPublic = frontendIPConfigurations.some(({ publicIPAddress }) => publicIPAddress !== undefined);
    const translates = loadBalancingRules.some(({ disableOutboundSnat }) => disableOutboundSnat !== true);
    if (outboundRules.length > 0 || (isPublic && translates)) return true;
  }
  return false;
}

/** The problem for the code of a 404, or the result. */
async function problemOf404<Value>(
  read: PromiseLike<Value>,
  problems: Readonly<Record<string, string>>,
): Promise<Value | string> {
  try {
    return await read;
  } catch (error) {
    const problem = error instanceof ArmError && error.status === 404 ? problems[error.code] : undefined;
    if (problem !== undefined) return problem;
    throw new CodedError("CheckFailed", messageOf(error), { cause: error });
  }
}

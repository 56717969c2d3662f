import type { Subnet } from "@azure/arm-network";
import { type CloudContext, keyOf, kinds } from "cloud-controller-host/sdk";

import type { ArmClients } from "../../../arm/clients.ts";
import { ArmError, unlessAbsent } from "../../../arm/errors.ts";
import { groupOf } from "../../../arm/resource-id.ts";
import { serviceOf } from "../../../endpoint-slices.ts";
import type { NeededReads, Observed, ServiceIntent } from "../../model/model.ts";
import { isServiceFrontend, localPoolName } from "../../model/names.ts";
import type { PlannerConfig } from "../../model/planner-config.ts";
import { annotations } from "../../service/annotations.ts";
import { readSubject, type Subject } from "../../service/subject.ts";

/** Effects of the latest writes that a read does not show. */
export interface Known {
  /** Resource groups of public IPs whose frontends may be removed already. The present ones are added. */
  readonly groups: Set<string>;
  /** Lower-case ids of pools that were created for them. */
  readonly createdPools: Set<string>;
}

export const nothingKnown = (): Known => ({ groups: new Set(), createdPools: new Set() });

/** Resource groups, subnets and namespaces that `plan` looks into for the Services. */
export function neededReads(intents: readonly ServiceIntent[], config: PlannerConfig): NeededReads {
  const subjects = intents.map(({ service }) => readSubject(service, config).subject);
  const ensured = subjects.filter((_, index) => intents[index]?.action === "ensure");
  const linkGroups = subjects.map(({ settings }) => settings.get(annotations.plsResourceGroup));
  return {
    publicIPResourceGroups: groups([config.resourceGroup, ...subjects.map(({ publicIPGroup }) => publicIPGroup)]),
    privateLinkResourceGroups: groups([config.privateLinkResourceGroup, ...linkGroups]),
    subnets: [...new Set(ensured.flatMap((subject) => subnetsOf(subject, config)))],
    namespaces: config.loadBalancers.some((one) => one.serviceNamespaceSelector !== undefined)
      ? [...new Set(ensured.map(({ service }) => service.metadata?.namespace ?? ""))]
      : [],
  };
}

/** Zones of a frontend that this cluster has created: a region has several zones, or none. */
export const zonesInUse = (loadBalancers: Observed["loadBalancers"]): readonly string[] =>
  loadBalancers
    .flatMap(({ frontendIPConfigurations = [] }) => frontendIPConfigurations)
    .filter(({ name }) => isServiceFrontend(name))
    .map(({ zones = [] }) => zones.toSorted())
    .find(({ length }) => length > 1) ?? [];

/** Resource groups of the public IPs of frontends with such a name. */
export const groupsInUse = (
  loadBalancers: Observed["loadBalancers"],
  isFrontend: (name: string | undefined) => boolean,
): readonly string[] =>
  groups(
    loadBalancers
      .flatMap(({ frontendIPConfigurations = [] }) => frontendIPConfigurations)
      .flatMap(({ name, publicIPAddress }) => (isFrontend(name) ? [groupOf(publicIPAddress?.id)] : [])),
  );

const groups = (names: readonly string[]): readonly string[] => [
  ...new Set(names.flatMap((name) => (name === "" ? [] : [name.toLowerCase()]))),
];

function subnetsOf({ settings, internal, subnet }: Subject, config: PlannerConfig): readonly string[] {
  const frontend = subnet ?? config.subnet;
  const linked = settings.get(annotations.plsCreate) ? [settings.get(annotations.plsSubnet) || frontend] : [];
  return [...(internal ? [frontend] : []), ...linked].filter((name) => name !== "");
}

/** Undefined when it does not exist. */
export const readSubnet = (
  { network }: ArmClients,
  { virtualNetwork }: PlannerConfig,
  name: string,
): Promise<Subnet | undefined> =>
  unlessAbsent(network.subnets.get(virtualNetwork.resourceGroup, virtualNetwork.name, name));

/**
 * Nodes with an endpoint, for the local ones of the Services, and for those with pools of the same name. Readiness is not
 * considered, as upstream.
 */
export function endpointNodes(
  informers: CloudContext["informers"],
  intents: readonly ServiceIntent[],
): ReadonlyMap<string, readonly string[]> {
  const slices = informers.of(kinds.EndpointSlice).store.list();
  const poolOf = (key: string): string => localPoolName(key, "IPv4");
  const local = new Set(
    intents.flatMap(({ service }) => (service.spec?.externalTrafficPolicy === "Local" ? [poolOf(keyOf(service))] : [])),
  );
  const nodes = new Map<string, string[]>();
  for (const slice of slices) {
    const key = serviceOf(slice);
    if (!local.has(poolOf(key))) continue;
    const names = nodes.get(key) ?? [];
    for (const { nodeName } of slice.endpoints ?? []) if (nodeName !== undefined) names.push(nodeName);
    nodes.set(key, names);
  }
  return nodes;
}

/** Access is denied, or the name cannot be that of a resource group. */
export const isDenied = (error: unknown): boolean =>
  error instanceof ArmError && (error.status === 403 || error.status === 400);

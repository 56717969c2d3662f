import { annotationOf, type Service } from "cloud-controller-host/sdk";

import type { NeededReads, ServiceIntent } from "./model.ts";
import type { PlannerConfig } from "./planner-config.ts";

const prefix = "service.beta.kubernetes.io/";

const textOf = (service: Service, key: string): string => annotationOf(service, `${prefix}${key}`)?.trim() ?? "";

const isInternal = (service: Service): boolean => textOf(service, "azure-load-balancer-internal") === "true";

/** Resource groups, subnets and namespaces that `plan` looks into for the batch. */
export function neededReads(batch: readonly ServiceIntent[], config: PlannerConfig): NeededReads {
  const services = batch.map(({ service }) => service);
  const ensured = batch.flatMap(({ action, service }) => (action === "ensure" ? [service] : []));
  const publicIPGroups = services.map((service) => textOf(service, "azure-load-balancer-resource-group"));
  const linkGroups = services.map((service) => textOf(service, "azure-pls-resource-group"));
  return {
    publicIPResourceGroups: groups([config.resourceGroup, ...publicIPGroups]),
    privateLinkResourceGroups: groups([config.privateLinkResourceGroup, ...linkGroups]),
    subnets: [...new Set(ensured.flatMap((service) => subnetsOf(service, config)))],
    namespaces: config.loadBalancers.some((one) => one.serviceNamespaceSelector !== undefined)
      ? [...new Set(ensured.map((service) => service.metadata?.namespace ?? ""))]
      : [],
  };
}

const groups = (names: readonly string[]): readonly string[] => [
  ...new Set(names.flatMap((name) => (name === "" ? [] : [name.toLowerCase()]))),
];

function subnetsOf(service: Service, config: PlannerConfig): readonly string[] {
  const internal = isInternal(service) ? annotationOf(service, `${prefix}azure-load-balancer-internal-subnet`) : "";
  const frontend = internal?.trim() ? internal : config.subnet;
  const linked = textOf(service, "azure-pls-ip-configuration-subnet");
  const needsLink = textOf(service, "azure-pls-create").toLowerCase() === "true";
  return [...(isInternal(service) ? [frontend] : []), ...(needsLink ? [linked || frontend] : [])].filter(Boolean);
}

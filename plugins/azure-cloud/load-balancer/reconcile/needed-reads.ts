import { groupOf } from "../model/ids.ts";
import type { NeededReads, Observed, ServiceIntent } from "../model/model.ts";
import type { PlannerConfig } from "../model/planner-config.ts";
import { annotations } from "../service/annotations.ts";
import { readSubject, type Subject } from "../service/subject.ts";

/** Resource groups, subnets and namespaces that `plan` looks into for the batch. */
export function neededReads(batch: readonly ServiceIntent[], config: PlannerConfig): NeededReads {
  const subjects = batch.map(({ service }) => readSubject(service, config).subject);
  const ensured = subjects.filter((_, index) => batch[index]?.action === "ensure");
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

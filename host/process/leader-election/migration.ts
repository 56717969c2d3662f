import { controllerAliases } from "cloud-controller-host/sdk";

import type { LeaderMigration } from "../../config/parse/migration-config.ts";
import type { ControllerName } from "../../config/values/controller-list.ts";

/** upstream: `leadermigration.FilterResult`, with the Lease that the controller has migrated to. */
export type Ownership =
  | { readonly result: "NonMigrated" }
  | { readonly result: "Migrated"; readonly leaderName: string }
  | { readonly result: "Unowned"; readonly component: string };

/** The default config, in upstream's own spelling. */
export const defaultMigration: LeaderMigration = {
  leaderName: "cloud-provider-extraction-migration",
  controllerLeaders: ["route-controller", "service-controller", "cloud-node-lifecycle-controller"].map((name) => ({
    name,
    component: "*",
  })),
};

const canonicalNames = new Map(
  Object.entries(controllerAliases).flatMap(([name, aliases]) => aliases.map((alias) => [alias, name] as const)),
);
const canonical = (name: string): string => canonicalNames.get(name) ?? name;

/**
 * True if a name in a migration config refers to the controller, under any alias. Upstream compares the literal names, so
 * that its own default config migrates only one of its three controllers.
 */
const means = (name: string, controller: ControllerName): boolean =>
  [controller.name, ...controller.aliases].some((own) => canonical(own) === canonical(name));

/** The canonical name, whether or not an available controller has it. */
export const resolveName = (name: string, known: readonly ControllerName[]): string =>
  known.find((controller) => means(name, controller))?.name ?? canonical(name);

const isFor = (component: string, wanted: string): boolean => component === wanted || component === "*";

/** upstream: `LeaderMigrator.FilterFunc`. If a config names a controller twice, the later entry applies. */
export function ownershipOf(
  controller: ControllerName,
  component: string,
  migrations: readonly LeaderMigration[],
): Ownership {
  for (const { leaderName, controllerLeaders } of migrations) {
    const entry = controllerLeaders.findLast(({ name }) => means(name, controller));
    if (entry === undefined) continue;
    if (isFor(entry.component, component)) return { result: "Migrated", leaderName };
    return { result: "Unowned", component: entry.component };
  }
  return { result: "NonMigrated" };
}

/** True if the component runs a controller under the config's Lease, and so must hold it. */
export const concerns = ({ controllerLeaders }: LeaderMigration, wanted: string): boolean =>
  controllerLeaders.some(({ component }) => isFor(component, wanted));

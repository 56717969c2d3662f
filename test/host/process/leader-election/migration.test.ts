import { describe, expect, test } from "bun:test";

import { controllerAliases, controllerNames } from "cloud-controller-host/sdk";

import type { LeaderMigration } from "../../../../host/config/parse/migration-config.ts";
import {
  concerns,
  defaultMigration,
  type Ownership,
  ownershipOf,
  resolveName,
} from "../../../../host/process/leader-election/migration.ts";

const kcm = "kube-controller-manager";
const ccm = "cloud-controller-manager";
const leaderName = "migration";

const migrationTo = (component: string, ...names: readonly string[]): LeaderMigration => ({
  leaderName,
  controllerLeaders: names.map((name) => ({ name, component })),
});

const plugin = (name: string, ...aliases: readonly string[]) => ({ name, aliases });
const route = plugin(controllerNames.nodeRoute, "route");
const lifecycle = plugin(controllerNames.cloudNodeLifecycle, "cloud-node-lifecycle");

describe("the filter of migrated controllers", () => {
  const from = migrationTo(kcm, controllerNames.nodeRoute);
  const to = migrationTo(ccm, controllerNames.nodeRoute);
  const wildcard = migrationTo("*", controllerNames.nodeRoute);
  const migrated = { result: "Migrated", leaderName } as const;
  const cases: readonly [promise: string, migration: LeaderMigration, component: string, listed: Ownership][] = [
    ["from config, kube-controller-manager", from, kcm, migrated],
    ["from config, cloud-controller-manager", from, ccm, { result: "Unowned", component: kcm }],
    ["to config, kube-controller-manager", to, kcm, { result: "Unowned", component: ccm }],
    ["to config, cloud-controller-manager", to, ccm, migrated],
    ["wildcard, kube-controller-manager", wildcard, kcm, migrated],
    ["wildcard, cloud-controller-manager", wildcard, ccm, migrated],
  ];
  test.each(cases)("%s", (_promise, migration, component, listed) => {
    expect(ownershipOf(route, component, [migration])).toEqual(listed);
    expect(ownershipOf(lifecycle, component, [migration])).toEqual({ result: "NonMigrated" });
  });
});

describe("the name of a controller in a migration config", () => {
  const spellings = Object.entries(controllerAliases).flatMap(([name, aliases]) =>
    [name, ...aliases].map((spelling) => [spelling, name] as const),
  );
  test.each(spellings)("%s refers to %s, under any alias of its plugin", (spelling, name) => {
    for (const own of [name, ...(controllerAliases[name] ?? [])])
      expect(ownershipOf(plugin(own), ccm, [migrationTo("*", spelling)]).result).toBe("Migrated");
  });

  test("may be an alias known only to the plugin", () => {
    const theirs = plugin("quota-controller", "quota");
    expect(ownershipOf(theirs, ccm, [migrationTo(ccm, "quota")]).result).toBe("Migrated");
    expect(ownershipOf(theirs, ccm, [migrationTo(ccm, "quotas")]).result).toBe("NonMigrated");
  });

  test("the name of a controller in a migration config that is listed twice has the effect of its last entry", () => {
    const [first, second] = [migrationTo(ccm, "route"), migrationTo(kcm, controllerNames.nodeRoute)];
    const both = { leaderName, controllerLeaders: [...first.controllerLeaders, ...second.controllerLeaders] };
    expect(ownershipOf(route, ccm, [both])).toEqual({ result: "Unowned", component: kcm });
  });

  test("finds the lock among several", () => {
    const migrations = [migrationTo("*", "service"), { ...migrationTo("*", "route"), leaderName: "another" }];
    expect(ownershipOf(route, ccm, migrations)).toEqual({ result: "Migrated", leaderName: "another" });
  });
});

test("the default config migrates service, route and lifecycle, and no others", () => {
  const results = Object.entries(controllerAliases).map(([name, aliases]) => [
    name,
    ownershipOf(plugin(name, ...aliases), ccm, [defaultMigration]).result,
  ]);
  expect(Object.fromEntries(results)).toEqual({
    [controllerNames.cloudNode]: "NonMigrated",
    [controllerNames.cloudNodeLifecycle]: "Migrated",
    [controllerNames.serviceLB]: "Migrated",
    [controllerNames.nodeRoute]: "Migrated",
    [controllerNames.nodeIPAM]: "NonMigrated",
  });
});

test("a config applies to the components that it assigns a controller to", () => {
  expect(concerns(migrationTo(kcm, "route"), ccm)).toBe(false);
  expect(concerns(migrationTo(ccm, "route"), ccm)).toBe(true);
  expect(concerns(migrationTo("*", "route"), ccm)).toBe(true);
  expect(concerns({ leaderName, controllerLeaders: [] }, ccm)).toBe(false);
});

test("a name that no available controller has stands for the canonical name of its alias", () => {
  const [alias = ""] = controllerAliases[controllerNames.nodeRoute] ?? [];
  expect(alias).not.toBe("");
  expect(resolveName(alias, [])).toBe(controllerNames.nodeRoute);
  expect(resolveName("unknown", [])).toBe("unknown");
  expect(resolveName(alias, [{ name: "own", aliases: [alias] }])).toBe("own");
});

import type { Permission } from "cloud-controller-host/sdk";

import { ruleLines } from "../host/cli/rbac-manifest.ts";
import { defaultOptions, type Options } from "../host/config/flags/options.ts";
import type { PluginSet } from "../host/generation/plugins/load.ts";
import { hostPermissions } from "../host/run/permissions.ts";

const heading = [
  "# Generated from what the host and its plugins declare as their permissions by `bun run reference`. Not to be",
  "# edited. The template rbac.yaml takes from it what the values call for.",
];

const value = (path: string): string => `{{ .Values.${path} }}`;

/** A host that needs least: it reads a file and takes part in no election. */
const least: Options = { ...defaultOptions, cloudConfig: "a file", leaderElect: false };

/** What more it needs when values of the chart ask for more. Names are left to the chart to fill in. */
function askedFor(): Readonly<Record<string, readonly Permission[]>> {
  const elected = {
    ...least,
    leaderElect: true,
    leaderElectResourceName: value("leaderElection.leaseName"),
    leaderElectResourceNamespace: value("leaderElection.leaseNamespace"),
  };
  const migration = {
    leaderName: value("leaderMigration.leaderName"),
    controllerLeaders: [{ name: "any", component: "*" }],
  };
  const followed = {
    ...least,
    cloudConfig: "",
    enableDynamicReloading: true,
    cloudConfigSecretName: value("cloudConfig.secret.name"),
    cloudConfigSecretNamespace: '{{ include "cloud-controller-host.cloudConfigNamespace" . }}',
  };
  return {
    leaderElection: hostPermissions(elected),
    leaderElectionAndMigration: hostPermissions(elected, [migration]),
    cloudConfigSecret: hostPermissions(followed),
  };
}

/** The chart's table of permissions, as YAML: each part of the host with the rules that it needs. */
export function chartPermissions({ clouds, controllers }: PluginSet): string {
  const always = hostPermissions(least);
  const lines = [
    ...heading,
    ...section("host", always),
    ...Object.entries(askedFor()).flatMap(([name, permissions]) => section(name, without(permissions, always))),
    "clouds:",
    ...clouds.flatMap(({ name, permissions }) => section(name, permissions, 2)),
    "controllers:",
    ...controllers.flatMap(({ name, aliases, enabledByDefault, permissions }) => [
      `  ${name}:`,
      `    aliases: ${JSON.stringify(aliases)}`,
      `    enabledByDefault: ${enabledByDefault}`,
      ...section("rules", permissions, 4),
    ]),
  ];
  return `${lines.join("\n")}\n`;
}

function without(permissions: readonly Permission[], known: readonly Permission[]): readonly Permission[] {
  const texts = new Set(known.map((permission) => JSON.stringify(permission)));
  return permissions.filter((permission) => !texts.has(JSON.stringify(permission)));
}

function section(name: string, permissions: readonly Permission[], indent = 0): readonly string[] {
  const margin = " ".repeat(indent);
  if (permissions.length === 0) return [`${margin}${name}: []`];
  const rules = permissions.flatMap((permission) => [
    ...ruleLines(permission, indent + 2),
    ...(permission.namespace === undefined ? [] : [`${margin}    namespace: ${quoted(permission.namespace)}`]),
  ]);
  return [`${margin}${name}:`, ...rules];
}

/** In single quotes, so that what the chart fills in may hold double ones. */
const quoted = (text: string): string => `'${text}'`;

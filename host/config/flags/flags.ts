import type { Flag } from "./flag.ts";
import { authenticationFlags, authorizationFlags } from "./flags-access.ts";
import {
  cloudFlags,
  ipamControllerFlags,
  nodeControllerFlags,
  nodeStatusFlags,
  serviceControllerFlags,
} from "./flags-cloud.ts";
import {
  clientFlags,
  controllerFlags,
  debuggingFlags,
  electionFlags,
  featureFlags,
  migrationFlags,
} from "./flags-generic.ts";
import {
  auditFlags,
  globalFlags,
  logFlags,
  miscFlags,
  nodeFilterFlags,
  pluginFlags,
  reloadingFlags,
  shadowFlags,
} from "./flags-host.ts";
import { servingFlags, webhookFlags, webhookServingFlags } from "./flags-serving.ts";

const genericFlags = { ...clientFlags, ...controllerFlags, ...electionFlags, ...featureFlags, ...cloudFlags };
const allMiscFlags = { ...miscFlags, ...nodeStatusFlags };

/**
 * Every flag by name: the one table from which parser, options, help, reference page and `/flagz` are derived. It holds
 * the flags of both Go binaries under their names, forms and defaults, and a few of ours.
 */
export const flags = {
  ...debuggingFlags,
  ...migrationFlags,
  ...genericFlags,
  ...nodeControllerFlags,
  ...serviceControllerFlags,
  ...ipamControllerFlags,
  ...servingFlags,
  ...webhookFlags,
  ...webhookServingFlags,
  ...authenticationFlags,
  ...authorizationFlags,
  ...reloadingFlags,
  ...shadowFlags,
  ...pluginFlags,
  ...allMiscFlags,
  ...nodeFilterFlags,
  ...logFlags,
  ...auditFlags,
  ...globalFlags,
};

/** A flag with its name; the type of its value is erased. */
export interface FlagRow {
  readonly name: string;
  readonly flag: Flag<unknown>;
}

export interface FlagGroup {
  readonly title: string;
  readonly rows: readonly FlagRow[];
}

/** One row per flag, in the order of the table. */
const rowsOf = (table: Readonly<Record<string, Flag<unknown>>>): readonly FlagRow[] =>
  Object.entries(table).map(([name, flag]) => ({ name, flag }));

/** The groups in the order in which help and the reference page show them. */
export const flagGroups: readonly FlagGroup[] = [
  { title: "debugging", rows: rowsOf(debuggingFlags) },
  { title: "leader-migration", rows: rowsOf(migrationFlags) },
  { title: "generic", rows: rowsOf(genericFlags) },
  { title: "node controller", rows: rowsOf(nodeControllerFlags) },
  { title: "service controller", rows: rowsOf(serviceControllerFlags) },
  { title: "node IPAM controller", rows: rowsOf(ipamControllerFlags) },
  { title: "webhook", rows: rowsOf(webhookFlags) },
  { title: "webhook serving", rows: rowsOf(webhookServingFlags) },
  { title: "secure serving", rows: rowsOf(servingFlags) },
  { title: "authentication", rows: rowsOf(authenticationFlags) },
  { title: "authorization", rows: rowsOf(authorizationFlags) },
  { title: "dynamic reloading", rows: rowsOf(reloadingFlags) },
  { title: "shadow", rows: rowsOf(shadowFlags) },
  { title: "plugin", rows: rowsOf(pluginFlags) },
  { title: "misc", rows: rowsOf(allMiscFlags) },
  { title: "node filtering", rows: rowsOf(nodeFilterFlags) },
  { title: "logs", rows: rowsOf(logFlags) },
  { title: "record of writes", rows: rowsOf(auditFlags) },
  { title: "global", rows: rowsOf(globalFlags) },
];

/** Every flag, in the order of the groups. */
export const flagRows: readonly FlagRow[] = flagGroups.flatMap(({ rows }) => rows);

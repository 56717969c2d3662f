import { isTurnedOff, type Rollback } from "../generation/report/reload-status.ts";
import type { OwnWarning } from "../generation/slot/own-reports.ts";
import type { WriteRecord } from "../process/writes/record.ts";
import {
  bySince,
  errorsOfNodes,
  failingIn,
  firstOf,
  type Found,
  hiddenIn,
  named,
  servicesIn,
  shardTroubles,
  whyUnheld,
} from "./found.ts";
import type { runbook } from "./runbook.ts";
import type { NodeRow, Problem, ServiceRow } from "./schema.ts";
import type { ConsoleStatus } from "./sources.ts";
import { aboutNode, aboutService, warningKinds } from "./warning-kinds.ts";

/** Input of the rules for troubles. Rows are undefined while nothing here watches the kind. */
export interface Findings {
  readonly status: ConsoleStatus;
  readonly warnings: readonly OwnWarning[];
  readonly services: readonly ServiceRow[] | undefined;
  readonly nodes: readonly NodeRow[] | undefined;
  readonly writes: readonly WriteRecord[];
  readonly now: number;
}

/** A kind of trouble: a row is all that a new kind needs. */
export interface Trouble extends Pick<Problem, "severity" | "title" | "advice"> {
  readonly runbook: keyof typeof runbook;
  readonly find: (findings: Findings) => readonly Found[];
}

const recentMs = 600_000;
/** A Service or a node that is new waits for a while. */
const patienceMs = 60_000;
const dayMs = 86_400_000;
const ofWarnings = Object.entries(warningKinds).map(([kind, { view, ...explained }]): Trouble => ({
  severity: "warning",
  ...explained,
  find: ({ warnings }) => {
    const own = warnings.filter((warning) => warning.kind === kind);
    const [first] = own.toSorted(bySince);
    if (first === undefined) return [];
    const cause = firstOf(own.map(({ text }) => text)).join("\n");
    return [{ cause, view, ...(first.since !== undefined && { since: first.since }) }];
  },
}));

const troubles: readonly Trouble[] = [
  {
    severity: "critical",
    title: "No leader",
    advice: "Are the Pods running, and may they write the Lease? Events on the Lease show who held it last.",
    runbook: "CloudControllerHostWithoutLeader",
    find: ({ status }) =>
      status.locks.flatMap((lock, index) => {
        const cause = whyUnheld(lock, index === 0);
        return cause === undefined ? [] : [{ cause, view: "leadership" }];
      }),
  },
  ...(["overlaps", "undecided"] as const).map((relation): Trouble => ({
    ...shardTroubles[relation],
    runbook: "ShardsOverlap",
    find: ({ status: { shards = [] } }) =>
      shards
        .filter((shard) => shard.relation === relation)
        .map(({ lease, leader }) => ({ cause: `the holder of the Lease ${lease}, ${leader}`, view: "leadership" })),
  })),
  {
    severity: "critical",
    title: "Service fails",
    advice: "Correct the Service, or what the cause names; the controller tries again by itself.",
    runbook: "CloudLoadBalancerSyncFailing",
    find: ({ services = [] }) => servicesIn(services, "failing"),
  },
  {
    severity: "critical",
    title: "Service fails, and its status does not show it",
    advice: "Its condition cannot be written, or is not seen yet: check that the API server answers and takes writes.",
    runbook: "CloudLoadBalancerSyncFailing",
    find: ({ warnings, services = [] }) => {
      const shown = services
        .filter(({ state }) => state === "failing")
        .map(({ namespace, name }) => `${namespace}/${name}`);
      return hiddenIn(
        warnings.filter(({ kind }) => kind === aboutService),
        new Set(shown),
      );
    },
  },
  {
    severity: "warning",
    title: "Service waits for its address",
    advice: "Does the leader run service-lb-controller, and does its queue move? See Controllers.",
    runbook: "CloudLoadBalancerSyncSlow",
    find: ({ services = [], now }) =>
      servicesIn(
        services.filter(({ since }) => isOlder(since, now, patienceMs)),
        "waiting",
      ),
  },
  {
    severity: "warning",
    title: "Service is still being deleted",
    advice: "Its load balancer is removed first. The Service's events and writes show what the cloud refuses.",
    runbook: "CloudLoadBalancerSyncFailing",
    find: ({ services = [], now }) =>
      servicesIn(
        services.filter(({ since }) => isOlder(since, now, patienceMs)),
        "deleting",
      ),
  },
  {
    severity: "warning",
    title: "Service has settings that do not apply",
    advice:
      "It is served without them, or closed to all sources: correct the annotation or field that the cause names.",
    runbook: "ServiceSettings",
    find: ({ services = [] }) =>
      servicesIn(
        services.filter(({ cause }) => cause !== ""),
        "ready",
      ),
  },
  {
    severity: "critical",
    title: "Writes to the cloud fail",
    advice: "The error has the cloud's code and message; 403 is a missing role, 429 throttling by the cloud.",
    runbook: "FailedWrites",
    find: ({ writes, now }) => {
      const all = "writes?filter=state:failed";
      const failed = failingIn(writes).filter(({ write: { at } }) => !isOlder(at, now, recentMs));
      return named(
        failed.map(({ write: { operation, resource, status = "", error = "" }, since }) => ({
          ...(error.includes(resource)
            ? { name: error }
            : { name: `${operation} ${resource}`, cause: `${status} ${error}`.trim() }),
          since,
          view: all,
        })),
        all,
      );
    },
  },
  {
    severity: "critical",
    title: "Reload refused",
    advice: "What ran before continues. Correct what the cause names; the next change is loaded by itself.",
    runbook: "CloudControllerHostReloadRefused",
    find: ({ status: { lastRefusal } }) =>
      lastRefusal === undefined ? [] : [{ cause: lastRefusal.reason, since: lastRefusal.at, view: "leadership" }],
  },
  {
    severity: "warning",
    title: "Plugin left out",
    advice: "Its error names what is wrong. It is loaded again once it is fixed.",
    runbook: "PluginRefused",
    find: ({ status: { refusedPlugins } }) =>
      refusedPlugins.map(({ plugin, reason, at }) => ({
        cause: `${plugin}: ${reason}`,
        since: at,
        view: "controllers",
      })),
  },
  {
    severity: "warning",
    title: "A generation failed and gave way",
    advice: "The log line Controller failed has the error. Correct the config or the plugin, and reload.",
    runbook: "CloudControllerHostControllerFailed",
    find: ({ status: { lastRollback }, now }) =>
      lastRollback === undefined || isOlder(lastRollback.at, now, dayMs)
        ? []
        : [
            {
              cause: rollbackText(lastRollback),
              since: lastRollback.at,
              view: "leadership",
            },
          ],
  },
  {
    severity: "warning",
    title: "Work has not returned",
    advice: "No other generation runs before it does, or before the drain timeout. The log names what it waits for.",
    runbook: "CloudControllerHostStuck",
    find: ({ status: { waitingFor, outstanding } }) => [
      ...waitingFor.map((name) => ({ cause: `the drain waits for ${name}`, view: "controllers" })),
      ...outstanding.map(({ name, since }) => ({ cause: name, since, view: "controllers" })),
    ],
  },
  {
    severity: "warning",
    title: "Controller does not run",
    advice: "The cause is the controller's own reason: correct the flag or the config that it names.",
    runbook: "ControllerSkipped",
    // What a flag turns off is meant to be off; what failed is in the row above.
    find: ({ status: { skipped, refusedPlugins } }) =>
      skipped
        .filter(({ name, reason }) => !isTurnedOff(reason) && !refusedPlugins.some(({ plugin }) => plugin === name))
        .map(({ name, reason }) => ({ cause: `${name}: ${reason}`, view: "controllers" })),
  },
  ...ofWarnings,
  {
    severity: "warning",
    title: "Needs an operator",
    advice: "The lines are those of warnings in /statusz: the controller works, and cannot fix this.",
    runbook: "Warnings",
    // A plugin of a later version may have kinds that this host does not know.
    find: ({ warnings }) => {
      const shown = new Set<string>([aboutService, aboutNode, ...Object.keys(warningKinds)]);
      const lines = warnings.filter(({ kind = "" }) => !shown.has(kind));
      return [...Map.groupBy(lines, ({ source }) => source)].map(([source, own]) => ({
        title: `${source} needs an operator`,
        cause: own.map(({ text }) => text).join("\n"),
        view: "controllers",
      }));
    },
  },
  {
    severity: "warning",
    title: "Node is not initialized",
    advice: "Is cloud-node enabled, and does an instance with the node's name exist? Controllers has the latest error.",
    runbook: "NodeNotInitialized",
    find: ({ nodes = [], warnings }) => {
      const errors = errorsOfNodes(warnings);
      const waiting = nodes.filter(({ state }) => state === "uninitialized");
      return named(
        waiting.map(({ name, since }) => ({
          name: errors.get(name) ?? name,
          view: `nodes/${name}`,
          ...(since !== undefined && { since }),
        })),
        "nodes?filter=state:uninitialized",
      );
    },
  },
  {
    severity: "warning",
    title: "Node fails",
    advice: "The controller that the cause names cannot check, update or delete it, and tries again by itself.",
    runbook: "NodeFails",
    find: ({ nodes = [], warnings }) => {
      const waiting = new Set(nodes.filter(({ state }) => state === "uninitialized").map(({ name }) => name));
      return warnings.flatMap(({ kind, subject, source, text, since }) =>
        kind !== aboutNode || subject === undefined || waiting.has(subject)
          ? []
          : [{ cause: `${source}: ${text}`, view: `nodes/${subject}`, ...(since !== undefined && { since }) }],
      );
    },
  },
  {
    severity: "warning",
    title: "Differs from the other manager",
    advice: "A host with these flags would change it, and the other manager has not: are flags and config the same?",
    runbook: "Shadow",
    find: ({ status: { shadow } }) =>
      named(
        (shadow?.differences ?? []).map(({ action, title, reasons, since }) => {
          const cause = reasons.join(", ") || "the configuration";
          return { name: `${action} ${title}`, cause, since, view: "plan" };
        }),
        "plan",
      ),
  },
  {
    severity: "warning",
    title: "Not compared",
    advice: "What it names could not be read or planned, and may differ from the other manager.",
    runbook: "Shadow",
    find: ({ status: { shadow = { notCompared: [] } } }) =>
      shadow.notCompared.length === 0 ? [] : [{ cause: firstOf(shadow.notCompared).join("\n"), view: "plan" }],
  },
  {
    severity: "note",
    title: "The cloud provider is disabled",
    advice: "disableCloudProvider is true in the cloud config: a config without it starts the controllers.",
    runbook: "CloudProviderDisabled",
    find: ({ status: { disabled } }) => (disabled ? [{ cause: "no controller runs", view: "leadership" }] : []),
  },
];

export const rollbackText = ({ generation, controller, reason, outcome }: Rollback): string =>
  `generation ${generation}, ${controller}: ${reason}; ${outcome}`;

const rank: Readonly<Record<Problem["severity"], number>> = { critical: 0, warning: 1, note: 2 };

/** Everything that is wrong: the worst first, and of those what lasts longest. */
export const problemsIn = (findings: Findings): Problem[] =>
  troubles
    .flatMap(({ find, ...trouble }) => find(findings).map((found) => ({ ...trouble, ...found })))
    .toSorted((one, other) => rank[one.severity] - rank[other.severity] || bySince(one, other));

const isOlder = (since: string | undefined, now: number, ageMs: number): boolean =>
  since !== undefined && now - Date.parse(since) > ageMs;

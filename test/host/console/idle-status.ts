import { systemClock } from "../../../host/async/clock.ts";
import type { ConsoleSources, ConsoleStatus } from "../../../host/console/sources.ts";
import { createLogger } from "../../../host/process/log/log.ts";
import type { WriteRecord } from "../../../host/process/writes/record.ts";

/** The status of a leader that has nothing to report. */
export const idleStatus: ConsoleStatus = {
  startedAt: "2026-11-22T02:00:00Z",
  identity: "one",
  leading: true,
  leader: "one",
  locks: [{ lease: "main", leading: true, leader: "one", controllers: [] }],
  phase: "running",
  generation: 1,
  generationStartedAt: "2026-11-22T02:00:00Z",
  configHash: "c",
  pluginHash: "p",
  controllers: [],
  warnings: [],
  skipped: [],
  running: true,
  disabled: false,
  reloads: 0,
  lastOutcome: undefined,
  recentReloads: [],
  lastReloadAt: undefined,
  lastRefusal: undefined,
  lastRollback: undefined,
  refusedPlugins: [],
  waitingFor: [],
  lastOverdueDrain: undefined,
  outstanding: [],
};

/** A host that watches, writes and runs nothing. */
export const idleSources: ConsoleSources = {
  clock: systemClock,
  log: createLogger({ format: "text", verbosity: 0, write: () => undefined }),
  cloudName: "test",
  status: () => idleStatus,
  ownStatus: () => [],
  ownWarnings: () => [],
  explain: () => undefined,
  writes: { records: [], count: 0 },
  events: { recent: { leases: [], others: [] }, count: 0 },
  metrics: { samples: () => Promise.resolve([]) },
  busy: { slowest: () => undefined },
  plans: { revision: 0, answer: () => "{}" },
  informers: { stored: () => undefined },
};

/** A write of the cloud. */
export const cloudWrite = (more: Partial<WriteRecord> = {}): WriteRecord => ({
  at: "2026-11-22T02:00:00Z",
  controller: "cloud",
  generation: 1,
  system: "cloud",
  operation: "PUT",
  resource: "lb",
  milliseconds: 1,
  causes: [],
  fields: [],
  ...more,
});

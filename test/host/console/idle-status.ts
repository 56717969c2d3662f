import type { ConsoleStatus } from "../../../host/console/sources.ts";

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
  lastReloadAt: undefined,
  lastRefusal: undefined,
  lastRollback: undefined,
  refusedPlugins: [],
  waitingFor: [],
  lastOverdueDrain: undefined,
  outstanding: [],
};

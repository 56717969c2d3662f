import type { Phase } from "../../../host/generation/report/states.ts";

/** One line of the page for each phase. Checked against the table and the driver by tests. */
interface PhaseRule {
  readonly mayWrite: string;
  readonly awaits: string;
  readonly limit: string;
  readonly onAbort: string;
}

export const phaseRules: Readonly<Record<Phase, PhaseRule>> = {
  standby: {
    mayWrite: "nothing",
    awaits: "the lease, or a prepared generation",
    limit: "none",
    onAbort: "the candidate is disposed of",
  },
  preparing: {
    mayWrite: "nothing",
    awaits: "the first generation, and caches as fresh as the lease",
    limit: "--plugin-init-timeout per step, the caches included",
    onAbort: "the candidate is disposed of",
  },
  running: {
    mayWrite: "the active generation, while its lock is safely held",
    awaits: "the next event; for a minute it may give way to what it replaced",
    limit: "none",
    onAbort: "a stop drains first; a lost lease fences first",
  },
  draining: {
    mayWrite: "the active generation, to finish what it began",
    awaits: "the return of every controller",
    limit: "--generation-drain-timeout",
    onAbort: "a stop continues the drain; a lost lease fences at once",
  },
  fenced: {
    mayWrite: "nothing",
    awaits: "caches that show our own writes; after a lost lease, the return of every controller",
    limit: "1 s for the caches; --generation-drain-timeout",
    onAbort: "the candidate and the old generation are disposed of",
  },
  recovering: {
    mayWrite: "nothing",
    awaits: "a new generation from the plugins and config that ran before",
    limit: "--plugin-init-timeout per step",
    onAbort: "the preparation is abandoned",
  },
  disabled: { mayWrite: "nothing", awaits: "a config without disableCloudProvider", limit: "none", onAbort: "ends" },
  stopping: {
    mayWrite: "the active generation, to finish what it began",
    awaits: "the return of every controller",
    limit: "--generation-drain-timeout",
    onAbort: "a lost lease fences at once",
  },
  stopped: {
    mayWrite: "nothing",
    awaits: "nothing; the lease is released only when no plugin work is outstanding",
    limit: "5 s for disposal",
    onAbort: "nothing is left to abort",
  },
};

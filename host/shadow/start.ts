import { CodedError, messageOf } from "cloud-controller-host/sdk";

import { nothingReported } from "../generation/report/reload-status.ts";
import { untakenLocks } from "../run/leadership.ts";
import { createParts, type HostInput } from "../run/process-parts.ts";
import { openServing } from "../run/secure-serving.ts";
import type { HostStatus } from "../run/status.ts";
import { stopPhase } from "../run/stop-phases.ts";
import { reportUnhandled } from "../run/unhandled.ts";
import { Shadow } from "./shadow.ts";

/** Starts a host with `--shadow`: it serves, plans and compares, without a lease or a generation that could write. */
export async function startShadow(input: HostInput) {
  await using starting = new AsyncDisposableStack();
  const parts = await createParts(input, starting);
  for (const notice of input.notices) parts.log.warn(notice);
  const stopping = new AbortController();
  const shadow = new Shadow(input, parts);
  const startedAt = new Date(parts.clock.now()).toISOString();
  const status = (): HostStatus => statusOf(input, shadow, startedAt);
  parts.health.addProcess({
    name: "shutdown",
    endpoints: ["readyz"],
    check() {
      if (stopping.signal.aborted) throw new CodedError("Stopping", "the process is shutting down");
    },
  });
  const serving = await openServing(input, parts, status, { ownStatus: [], ownWarnings: [], explain: undefined });
  if (serving !== undefined) starting.defer(() => stopPhase(parts, "Closing secure serving", () => serving.close()));
  const ending = starting.move();
  let failure: string | undefined;
  parts.log.info("Comparing with another manager; this process takes no lease and writes nothing", {
    settle: input.options.shadowSettle / 1000,
  });
  const run = async (): Promise<number> => {
    try {
      await shadow.run(stopping.signal);
      return 0;
    } catch (error) {
      if (stopping.signal.aborted) return 0;
      failure = messageOf(error);
      parts.log.error("Exiting", { error });
      return 1;
    } finally {
      stopping.abort();
      await ending.disposeAsync();
    }
  };
  return {
    url: serving?.url,
    get status() {
      return status();
    },
    // Each plan reads the config again; plugins are those loaded at startup.
    reload: (reason: string) => parts.log.info("Each plan reads the config; nothing to reload", { reason }),
    stop: () => stopping.abort(),
    unhandled: (error: unknown) => reportUnhandled(error, parts, input.copies),
    finished: run(),
    get failure() {
      return failure;
    },
  };
}

function statusOf(input: HostInput, shadow: Shadow, startedAt: string): HostStatus {
  const { names } = untakenLocks(input);
  const compared = shadow.status;
  const leader = compared.comparedWith;
  return {
    startedAt,
    shadow: compared,
    identity: "",
    leading: false,
    leader,
    locks: names.slice(0, 1).map((lease) => ({ lease, leading: false, leader, controllers: [] })),
    phase: "standby",
    generation: 0,
    configHash: "",
    pluginHash: input.plugins.hash,
    controllers: [],
    warnings: [],
    skipped: [],
    running: false,
    ...nothingReported,
    outstanding: [],
  };
}

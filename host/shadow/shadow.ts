import {
  type InformerOptions,
  type KindRef,
  kinds,
  type KubeObject,
  type Logger,
  messageOf,
  type Metrics,
} from "cloud-controller-host/sdk";

import { WakeUp } from "../async/wake-up.ts";
import type { ProcessInformers } from "../generation/scope/scope.ts";
import type { GenerationInformers } from "../kube/informers/share.ts";
import { planDocument } from "../plan/document.ts";
import { type PlanningProcess, planWith } from "../plan/plan.ts";
import { component, type HostInput, type ProcessParts } from "../run/process-parts.ts";
import { configSource } from "../run/process-scope.ts";
import type { ShadowStatus } from "../run/status.ts";
import { Differences } from "./comparison.ts";
import { ObservedChanges } from "./observed-changes.ts";

/** Interval of plans without a change, in settling times. They find what changes only in the cloud. */
const idleFactor = 10;
/** A plan that takes longer than this is given up. */
const planLimitMs = 600_000;

const shadowMetrics = (root: Metrics) => ({
  changes: root.counter<"result">({
    name: "host_shadow_changes_total",
    help: "With --shadow, changes of Services and nodes by result: agreed, or differed.",
    labels: ["result"],
  }),
  found: root.counter({
    name: "host_shadow_differences_total",
    help: "With --shadow, differences from the other manager that were found, each counted once while it lasts.",
  }),
  differences: root.gauge({
    name: "host_shadow_differences",
    help: "With --shadow, differences from the other manager now; /statusz lists them with reasons.",
  }),
  plans: root.counter<"result">({
    name: "host_shadow_plans_total",
    help: "With --shadow, plans by result: complete, incomplete, or failed.",
    labels: ["result"],
  }),
});

/** `live`: the watches, held until the end. */
type ShadowProcess = PlanningProcess & { readonly live: GenerationInformers };

/** Plans after each change and compares: if the other manager has done its work, the plan has nothing left to do. */
export class Shadow {
  readonly #input: HostInput;
  readonly #parts: ProcessParts;
  readonly #metrics: ReturnType<typeof shadowMetrics>;
  readonly #changes: ObservedChanges;
  readonly #differences = new Differences();
  readonly #wakeUp = new WakeUp();
  readonly #counts = { agreed: 0, differed: 0, plans: 0 };
  #comparedWith = "";
  #lastComparedAt: string | undefined;
  #notCompared: readonly string[] = [];

  constructor(input: HostInput, parts: ProcessParts) {
    this.#input = input;
    this.#parts = parts;
    this.#metrics = shadowMetrics(parts.metrics.root);
    this.#metrics.differences.set(0);
    this.#changes = new ObservedChanges(parts.clock, () => this.#wakeUp.notify());
  }

  get status(): ShadowStatus {
    return {
      comparedWith: this.#comparedWith,
      changesAgreed: this.#counts.agreed,
      changesDiffered: this.#counts.differed,
      changesPending: this.#changes.size,
      differences: this.#differences.list,
      plans: this.#counts.plans,
      lastComparedAt: this.#lastComparedAt,
      notCompared: this.#notCompared,
    };
  }

  /** Runs until the signal aborts. A plan that fails is made again. */
  async run(signal: AbortSignal): Promise<void> {
    const { clock, informers, log } = this.#parts;
    const settleMs = this.#input.options.shadowSettle;
    await using ending = new AsyncDisposableStack();
    ending.defer(this.#input.plugins.retain());
    const source = configSource(this.#input, this.#parts, ending);
    const live = informers.share();
    ending.defer(() => live.release());
    this.#changes.follow(live);
    const process = { parts: this.#parts, source, informers: holding(informers, live), log: quiet(log), live };
    await live.synced(signal);
    while (!signal.aborted) {
      const startedAt = clock.monotonic();
      try {
        await this.#plan(process, startedAt - settleMs, signal);
      } catch (error) {
        if (signal.aborted) return;
        this.#metrics.plans.inc({ result: "failed" });
        this.#notCompared = [messageOf(error)];
        log.warn("Failed to plan; nothing was compared", { error });
      }
      await this.#wait(startedAt + settleMs / 2, signal);
    }
  }

  /** Waits until a change may have settled, and at least until `earliest`. */
  async #wait(earliest: number, signal: AbortSignal): Promise<void> {
    const { clock } = this.#parts;
    const settleMs = this.#input.options.shadowSettle;
    const idleUntil = clock.monotonic() + settleMs * (this.#differences.isOpen ? 1 : idleFactor);
    for (;;) {
      const now = clock.monotonic();
      const due = Math.max(earliest, Math.min(idleUntil, now + (this.#changes.settlesIn(settleMs) ?? Infinity)));
      if (due <= now || signal.aborted) return;
      await this.#wakeUp.wait(clock, due - now, signal);
    }
  }

  /** `settledBy`: changes since then are too young. */
  async #plan(process: ShadowProcess, settledBy: number, signal: AbortSignal): Promise<void> {
    const { clock, log } = this.#parts;
    const { firstReading: _first, ...input } = this.#input;
    const limited = AbortSignal.any([signal, AbortSignal.timeout(planLimitMs)]);
    this.#comparedWith = await this.#leader(limited);
    const plan = planDocument(await planWith({ input, signal: limited }, process));
    // While a watch is interrupted, the other manager acts on changes unseen here. Once listed, they count as recent.
    if (this.#differences.finds({ plan, unsettled: this.#changes.since(settledBy) }))
      await process.live.refreshed(clock.monotonic(), limited);
    if (signal.aborted) return;
    this.#counts.plans += 1;
    this.#metrics.plans.inc({ result: plan.complete ? "complete" : "incomplete" });
    this.#notCompared = plan.failures;
    const [settled, unsettled] = [this.#changes.before(settledBy), this.#changes.since(settledBy)];
    const at = new Date(clock.now()).toISOString();
    const { agreed, differed, found, gone } = this.#differences.compare({ plan, settled, unsettled, at });
    if (plan.complete) this.#lastComparedAt = at;
    this.#changes.compared([...agreed, ...differed], settledBy);
    this.#counts.agreed += agreed.length;
    this.#counts.differed += differed.length;
    this.#metrics.changes.inc({ result: "agreed" }, agreed.length);
    this.#metrics.changes.inc({ result: "differed" }, differed.length);
    this.#metrics.found.inc({}, found.length);
    this.#metrics.differences.set(this.#differences.list.length);
    for (const { action, title, reasons } of found)
      log.warn("Found a difference from the other manager", { action, resource: title, causes: reasons.join(", ") });
    for (const { action, title } of gone)
      log.info("Difference from the other manager resolved", { action, resource: title });
  }

  /** The holder of the lease, which is read and never requested. */
  async #leader(signal: AbortSignal): Promise<string> {
    const { leaderElect, leaderElectResourceName: name, leaderElectResourceNamespace: namespace } = this.#input.options;
    if (!leaderElect) return "";
    try {
      const lease = await this.#parts.clients.client(component).get(kinds.Lease, { namespace, name }, { signal });
      return lease.spec?.holderIdentity ?? "";
    } catch (error) {
      this.#parts.log.debug(2, "Unable to read the lease of the other manager", { error });
      return "";
    }
  }
}

/** Log lines of controllers that plan describe writes that are not sent, so they appear at debug level only. */
const quiet = (log: Logger): Logger => ({
  info: (message, fields) => log.debug(4, message, fields),
  warn: (message, fields) => log.debug(4, message, fields),
  error: (message, fields) => log.debug(4, message, fields),
  debug: (level, message, fields) => log.debug(Math.max(level, 4), message, fields),
  with: (fields) => quiet(log.with(fields)),
});

/** Watches that a plan has started are kept until the end, so that the next plan sends no LIST. */
function holding(inner: ProcessInformers, held: GenerationInformers): ProcessInformers {
  return {
    relist: (since) => inner.relist(since),
    showWrites: () => Promise.resolve(),
    share() {
      const share = inner.share();
      return {
        of<T extends KubeObject>(kind: KindRef<T>, options?: InformerOptions) {
          held.of(kind, options);
          return share.of(kind, options);
        },
        synced: (signal) => share.synced(signal),
        refreshed: (since, signal) => share.refreshed(since, signal),
        stale: (since) => share.stale(since),
        get unsynced() {
          return share.unsynced;
        },
        release: () => share.release(),
      };
    },
  };
}

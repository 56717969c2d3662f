import { CodedError, FencedError, keyOf, messageOf } from "cloud-controller-host/sdk";

import { ArmError } from "../../arm/errors.ts";
import { inTime } from "../../arm/writes/in-time.ts";
import type { Outcome } from "../../arm/writes/keyed-batcher.ts";
import { isRejected } from "../../arm/writes/write-errors.ts";
import type { Observed, ServiceIntent, ServiceKey } from "../model/model.ts";
import type { Plan, Stage, Write } from "../model/plan-model.ts";
import { plan } from "../plan/plan.ts";
import { isMembersWrite, isResourceWrite, type WriteOutcome } from "./apply.ts";
import { type BatchOptions, type BatchRun, doneKey, type Reconciled } from "./batch-model.ts";
import { BatchNotices } from "./batch-notices.ts";
import { blame } from "./blame.ts";
import { heldBy } from "./held-resources.ts";
import { lateAt, lateFor, type LateWrite, LateWriteError } from "./late-writes.ts";
import { LockHold, ResourceLockError } from "./resource-lock.ts";

/** Rounds of plan and apply until a batch must be done; more is a defect, or Azure does not show what was written. */
const maxRounds = 6;
/** Conflicts of one resource in a batch before they are reported. */
const maxConflicts = 5;
const firstPauseMs = 50;

/** A delete that ARM refuses because someone else uses the public IP: it stays, as upstream. */
const ignoredCodes = new Set(["PublicIPAddressCannotBeDeleted"]);

/** Reasons of the events about failed writes. upstream: the repositories of public IPs and load balancers. */
const failureReasons: Readonly<Partial<Record<Write["kind"], string>>> = {
  "put-public-ip": "CreateOrUpdatePublicIPAddress",
  "delete-public-ip": "DeletePublicIPAddress",
  "delete-load-balancer": "DeleteLoadBalancer",
};

/**
 * One batch of Services on its way to the desired state: observe, plan, apply, until nothing is left to write. Nothing
 * is kept in memory between two writes that the next observation does not show, so a crash at any point is followed
 * by the same plan for what is left.
 */
export class Batch {
  readonly #options: BatchOptions;
  readonly #intents: readonly ServiceIntent[];
  readonly #outcomes = new Map<ServiceKey, Outcome<Reconciled>>();
  /** Errors of backend-pool membership: reported at the end, because all else can be done without. */
  readonly #memberErrors = new Map<ServiceKey, unknown>();
  /** Writes whose effect is not observed yet, or which had none: the next plan holds them again. */
  readonly #done = new Set<string>();
  readonly #conflicts = new Map<string, number>();
  readonly #notices: BatchNotices;
  readonly #writes = new Map<ServiceKey, number>();

  readonly #run: BatchRun;
  readonly #hold: LockHold;

  constructor(options: BatchOptions, intents: readonly ServiceIntent[], run: BatchRun) {
    this.#options = options;
    this.#notices = new BatchNotices(options.context);
    this.#intents = intents;
    this.#run = run;
    this.#hold = new LockHold(options.lock, options.context.log);
  }

  /** Rejects when ARM rejects a write of several Services, and when nothing may be written any more. */
  async run(): Promise<readonly Outcome<Reconciled>[]> {
    try {
      await this.#work();
    } finally {
      await this.#unlock();
    }
    return this.#intents.map(({ service }) => this.#outcomes.get(keyOf(service)) ?? unsettled(keyOf(service)));
  }

  async #work(): Promise<void> {
    const { observer, config } = this.#options;
    for (let round = 0; ;) {
      const late = this.#run.late.current();
      for (const { service } of this.#active()) this.#leave(keyOf(service), lateFor(late, keyOf(service)), true);
      if (this.#active().length === 0) break;
      const observation = await observer.observe(this.#active());
      const { observed } = observation;
      for (const intent of this.#active()) {
        const error = observer.blocked(intent, observation);
        if (error !== undefined) this.#fail([keyOf(intent.service)], error);
      }
      const active = this.#active();
      const planned = plan(active, observed, config);
      if (this.#leaveFor(late, planned, observed)) continue;
      this.#notices.report(planned, active, observed);
      this.#takeProblems(planned);
      const stages = this.#remaining(planned.stages);
      if (stages.length === 0) this.#finish(planned);
      else if (round >= maxRounds) this.#giveUp(stages, planned);
      else if ((await this.#locked(stages)) && (await this.#apply(stages, observed))) round += 1;
    }
  }

  /** Takes the lock before the first write. False when it cannot be taken, or when the plan must be made again. */
  async #locked(stages: readonly Stage[]): Promise<boolean> {
    try {
      const isOutdated = await this.#hold.take();
      if (isOutdated) this.#options.observer.forget();
      return !isOutdated;
    } catch (error) {
      for (const { writes } of stages) for (const { services } of writes) this.#fail(services, error);
      return false;
    }
  }

  async #unlock(): Promise<void> {
    try {
      await this.#hold.release();
    } catch (error) {
      this.#options.context.log.warn("Failed to unlock azure resources", { error });
      for (const [key, outcome] of this.#outcomes) {
        if (!outcome.ok) this.#outcomes.set(key, { ok: false, error: withUnlockError(outcome.error, error) });
        else if (this.#writes.has(key)) this.#outcomes.set(key, { ok: false, error });
      }
    }
  }

  /** Services leave that need a resource with a late write. True if there are any: the others are planned again. */
  #leaveFor(late: readonly LateWrite[], { stages }: Plan, observed: Observed): boolean {
    const before = this.#outcomes.size;
    for (const write of stages.flatMap(({ writes }) => writes))
      for (const key of write.services) this.#leave(key, lateAt(late, write, observed), false);
    return this.#outcomes.size > before;
  }

  #leave(key: ServiceKey, late: LateWrite | undefined, isOwn: boolean): void {
    if (late !== undefined) this.#fail([key], new LateWriteError(late, { isOwn }));
  }

  #active(): readonly ServiceIntent[] {
    return this.#intents.filter(({ service }) => !this.#outcomes.has(keyOf(service)));
  }

  /** Problems of Services that cannot be planned. */
  #takeProblems({ results }: Plan): void {
    for (const [key, { problem }] of results)
      if (problem !== undefined) this.#fail([key], new CodedError(problem.code, problem.messages.join("; ")));
  }

  /** A write that is not planned any more has had its effect. Planned once more after that, it is needed again. */
  #remaining(stages: readonly Stage[]): readonly Stage[] {
    const planned = new Set(stages.flatMap(({ writes }) => writes.map(doneKey)));
    for (const key of this.#done) if (!planned.has(key)) this.#done.delete(key);
    return stages
      .map(({ name, writes }) => ({ name, writes: writes.filter((write) => !this.#done.has(doneKey(write))) }))
      .filter(({ writes }) => writes.length > 0);
  }

  /** Applies stage after stage, until one shows that the plan must be made again. False after a conflict. */
  async #apply(stages: readonly Stage[], observed: Observed): Promise<boolean> {
    for (const stage of stages) {
      const { outcomes, isLate } = await this.#carryOut(stage, observed);
      for (const outcome of outcomes) if (outcome.kind === "written") this.#written(outcome.write, outcome.requests);
      for (const outcome of outcomes) if (outcome.kind === "unfinished") this.#leaveUnfinished(outcome);
      const failures = outcomes.flatMap((outcome) => (outcome.kind === "failed" ? [outcome] : []));
      const conflicts = outcomes.flatMap((outcome) => (outcome.kind === "conflict" ? [outcome] : []));
      this.#takeFailures(failures);
      if (conflicts.length > 0) {
        await this.#takeConflicts(conflicts);
        return false;
      }
      // Later stages may be about Services that have failed or left.
      if (isLate || failures.some(({ write }) => !isMembersWrite(write) && !this.#done.has(doneKey(write))))
        return true;
    }
    return true;
  }

  /** A write that takes long is not waited for: its Services leave the batch. */
  async #carryOut({ writes }: Stage, observed: Observed) {
    const { applier, context } = this.#options;
    const members = writes.filter(isMembersWrite);
    const others = writes.filter(isResourceWrite);
    const started = applier.start(others, observed);
    const work = applier.members(members, observed);
    const late = this.#run.patient ? [] : await inTime(started, context.clock);
    for (const { write, promise } of late) this.#leaveWith({ write, outcome: promise, holds: heldBy(write, observed) });
    const inFlight = new Set<Write>(late.map(({ write }) => write));
    const back = await Promise.all(started.flatMap((one) => (inFlight.has(one.write) ? [] : [one.promise])));
    const outcomes = [...back, ...(await work)];
    return { outcomes, isLate: outcomes.some(({ kind }) => kind === "unfinished") || late.length > 0 };
  }

  /** Services do without an instance that joins late; a load balancer cannot be deleted before all have left it. */
  #leaveUnfinished({ write, requests, end }: Extract<WriteOutcome, { readonly kind: "unfinished" }>): void {
    if (write.kind === "release-pools") {
      const outcome = end.then((): WriteOutcome => ({ kind: "written", write, requests }));
      this.#leaveWith({ write, outcome, holds: [write.id] });
      return;
    }
    this.#written(write, requests);
    const services = this.#intents.map(({ service }) => service).filter((one) => write.services.includes(keyOf(one)));
    this.#hold.keepUntil(end);
    this.#run.follow(write.id, services, end);
  }

  #leaveWith(one: LateWrite): void {
    this.#run.late.add(one);
    this.#hold.keepUntil(one.outcome);
    for (const key of one.write.services) this.#leave(key, one, true);
    void one.outcome.then(
      (outcome) => outcome.kind === "written" && this.#options.activity.wrote(one.write.kind, outcome.requests),
    );
  }

  #written(write: Write, requests: number): void {
    for (const key of write.services) this.#writes.set(key, (this.#writes.get(key) ?? 0) + requests);
    this.#options.activity.wrote(write.kind, requests);
    if (isMembersWrite(write)) this.#done.add(doneKey(write));
  }

  #takeFailures(failures: readonly Extract<WriteOutcome, { readonly kind: "failed" }>[]): void {
    for (const { write, error } of failures) {
      if (error instanceof FencedError || this.#options.context.signal.aborted) throw error;
      if (error instanceof ArmError && ignoredCodes.has(error.code)) this.#ignore(write, error);
      else if (isMembersWrite(write)) {
        for (const key of write.services) this.#memberErrors.set(key, error);
        this.#done.add(doneKey(write));
      } else if (isRejected(error) && isDivisible(write) && error instanceof Error) {
        blame(error, write.services);
        throw error;
      } else {
        this.#recordFailure(write, error);
        this.#fail(write.services, error);
      }
    }
  }

  #ignore(write: Write, error: ArmError): void {
    this.#done.add(doneKey(write));
    this.#recordFailure(write, error);
  }

  #recordFailure({ kind, services }: Write, error: unknown): void {
    const reason = failureReasons[kind];
    if (reason === undefined) return;
    for (const { service } of this.#intents)
      if (services.includes(keyOf(service)))
        this.#notices.record(service, keyOf(service), { type: "Warning", reason, message: messageOf(error) });
  }

  async #takeConflicts(conflicts: readonly Extract<WriteOutcome, { readonly kind: "conflict" }>[]): Promise<void> {
    const { clock, signal } = this.#options.context;
    let longest = 0;
    for (const { write, error } of conflicts) {
      const count = (this.#conflicts.get(write.id) ?? 0) + 1;
      this.#conflicts.set(write.id, count);
      longest = Math.max(longest, count);
      const refusal = error instanceof Error ? error.cause : undefined;
      if (count < maxConflicts) continue;
      if (refusal instanceof ArmError && ignoredCodes.has(refusal.code)) this.#ignore(write, refusal);
      else this.#fail(write.services, error);
    }
    if (longest > 1) await clock.sleep(firstPauseMs * 2 ** longest * (0.5 + Math.random()), signal);
  }

  #finish({ results }: Plan): void {
    for (const { service, action } of this.#active()) {
      const key = keyOf(service);
      const result = results.get(key);
      if (this.#memberErrors.has(key)) this.#fail([key], this.#memberErrors.get(key));
      else if (result?.settled || action === "delete")
        this.#outcomes.set(key, { ok: true, value: { status: result?.status, writes: this.#writes.get(key) ?? 0 } });
      else this.#outcomes.set(key, unsettled(key));
    }
  }

  /** Too many rounds: the Services that still have writes fail, the others are done. */
  #giveUp(stages: readonly Stage[], planned: Plan): void {
    for (const { writes } of stages)
      for (const { services } of writes)
        for (const key of services) if (!this.#outcomes.has(key)) this.#outcomes.set(key, unsettled(key));
    this.#finish(planned);
  }

  #fail(keys: readonly ServiceKey[], error: unknown): void {
    for (const key of keys) if (!this.#outcomes.has(key)) this.#outcomes.set(key, { ok: false, error });
  }
}

/** True if ARM may have rejected some Services of the write, and accept others. */
const isDivisible = (write: Write): boolean => write.services.length > 1 && !("repeats" in write && write.repeats);

/** A Service that waits for a late write has not failed. Words of upstream, which the operation's name precedes. */
function withUnlockError(error: unknown, unlockError: unknown): unknown {
  if (error instanceof LateWriteError) return error;
  const message = `failed due to ${messageOf(error)}, and when unlocking azure resources another error happened: ${messageOf(unlockError)}`;
  return new ResourceLockError("ResourcesLocked", message, { cause: error });
}

const unsettled = (key: ServiceKey): Outcome<never> => ({
  ok: false,
  error: new CodedError("NotSettled", `${key}: Azure does not return the written state yet; it is read again later`),
});

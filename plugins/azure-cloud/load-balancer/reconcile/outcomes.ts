import { type CloudContext, FencedError, keyOf, recurringMessageOf } from "cloud-controller-host/sdk";

import { ArmError } from "../../arm/errors.ts";
import { sameName } from "../../arm/resource-id.ts";
import { isLost, isRejected } from "../../arm/writes/write-errors.ts";
import type { ServiceIntent, ServiceKey } from "../model/model.ts";
import type { Write } from "../model/plan-model.ts";
import { isMembersWrite } from "../pools/member-jobs.ts";
import type { Activity } from "./activity.ts";
import type { WriteOutcome } from "./apply/apply.ts";
import { OutdatedBalancers } from "./held-resources.ts";
import type { Flight, InFlight } from "./in-flight.ts";
import type { UnendedOperations } from "./later/unended-operations.ts";
import { Notices } from "./notices.ts";
import { Rejections } from "./rejections.ts";
import type { Wanted } from "./wanted.ts";

/** A delete that ARM refuses because another resource uses the public IP: it stays, as upstream. */
const ignoredCodes = new Set(["PublicIPAddressCannotBeDeleted"]);

/** ARM's refusal of a public IP that another frontend still has, as while one Service hands it to another. */
const addressInUse = "PublicIPAddressInUse";

/** Reasons of the events about failed writes. upstream: the repositories of public IPs and load balancers. */
const failureReasons: Readonly<Partial<Record<Write["kind"], string>>> = {
  "put-public-ip": "CreateOrUpdatePublicIPAddress",
  "delete-public-ip": "DeletePublicIPAddress",
  "delete-load-balancer": "DeleteLoadBalancer",
};

export interface OutcomesOptions {
  readonly activity: Activity;
  readonly context: Pick<CloudContext, "signal" | "events" | "log">;
  readonly wanted: ReadonlyMap<ServiceKey, Wanted>;
  readonly inFlight: InFlight;
  readonly tickSoon: () => void;
  readonly unended: Pick<UnendedOperations, "lost">;
  /** Called for a pool that is left with instances in flight; `end` resolves when none is, with an error if one failed. */
  readonly followUp: (poolId: string, end: Promise<unknown>) => void;
  /** Called when other nodes are behind a load balancer: the Services of the write have been planned with them. */
  readonly moved: (write: Write) => void;
}

type Of<Kind extends WriteOutcome["kind"]> = Extract<WriteOutcome, { readonly kind: Kind }>;

/** Handles the end of a write for each of its Services: done, retried after a conflict, rejected or failed. */
export class Outcomes {
  readonly #options: OutcomesOptions;
  readonly notices: Notices;
  readonly rejections = new Rejections();
  readonly outdated = new OutdatedBalancers();
  /** Lower-case ids of resources of which a write has failed, by Service, since that was last carried out. */
  readonly #failed = new Map<ServiceKey, Set<string>>();
  /** Lower-case ids of the pools for which a late operation is followed: each plan meanwhile finds it in flight again. */
  readonly #followed = new WeakMap<Promise<unknown>, Set<string>>();

  constructor(options: OutcomesOptions) {
    this.#options = options;
    this.notices = new Notices(options.context);
  }

  /** To be called when a Service is done with success. */
  cleared(key: ServiceKey): void {
    this.#failed.delete(key);
    this.rejections.cleared(key);
  }

  withFailures(intent: ServiceIntent): ServiceIntent {
    const failed = this.#failed.get(keyOf(intent.service));
    return failed === undefined ? intent : { ...intent, failed };
  }

  /** The write is no longer in flight when this resolves. Never rejects. */
  async take(flight: Flight, outcome: WriteOutcome): Promise<void> {
    const { inFlight } = this.#options;
    const { write } = outcome;
    const mayHaveWritten = outcome.kind !== "written" || outcome.requests > 0;
    // Membership is a part of the load balancer: its etag and back-references change with it.
    if (!isMembersWrite(write)) this.outdated.delete(write.id);
    else if (mayHaveWritten) this.outdated.add(write.id);
    if (outcome.kind === "unfinished") await this.#takeUnfinished(outcome);
    inFlight.end(flight);
    if (outcome.kind === "written" && mayHaveWritten && flight.movesNodes) this.#options.moved(write);
    if (outcome.kind === "written") this.#takeWritten(outcome);
    else if (outcome.kind === "conflict") this.#takeConflict(outcome);
    else if (outcome.kind === "failed") this.#takeFailure(outcome);
  }

  /** An instance may join late without harm to Services; a load balancer cannot be deleted before all have left it. */
  async #takeUnfinished(outcome: Of<"unfinished">): Promise<void> {
    const { inFlight, followUp, moved, tickSoon } = this.#options;
    const { write, ends } = outcome;
    const end = firstError(ends);
    if (write.kind === "release-pools") await end;
    else {
      // The lock is held until then.
      const rest = inFlight.add({ services: [], holds: [], wave: undefined });
      const ended = end.finally(() => {
        this.outdated.add(write.id);
        for (const entry of this.#entries(write)) entry.undone(write);
        inFlight.end(rest);
        tickSoon();
      });
      if (this.#follow(write.id, ends)) {
        followUp(write.id, ended);
        // Not before: an instance that never joins would lead from one Service to the next.
        void ended.then((error) => (error === undefined ? moved(write) : undefined));
      }
      for (const entry of this.#entries(write)) entry.done(write);
    }
    this.#count(outcome);
  }

  /** False if all are followed for the pool already. */
  #follow(poolId: string, ends: readonly Promise<unknown>[]): boolean {
    const pool = poolId.toLowerCase();
    const added = ends.filter((end) => !this.#followed.get(end)?.has(pool));
    for (const end of added) this.#followed.getOrInsertComputed(end, () => new Set()).add(pool);
    return added.length > 0;
  }

  #takeWritten(outcome: Of<"written">): void {
    const { write } = outcome;
    this.#options.inFlight.written(write.id);
    this.#count(outcome);
    if (isMembersWrite(write)) for (const entry of this.#entries(write)) entry.done(write);
  }

  /** Releases the next rejected Services of each resource that no planned write and none in flight concerns. */
  releaseRejected(planned: readonly Write[]): void {
    const { inFlight, tickSoon } = this.#options;
    const ids = new Set(planned.map(({ id }) => id.toLowerCase()));
    const held = new Set(inFlight.current().flatMap(({ holds }) => holds.map((id) => id.toLowerCase())));
    if (this.rejections.releaseNext((id) => ids.has(id) || held.has(id))) tickSoon();
  }

  /** Each request once, although it is for the Services of all pools that it is about. */
  #count({ write, requests, shared }: Of<"written" | "unfinished">): void {
    for (const entry of this.#entries(write)) entry.wrote(requests);
    if (shared !== true) this.#options.activity.wrote(write.kind, requests);
  }

  #takeConflict({ write, error }: Of<"conflict">): void {
    if (this.#options.inFlight.conflicted(write.id)) return;
    const refusal = error instanceof Error ? error.cause : undefined;
    if (refusal instanceof ArmError && ignoredCodes.has(refusal.code)) this.#ignore(write, refusal);
    else this.#fail(this.#entries(write), error);
  }

  #takeFailure({ write, error }: Of<"failed">): void {
    const { context, unended, wanted } = this.#options;
    const entries = this.#entries(write);
    if (isLost(error) && !isMembersWrite(write)) unended.lost(write.id);
    if (error instanceof FencedError || context.signal.aborted) this.#fail([...wanted.values()], error);
    else if (error instanceof ArmError && ignoredCodes.has(error.code)) this.#ignore(write, error);
    else if (isMembersWrite(write)) {
      for (const entry of entries) {
        entry.memberFailed(error);
        entry.done(write);
      }
    } else if (isRejected(error) && isDivisible(write) && error instanceof Error) this.#takeRejection(write, error);
    else {
      this.#markFailed(write, entries);
      this.#recordFailure(write, entries, error);
      this.#fail(entries, error);
    }
  }

  /** Fails the Services at fault, once they are known; until then all are planned again, apart from each other. */
  #takeRejection(write: Write, error: Error): void {
    const entries = this.#entries(write);
    if (error instanceof ArmError && sameName(error.code, addressInUse)) this.#markFailed(write, entries);
    const services = entries.map(({ intent }) => intent.service);
    const failed = new Set(this.rejections.rejected(write.id.toLowerCase(), error, services));
    const rejected = entries.filter(({ intent }) => failed.has(intent.service));
    this.#recordFailure(write, rejected, error);
    this.#fail(rejected, error);
  }

  #markFailed({ id }: Write, entries: readonly Wanted[]): void {
    for (const { key } of entries) this.#failed.getOrInsertComputed(key, () => new Set()).add(id.toLowerCase());
  }

  #ignore(write: Write, error: ArmError): void {
    for (const entry of this.#entries(write)) entry.done(write);
    this.#recordFailure(write, this.#entries(write), error);
  }

  #recordFailure({ kind }: Write, entries: readonly Wanted[], error: unknown): void {
    const reason = failureReasons[kind];
    if (reason === undefined) return;
    for (const { key, intent } of entries)
      this.notices.record(intent.service, key, { type: "Warning", reason, message: recurringMessageOf(error) });
  }

  #fail(entries: readonly Wanted[], error: unknown): void {
    for (const entry of entries) entry.fail(error);
  }

  #entries({ services }: Write): readonly Wanted[] {
    return services.flatMap((key) => this.#options.wanted.get(key) ?? []);
  }
}

/** True if ARM may have rejected some Services of the write, and accept others. */
const isDivisible = (write: Write): boolean => !("repeats" in write);

const firstError = async (ends: readonly Promise<unknown>[]): Promise<unknown> =>
  (await Promise.all(ends)).find((error) => error !== undefined);

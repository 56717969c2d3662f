import { isDeepStrictEqual } from "node:util";

import {
  annotations,
  CodedError,
  keyOf,
  type LoadBalancerStatus,
  messageOf,
  RefusedError,
  type Service,
} from "cloud-controller-host/sdk";

import type { PlanProblem, ServiceIntent, ServiceKey } from "../model/model.ts";
import type { Write } from "../model/plan-model.ts";
import { ResourceLockError } from "./resource-lock.ts";

export interface Reconciled {
  readonly status: LoadBalancerStatus | undefined;
  /** Requests that changed something for this Service, alone or with others. */
  readonly writes: number;
}

/** Writes of one resource for one Service until it must be done; more is a defect, or Azure does not show them. */
const maxStarts = 6;

/** Names a write of membership: it has no effect that the next plan would see at once. */
export function doneKey(write: Write): string {
  const details = write.kind === "update-members" ? `${write.join.join()} ${write.leave.join()}` : "";
  return `${write.kind} ${write.id} ${details}`.toLowerCase();
}

/** A Service on its way to its desired state: its newest intent, and the callers that wait for it. */
export class Wanted {
  readonly key: ServiceKey;
  #intent: ServiceIntent;
  readonly #waiters = new Set<PromiseWithResolvers<Reconciled>>();
  /** Writes that were started for the newest intent, by kind and resource. */
  readonly #starts = new Map<string, number>();
  /** Writes whose effect is not observed yet, or which had none: the next plan holds them again. */
  readonly #done = new Map<string, Write>();
  #requests = 0;
  #isPlanned = false;
  #failure: { readonly error: unknown } | undefined;
  #result: Reconciled | undefined;
  /** Of backend-pool membership: reported at the end, because all else can be done without. */
  #memberError: { readonly error: unknown } | undefined;

  constructor(intent: ServiceIntent) {
    this.key = keyOf(intent.service);
    this.#intent = intent;
  }

  get intent(): ServiceIntent {
    return this.#intent;
  }

  /** The Service, if a write of it may create something. */
  get ensured(): readonly Service[] {
    return this.#intent.action === "ensure" ? [this.#intent.service] : [];
  }

  /** Why it was abandoned. */
  get failure(): { readonly error: unknown } | undefined {
    return this.#failure;
  }

  /** A deletion is not superseded by an ensure of the same Service that has crossed it. */
  want(intent: ServiceIntent): void {
    if (this.#intent.action === "delete" && intent.action === "ensure") return;
    this.#intent = intent;
    this.#starts.clear();
  }

  /** Rejects with the reason of the signal as long as nothing was planned. */
  wait(signal: AbortSignal | undefined, abandoned: () => void): Promise<Reconciled> {
    const waiter = Promise.withResolvers<Reconciled>();
    const cancel = (): void => {
      if (this.#isPlanned || !this.#waiters.delete(waiter)) return;
      waiter.reject(signal?.reason);
      if (this.#waiters.size === 0) abandoned();
    };
    this.#waiters.add(waiter);
    signal?.addEventListener("abort", cancel, { once: true });
    return waiter.promise.finally(() => signal?.removeEventListener("abort", cancel));
  }

  planned(): void {
    this.#isPlanned = true;
  }

  /** Counts the start of a write. False when the resource was written too often for the Service, which fails. */
  countStart({ kind, id }: Write): boolean {
    const resource = `${kind} ${id}`.toLowerCase();
    const starts = (this.#starts.get(resource) ?? 0) + 1;
    this.#starts.set(resource, starts);
    if (starts > maxStarts) this.fail(this.unsettled(id));
    return starts <= maxStarts;
  }

  wrote(requests: number): void {
    this.#requests += requests;
  }

  done(write: Write): void {
    this.#done.set(doneKey(write), write);
  }

  /** The late part of the write has ended: it is planned again. */
  undone(write: Write): void {
    this.#done.delete(doneKey(write));
  }

  isDone(write: Write): boolean {
    return this.#done.has(doneKey(write));
  }

  /** Returns those that are not planned any more: they have had their effect. Planned once more, they are needed again. */
  takeDone(planned: ReadonlySet<string>): readonly Write[] {
    const gone = [...this.#done].filter(([key]) => !planned.has(key));
    for (const [key] of gone) this.#done.delete(key);
    return gone.map(([, write]) => write);
  }

  fail(error: unknown): void {
    this.#failure ??= { error };
  }

  /** A failed read is a problem, too, but no refusal: its outcome is unknown. */
  refuse({ code, messages }: PlanProblem): void {
    const Problem = code === "ZonesNotRead" ? CodedError : RefusedError;
    this.fail(new Problem(code, messages.join("; ")));
  }

  memberFailed(error: unknown): void {
    this.#memberError = { error };
  }

  /** Nothing of it is planned or in flight. */
  finish(status: LoadBalancerStatus | undefined, isSettled: boolean): void {
    if (this.#memberError !== undefined) this.fail(this.#memberError.error);
    else if (isSettled) this.#result = { status, writes: this.#requests };
    else this.fail(this.unsettled());
  }

  get isEnded(): boolean {
    return this.#failure !== undefined || this.#result !== undefined;
  }

  /** To be called once, at the end. `unlockError`: the lock could not be released after the last write. */
  settle(unlockError: unknown): void {
    const error = unlockError === undefined ? this.#failure?.error : this.#withUnlockError(unlockError);
    for (const { resolve, reject } of this.#waiters)
      if (error === undefined && this.#result !== undefined) resolve(this.#result);
      else reject(error);
  }

  /** Words of upstream, which the operation's name precedes. */
  #withUnlockError(unlockError: unknown): unknown {
    if (this.#failure === undefined) return this.#requests > 0 ? unlockError : undefined;
    const { error } = this.#failure;
    const message = `failed due to ${messageOf(error)}, and when unlocking azure resources another error happened: ${messageOf(unlockError)}`;
    return new ResourceLockError("ResourcesLocked", message, { cause: error });
  }

  /** Fails: nothing more is planned for the Service. */
  supersede(): readonly [] {
    this.fail(superseded(this.#intent.service));
    return [];
  }

  /** `id`: the resource that was written in vain. */
  unsettled(id = "it"): CodedError {
    const message = `${this.key}: Azure does not return the written state yet; ${id} is read again later`;
    return new CodedError("NotSettled", message);
  }
}

/** The error of an intent for a Service that is another one's by now, or wants something else. */
export const superseded = (service: Service): CodedError =>
  new CodedError(
    "Superseded",
    `${keyOf(service)} is being deleted, was replaced, has changed its type to or from LoadBalancer, or has another loadBalancerClass or ${annotations.servedBy} annotation`,
  );

/** True for two versions of a Service with the same wish. */
export const sameWish = (left: Service, right: Service): boolean =>
  isDeepStrictEqual([left.spec, left.metadata?.annotations], [right.spec, right.metadata?.annotations]);

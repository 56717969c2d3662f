import { keepLatest } from "../../keep-latest.ts";
import { ArmFault } from "../faults.ts";

export const supersededCode = "CanceledAndSupersededDueToAnotherOperation";

/** The end of a long-running operation. */
export interface Outcome {
  /** Called when the operation succeeds; returns the resource as it is read from then on. */
  finish(): unknown;
  /** Called when it fails. */
  fail(fault: ArmFault): void;
  readonly fault: ArmFault | undefined;
}

export interface OperationSettings {
  /** Number of polls before an operation ends; with 0, all end at once, and only creations are answered with one. */
  readonly polls: number;
  /** The headers with the URL to poll. ARM has services of either style. With `none`, what ends at once has none. */
  readonly style: "azure-asyncoperation" | "location" | "both" | "none";
  /** Time after its last poll after which an operation ends by itself; default one minute. */
  readonly maxUnpolledMs?: number | undefined;
  /** Load balancers show a network interface in their pools as it was before an operation in progress. */
  readonly showsMembersLate?: boolean | undefined;
}

/** Those that are remembered. */
const maxOperations = 10_000;
/** The client that started it may have ended: ARM's operations end without a poll. */
const defaultMaxUnpolledMs = 60_000;

type Status = "InProgress" | "Succeeded" | "Failed" | "Canceled";

interface Operation {
  readonly target: string;
  readonly outcome: Outcome;
  pollsLeft: number;
  polledMs: number;
  status: Status;
  fault: ArmFault | undefined;
  result: unknown;
}

export interface Progress {
  readonly status: Status;
  readonly fault: ArmFault | undefined;
  readonly result: unknown;
}

/**
 * Long-running operations: each one ends after a number of polls, or some time after the last one, unless a later write of
 * its resource supersedes it.
 */
export class Operations {
  readonly settings: OperationSettings;
  readonly #operations = new Map<string, Operation>();
  readonly #current = new Map<string, Operation>();
  /** Operations of a resource last while this is true. */
  lasts: (target: string) => boolean = () => false;

  constructor(settings: OperationSettings) {
    this.settings = settings;
  }

  /** Lower-case ids of the resources with an operation in progress. */
  get underway(): readonly string[] {
    return [...this.#current.keys()];
  }

  start(target: string, outcome: Outcome): string {
    const key = target.toLowerCase();
    this.supersede(key);
    const id = crypto.randomUUID();
    const operation: Operation = {
      target: key,
      outcome,
      pollsLeft: Math.max(1, this.settings.polls),
      polledMs: performance.now(),
      status: "InProgress",
      fault: undefined,
      result: undefined,
    };
    this.#operations.set(id, operation);
    keepLatest(this.#operations, maxOperations);
    this.#current.set(key, operation);
    return id;
  }

  /** Cancels the current operation of a resource, as a later write of it does. */
  supersede(target: string): void {
    const operation = this.#current.get(target.toLowerCase());
    if (operation === undefined) return;
    operation.status = "Canceled";
    operation.fault = new ArmFault(
      409,
      supersededCode,
      "Operation was canceled because it was superseded by another operation on the same resource.",
    );
    this.#current.delete(operation.target);
  }

  /** One poll. Undefined for an unknown operation. */
  poll(id: string): Progress | undefined {
    const operation = this.#operations.get(id);
    if (operation === undefined) return undefined;
    operation.pollsLeft -= 1;
    operation.polledMs = performance.now();
    if (operation.status === "InProgress" && operation.pollsLeft <= 0 && !this.lasts(operation.target))
      this.#end(operation);
    return operation;
  }

  /** Ends operations that have not been polled for long, so that the next request sees their result. */
  endUnpolled(): void {
    const since = performance.now() - (this.settings.maxUnpolledMs ?? defaultMaxUnpolledMs);
    for (const operation of this.#current.values())
      if (operation.polledMs <= since && !this.lasts(operation.target)) this.#end(operation);
  }

  #end(operation: Operation): void {
    const { outcome } = operation;
    this.#current.delete(operation.target);
    operation.status = outcome.fault === undefined ? "Succeeded" : "Failed";
    operation.fault = outcome.fault;
    if (outcome.fault === undefined) operation.result = outcome.finish();
    else outcome.fail(outcome.fault);
  }
}

import { ArmFault } from "./faults.ts";

export const supersededCode = "CanceledAndSupersededDueToAnotherOperation";

/** How a long-running operation ends. */
export interface Outcome {
  /** Called when the operation ends well; returns what a read of the resource then finds. */
  finish(): unknown;
  /** Called when it ends badly instead. */
  fail(fault: ArmFault): void;
  readonly fault: ArmFault | undefined;
}

export interface OperationSettings {
  /** How often an operation has to be polled before it ends; 0: writes end at once. */
  readonly polls: number;
  /** Which headers name the place to poll. ARM has services of either style. */
  readonly style: "azure-asyncoperation" | "location" | "both";
}

type Status = "InProgress" | "Succeeded" | "Failed" | "Canceled";

interface Operation {
  readonly target: string;
  readonly outcome: Outcome;
  pollsLeft: number;
  status: Status;
  fault: ArmFault | undefined;
  result: unknown;
}

export interface Progress {
  readonly status: Status;
  readonly fault: ArmFault | undefined;
  readonly result: unknown;
}

/** Long-running operations: each one ends after a number of polls, unless a later write of its resource supersedes it. */
export class Operations {
  readonly settings: OperationSettings;
  readonly #operations = new Map<string, Operation>();
  readonly #current = new Map<string, Operation>();

  constructor(settings: OperationSettings) {
    this.settings = settings;
  }

  start(target: string, outcome: Outcome): string {
    const key = target.toLowerCase();
    this.supersede(key);
    const id = crypto.randomUUID();
    const operation: Operation = {
      target: key,
      outcome,
      pollsLeft: Math.max(1, this.settings.polls),
      status: "InProgress",
      fault: undefined,
      result: undefined,
    };
    this.#operations.set(id, operation);
    this.#current.set(key, operation);
    return id;
  }

  /** Cancels the operation that a resource is in, as a later write of it does. */
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

  /** One poll. Undefined for an operation that never was. */
  poll(id: string): Progress | undefined {
    const operation = this.#operations.get(id);
    if (operation === undefined) return undefined;
    operation.pollsLeft -= 1;
    if (operation.status === "InProgress" && operation.pollsLeft <= 0) this.#end(operation);
    return operation;
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

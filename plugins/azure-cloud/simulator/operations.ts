import type { ArmFault } from "./faults.ts";

/** How a long-running operation ends when it has been asked for often enough. */
export interface Outcome {
  /** Called when the operation ends well. */
  finish(): void;
  /** The operation ends badly with this instead. */
  readonly fault: ArmFault | undefined;
}

interface Operation {
  pollsLeft: number;
  readonly outcome: Outcome;
  ended: boolean;
}

/** Long-running operations: each one ends after a number of polls. With none, writes are over when they are answered. */
export class Operations {
  readonly polls: number;
  readonly #operations = new Map<string, Operation>();

  constructor(polls: number) {
    this.polls = polls;
  }

  start(outcome: Outcome): string {
    const id = crypto.randomUUID();
    this.#operations.set(id, { pollsLeft: Math.max(1, this.polls), outcome, ended: false });
    return id;
  }

  /** One poll: what the operation's status document says now. Undefined for an operation that never was. */
  poll(id: string): { readonly status: "InProgress" | "Succeeded" | "Failed"; readonly error?: object } | undefined {
    const operation = this.#operations.get(id);
    if (operation === undefined) return undefined;
    operation.pollsLeft -= 1;
    if (operation.pollsLeft > 0) return { status: "InProgress" };
    const { fault } = operation.outcome;
    if (!operation.ended && fault === undefined) operation.outcome.finish();
    operation.ended = true;
    return fault === undefined
      ? { status: "Succeeded" }
      : { status: "Failed", error: { code: fault.code, message: fault.message } };
  }
}

import { CodedError } from "cloud-controller-host/sdk";

import { LinkedSignal } from "../async/linked-signal.ts";
import type { PlanRequest } from "../plan/plan.ts";

/** A faster plan shows no progress. */
const patienceMs = 1000;
const periodMs = 250;

interface Progress {
  /** Writes to a terminal. */
  readonly write: (text: string) => void;
  readonly changes: () => number;
}

const eraseLine = "\r\u001B[K";

/** Shows elapsed time and number of changes in one line, until disposed of. */
export function showProgress({ write, changes }: Progress): Disposable {
  const begun = performance.now();
  let isShown = false;
  const show = (): void => {
    const ms = performance.now() - begun;
    if (ms < patienceMs) return;
    isShown = true;
    const count = changes();
    const found = count === 0 ? "no change so far" : count === 1 ? "1 change so far" : `${count} changes so far`;
    write(`${eraseLine}Planning: ${Math.floor(ms / 1000)} s, ${found}`);
  };
  const timer = setInterval(show, periodMs);
  return {
    [Symbol.dispose]() {
      clearInterval(timer);
      if (isShown) write(eraseLine);
    },
  };
}

/** Makes a plan and shows its progress on a terminal. */
export async function withProgress<T>(
  request: PlanRequest,
  write: Progress["write"] | undefined,
  make: (request: PlanRequest) => Promise<T>,
): Promise<T> {
  if (write === undefined) return make(request);
  let changes = (): number => 0;
  using _ = showProgress({ write, changes: () => changes() });
  return await make({ ...request, began: (count) => void (changes = count) });
}

/** A signal that aborts when a plan has taken longer than `name` allows, until it is disposed of. */
export function limitOf(ms: number, name: string): LinkedSignal {
  const limit = new LinkedSignal();
  const seconds = ms / 1000;
  limit.setDeadline(
    ms,
    () => new CodedError("SyncFailed", `not all reads were answered within ${seconds} s (${name})`),
  );
  return limit;
}

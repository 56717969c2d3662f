import type { VirtualRuntime } from "./virtual-runtime.ts";

type Callback = (...args: readonly unknown[]) => unknown;

/** `setTimeout` fires after 1 ms beyond this, in Node and in Bun. */
const maxDelayMs = 0x7fff_ffff;
const delayOf = (ms: unknown): number => {
  const delay = Math.trunc(Number(ms ?? 0));
  return delay >= 1 && delay <= maxDelayMs ? delay : 1;
};

/** What `setTimeout` and `setInterval` return. */
class Timer {
  readonly #set: (timer: Timer) => () => void;
  #cancel: () => void;

  constructor(set: (timer: Timer) => () => void) {
    this.#set = set;
    this.#cancel = set(this);
  }

  refresh(): this {
    this.#cancel();
    this.#cancel = this.#set(this);
    return this;
  }

  close(): this {
    this.#cancel();
    return this;
  }

  ref(): this {
    return this;
  }

  unref(): this {
    return this;
  }

  hasRef(): boolean {
    return true;
  }

  [Symbol.dispose](): void {
    this.#cancel();
  }
}

const clear = (timer: unknown): void => {
  if (timer instanceof Timer) timer.close();
};

/** The timer functions of the global scope, in virtual time. */
export function timersOf(runtime: () => VirtualRuntime): Readonly<Record<string, unknown>> {
  const setTimeout = (callback: Callback, ms?: unknown, ...args: readonly unknown[]): Timer =>
    new Timer(() => runtime().after(delayOf(ms), () => void callback(...args)));
  const setInterval = (callback: Callback, ms?: unknown, ...args: readonly unknown[]): Timer =>
    new Timer((timer) =>
      runtime().after(delayOf(ms), () => {
        timer.refresh();
        callback(...args);
      }),
    );
  const setImmediate = (callback: Callback, ...args: readonly unknown[]): Timer =>
    new Timer(() => runtime().after(0, () => void callback(...args)));
  return {
    setTimeout,
    setInterval,
    setImmediate,
    clearTimeout: clear,
    clearInterval: clear,
    clearImmediate: clear,
  };
}

/** A promise that resolves after a time, or rejects when the signal aborts: `node:timers/promises`. */
export function sleep<T>(
  runtime: VirtualRuntime,
  ms: number,
  value: T,
  options: { readonly signal?: AbortSignal } = {},
): Promise<T> {
  const { signal } = options;
  return new Promise((resolve, reject) => {
    const aborted = (): void => {
      cancel();
      reject(new DOMException("The operation was aborted", "AbortError"));
    };
    const cancel = runtime.after(ms, () => {
      signal?.removeEventListener("abort", aborted);
      resolve(value);
    });
    if (signal?.aborted) aborted();
    else signal?.addEventListener("abort", aborted, { once: true });
  });
}

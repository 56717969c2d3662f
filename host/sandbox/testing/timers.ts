import { AsyncLocalStorage } from "node:async_hooks";

import type { ControllerContext } from "cloud-controller-host/sdk";

type Timers = Set<object>;
const working = new AsyncLocalStorage<Timers>();

/**
 * Counts the timers that are set within `WorkTimers.inside`, until it is disposed of. The work is identified by its
 * asynchronous context. Timers of `node:timers` are not counted.
 */
export function countTimers(): Disposable {
  const { setTimeout, setInterval } = globalThis;
  const counting =
    (set: (...args: never[]) => object) =>
    (...args: readonly unknown[]): object => {
      const timer: object = Reflect.apply(set, undefined, args);
      working.getStore()?.add(timer);
      return timer;
    };
  Object.assign(globalThis, { setTimeout: counting(setTimeout), setInterval: counting(setInterval) });
  return { [Symbol.dispose]: () => void Object.assign(globalThis, { setTimeout, setInterval }) };
}

export class WorkTimers {
  readonly #timers: Timers = new Set();

  inside<T>(work: () => T): T {
    return working.run(this.#timers, work);
  }

  /** Number of timers that have neither fired nor been cleared. */
  get open(): number {
    return [...this.#timers].filter((timer) => Reflect.get(timer, "_destroyed") === false).length;
  }
}

/** A context whose services run outside the caller's asynchronous context: their timers are not counted. */
export function outsideOfWork(context: ControllerContext): ControllerContext {
  const { client, events, clock, informers } = context;
  return {
    ...context,
    client: outside(client),
    events: outside(events),
    clock: outside(clock),
    informers: { of: (kind, options) => outside(working.exit(() => informers.of(kind, options))) },
    workqueue: (name, options) => outside(working.exit(() => context.workqueue(name, options))),
  };
}

/** Runs the service's methods outside the work, and callbacks passed to them inside it. */
function outside<T extends object>(service: T): T {
  return new Proxy(service, {
    get(target, key) {
      const value: unknown = Reflect.get(target, key, target);
      if (typeof value !== "function") return value;
      return (...args: readonly unknown[]): unknown => {
        const bound = args.map(calledBackInWork);
        return working.exit(() => Reflect.apply(value, target, bound));
      };
    },
  });
}

/** Binds a callback, or an object of callbacks, to the current work. */
function calledBackInWork(argument: unknown): unknown {
  const timers = working.getStore();
  if (timers === undefined) return argument;
  const bound =
    (callback: Callback, self: unknown) =>
    (...args: readonly unknown[]): unknown =>
      working.run(timers, () => callback.apply(self, [...args]));
  if (isCallback(argument)) return bound(argument, undefined);
  if (typeof argument !== "object" || argument === null) return argument;
  const callbacks = Object.entries(argument).flatMap(([key, value]: readonly [string, unknown]) =>
    isCallback(value) ? [[key, bound(value, argument)] as const] : [],
  );
  return callbacks.length === 0 ? argument : { ...argument, ...Object.fromEntries(callbacks) };
}

type Callback = (...args: readonly unknown[]) => unknown;
const isCallback = (value: unknown): value is Callback => typeof value === "function";

import { AsyncLocalStorage } from "node:async_hooks";

import type { ControllerContext } from "cloud-controller-host/sdk";

type Timers = Set<object>;
const working = new AsyncLocalStorage<Timers>();

/**
 * Until it is disposed of, timers that are set inside of a piece of work are noted, be it much later: the work is known
 * by its asynchronous context. What is imported from `node:timers` is not seen.
 */
export function noteTimers(): Disposable {
  const { setTimeout, setInterval } = globalThis;
  const noting =
    (set: (...args: never[]) => object) =>
    (...args: readonly unknown[]): object => {
      const timer: object = Reflect.apply(set, undefined, args);
      working.getStore()?.add(timer);
      return timer;
    };
  Object.assign(globalThis, { setTimeout: noting(setTimeout), setInterval: noting(setInterval) });
  return { [Symbol.dispose]: () => void Object.assign(globalThis, { setTimeout, setInterval }) };
}

/** The timers of one piece of work. */
export class WorkTimers {
  readonly #timers: Timers = new Set();

  inside<T>(work: () => T): T {
    return working.run(this.#timers, work);
  }

  /** How many have neither fired nor been cleared; an interval fires for ever. */
  get open(): number {
    return [...this.#timers].filter((timer) => Reflect.get(timer, "_destroyed") === false).length;
  }
}

/** The context, whose services set timers for themselves and not for the work that calls them. */
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

/** The service, which is left to itself when it is called; what it calls back is part of the work again. */
function outside<T extends object>(service: T): T {
  return new Proxy(service, {
    get(target, key) {
      const value: unknown = Reflect.get(target, key, target);
      if (typeof value !== "function") return value;
      return (...args: readonly unknown[]): unknown => {
        const given = args.map(calledBackInWork);
        return working.exit(() => Reflect.apply(value, target, given));
      };
    },
  });
}

/** A callback, or an object of callbacks, bound to the work that goes on now; all else is left as it is. */
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

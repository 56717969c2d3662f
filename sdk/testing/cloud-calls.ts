import type { Instances, LoadBalancers, NodeMasks, Routes } from "../cloud.ts";

type Capabilities = Instances &
  Omit<LoadBalancers, "loadBalancerName" | "updateLoadBalancers" | "leaveLoadBalancer" | "warnings" | "watch"> &
  Routes &
  NodeMasks;

/** Every asynchronous method of a cloud, by its name in the contract. */
export type CloudMethod = keyof Capabilities;
/** Arguments of a method. */
export type CloudArguments<M extends CloudMethod> = Parameters<Capabilities[M]>;
/** Result of a method. */
export type CloudResult<M extends CloudMethod> = Awaited<ReturnType<Capabilities[M]>>;

/** One call. `target` is the node's name, the Service's key, or the route's target node. */
export interface CloudCallRecord {
  readonly method: CloudMethod;
  readonly target: string;
  readonly args: readonly unknown[];
  /** False while the call is in flight. */
  readonly ended: boolean;
}

/** Intercepts a method: returns, throws, waits, or calls `proceed` for the next interceptor or the method. */
export type CloudInterceptor<M extends CloudMethod> = (call: {
  readonly target: string;
  readonly args: CloudArguments<M>;
  readonly signal: AbortSignal | undefined;
  readonly proceed: () => Promise<CloudResult<M>>;
}) => Promise<CloudResult<M>>;

/** A method whose calls wait. */
export interface CloudHold {
  /** Number of calls that wait now. */
  readonly waiting: number;
  /** Unblocks the waiting calls and all further ones. */
  release(): void;
}

/** The recorded calls of a cloud, and ways to change their outcome. */
export interface CloudCalls {
  readonly calls: readonly CloudCallRecord[];
  readonly callsOf: (method: CloudMethod) => readonly CloudCallRecord[];
  /** The latest interceptor runs first. */
  readonly intercept: <M extends CloudMethod>(method: M, interceptor: CloudInterceptor<M>) => { remove(): void };
  /** Fails the next `times` calls (default: all) for `target` (default: any). */
  readonly fail: (
    method: CloudMethod,
    error: Error,
    only?: { readonly times?: number; readonly target?: string },
  ) => void;
  /** Blocks calls until released. With `stubborn`, an aborted signal does not end them. */
  readonly hold: (method: CloudMethod, options?: { readonly stubborn?: boolean }) => CloudHold;
}

type Real<M extends CloudMethod> = (...args: CloudArguments<M>) => Promise<CloudResult<M>>;

export interface CloudScript extends CloudCalls {
  method<M extends CloudMethod>(method: M, target: (...args: CloudArguments<M>) => string, real: Real<M>): Real<M>;
}

export function cloudScript(): CloudScript {
  const calls: (CloudCallRecord & { ended: boolean })[] = [];
  const layers: { readonly [M in CloudMethod]: CloudInterceptor<M>[] } = {
    instanceExists: [],
    instanceShutdown: [],
    instanceMetadata: [],
    getLoadBalancer: [],
    ensureLoadBalancer: [],
    updateLoadBalancer: [],
    ensureLoadBalancerDeleted: [],
    listRoutes: [],
    createRoute: [],
    deleteRoute: [],
    nodeMasks: [],
  };

  const script: CloudScript = {
    calls,
    callsOf: (method) => calls.filter((call) => call.method === method),
    intercept(method, interceptor) {
      const stack = layers[method];
      stack.unshift(interceptor);
      return {
        remove() {
          const place = stack.indexOf(interceptor);
          if (place >= 0) stack.splice(place, 1);
        },
      };
    },
    fail(method, error, { times = Number.POSITIVE_INFINITY, target } = {}) {
      let left = times;
      script.intercept(method, async (call) => {
        if (left <= 0 || (target !== undefined && target !== call.target)) return await call.proceed();
        left--;
        throw error;
      });
    },
    hold: (method, options) => holdCalls(script, method, options?.stubborn ?? false),
    method<M extends CloudMethod>(method: M, target: (...args: CloudArguments<M>) => string, real: Real<M>): Real<M> {
      return async (...args: CloudArguments<M>): Promise<CloudResult<M>> => {
        const call = { method, target: target(...args), args, ended: false };
        const signal = signalIn(args);
        calls.push(call);
        const descend = async (depth: number): Promise<CloudResult<M>> => {
          signal?.throwIfAborted();
          const layer = layers[method][depth];
          if (layer === undefined) return await real(...args);
          return await layer({ target: call.target, args, signal, proceed: () => descend(depth + 1) });
        };
        try {
          return await descend(0);
        } finally {
          call.ended = true;
        }
      };
    },
  };
  return script;
}

function holdCalls(script: CloudScript, method: CloudMethod, stubborn: boolean): CloudHold {
  const waiting = new Set<() => void>();
  const interception = script.intercept(method, async ({ signal, proceed }) => {
    const heeded = stubborn ? undefined : signal;
    const { promise, resolve } = Promise.withResolvers<void>();
    waiting.add(resolve);
    heeded?.addEventListener("abort", () => resolve(), { once: true });
    await promise;
    waiting.delete(resolve);
    return await proceed();
  });
  return {
    get waiting() {
      return waiting.size;
    },
    release() {
      interception.remove();
      for (const resolve of waiting) resolve();
    },
  };
}

function signalIn(args: readonly unknown[]): AbortSignal | undefined {
  for (const argument of args)
    if (typeof argument === "object" && argument !== null && "signal" in argument)
      if (argument.signal instanceof AbortSignal) return argument.signal;
  return undefined;
}

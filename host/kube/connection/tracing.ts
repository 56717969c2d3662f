import type { WorkQueue } from "cloud-controller-host/sdk";

import type { Tracer } from "../../async/tracer.ts";
import type { Transport } from "./transport.ts";

/** Creates a span per request, except for watches, which last as long as the process. */
export function traceTransport(inner: Transport, tracer: Tracer): Transport {
  return {
    url: inner.url,
    userAgent: inner.userAgent,
    protobuf: inner.protobuf ?? false,
    send: (request) =>
      request.stream === true
        ? inner.send(request)
        : tracer.span(
            `kubernetes ${request.method}`,
            { "http.request.method": request.method, "url.path": request.path, "user_agent.original": inner.userAgent },
            () => inner.send(request),
          ),
    close: () => inner.close(),
  };
}

/** Creates a span per reconcile, the parent of its requests. `mark` runs the synchronous part of each. */
export function traceQueue(queue: WorkQueue, tracer: Tracer, mark: <T>(work: () => T) => T): WorkQueue {
  const process: WorkQueue["process"] = (options) =>
    queue.process({
      ...options,
      sync: (key) =>
        tracer.span(`reconcile ${queue.name}`, { queue: queue.name, key }, () => mark(() => options.sync(key))),
    });
  return {
    name: queue.name,
    get length() {
      return queue.length;
    },
    add: (key) => queue.add(key),
    addAfter: (key, delayMs) => queue.addAfter(key, delayMs),
    addRateLimited: (key) => queue.addRateLimited(key),
    forget: (key) => queue.forget(key),
    requeues: (key) => queue.requeues(key),
    get: () => queue.get(),
    done: (key) => queue.done(key),
    shutDown: () => queue.shutDown(),
    process,
  };
}

import { ApiError, type Informer, type KubeObject, type Lease } from "cloud-controller-host/sdk";

import type { ApiRequest, Transport } from "../../host/kube/connection/transport.ts";
import type { ProcessTime, Timeline } from "./timeline.ts";

export const requestFaults = ["delay", "drop", "dropReply", "duplicate", "409", "429", "500", "503"] as const;
export type RequestFault = (typeof requestFaults)[number];

/** For a while, requests of one host fail in one way. */
export interface FaultWindow {
  readonly host: number;
  readonly fault: RequestFault | "partition";
  readonly until: number;
}

export interface Caller {
  readonly host: number;
  readonly time: ProcessTime;
  /** Called as a request is sent; what it throws is a violation of the simulation, not a failure of the request. */
  sent(request: ApiRequest): void;
}

interface Reply {
  readonly status: number;
  readonly reason: string;
  readonly body: unknown;
}

const leasePath = /^\/apis\/coordination\.k8s\.io\/v1\/namespaces\/([^/]+)\/leases(?:\/([^/]+))?$/;
const meanLatencyMs = 4;

/** An API server that holds one Lease, accepts every other write, and answers over a network that fails on request. */
export class SimulatedApiServer {
  readonly #timeline: Timeline;
  readonly #watchers = new Set<LeaseWatcher>();
  #lease: Lease | undefined;
  #version = 0;
  faults: FaultWindow[] = [];

  constructor(timeline: Timeline) {
    this.#timeline = timeline;
  }

  get lease(): Lease | undefined {
    return this.#lease;
  }

  /** Somebody with kubectl. */
  edit(change: (lease: Lease | undefined) => Lease | undefined): void {
    const before = this.#lease;
    const after = change(before);
    this.#store(after, before);
  }

  transport(caller: Caller): Transport {
    return {
      url: "https://simulated",
      userAgent: "simulation",
      close: () => undefined,
      send: (request) => this.#send(caller, request),
    };
  }

  /** An informer of the Lease, of which only the handlers are used. */
  informer<T extends KubeObject>(caller: Caller): Informer<T> {
    return {
      store: { get: () => undefined, list: () => [], size: 0 },
      hasSynced: () => true,
      handle: (handler) => {
        const call = (name: "updated" | "deleted", ...leases: readonly Lease[]): void => {
          const method: unknown = Reflect.get(handler, name);
          if (typeof method === "function") Reflect.apply(method, handler, leases);
        };
        const watcher = { caller, call };
        this.#watchers.add(watcher);
        return { remove: () => void this.#watchers.delete(watcher) };
      },
    };
  }

  #send(caller: Caller, request: ApiRequest): Promise<Response> {
    const { promise, resolve, reject } = Promise.withResolvers<Response>();
    const { signal } = request;
    const abort = (): void => reject(signal?.reason);
    try {
      signal?.throwIfAborted();
      request.guard?.();
      caller.sent(request);
    } catch (error) {
      return Promise.reject(error);
    }
    const settled = caller.time.onAbort(signal, abort);
    const body = request.body === undefined ? undefined : JSON.parse(JSON.stringify(request.body));
    const answer = (reply: Reply): void => {
      if (this.#isCut(caller)) return;
      const late = this.#faultOf(caller);
      if (late === "dropReply") return;
      this.#timeline.after(this.#latency(late), () => {
        caller.time.deliver(() => {
          settled();
          if (reply.status < 300) resolve(new Response(JSON.stringify(reply.body), { status: reply.status }));
          else reject(new ApiError(reply.status, reply.reason, `simulated ${reply.status} ${reply.reason}`));
        });
      });
    };
    const fault = this.#faultOf(caller);
    if (this.#isCut(caller) || fault === "drop") return promise;
    this.#timeline.after(this.#latency(fault), () => {
      // A request whose connection was closed before it arrived is not carried out.
      if (signal?.aborted && caller.time.state !== "dead") return;
      answer(failureOf(fault) ?? this.#handle(request, body));
      if (fault === "duplicate") this.#handle(request, body);
    });
    return promise;
  }

  #isCut({ host }: Caller): boolean {
    return this.faults.some((window) => window.fault === "partition" && this.#hits(window, host));
  }

  #faultOf({ host }: Caller): RequestFault | undefined {
    const found = this.faults.find((window) => window.fault !== "partition" && this.#hits(window, host));
    if (found === undefined || found.fault === "partition" || this.#timeline.random() < 0.5) return undefined;
    return found.fault;
  }

  #hits({ host: afflicted, until }: FaultWindow, host: number): boolean {
    return afflicted === host && this.#timeline.now < until;
  }

  #latency(fault: RequestFault | undefined): number {
    const usual = meanLatencyMs * (0.5 + this.#timeline.random());
    return fault === "delay" ? usual + 8_000 * this.#timeline.random() : usual;
  }

  #handle({ method, path }: ApiRequest, body: Lease | undefined): Reply {
    const place = leasePath.exec(path);
    if (place === null) return { status: 200, reason: "", body: body ?? {} };
    if (method === "GET") return this.#lease === undefined ? notFound : ok(this.#lease);
    if (method === "POST") {
      if (this.#lease !== undefined) return { status: 409, reason: "AlreadyExists", body: {} };
      return ok(this.#store(body, undefined));
    }
    if (this.#lease === undefined) return notFound;
    if (body?.metadata?.resourceVersion !== this.#lease.metadata?.resourceVersion) return conflict;
    return ok(this.#store(body, this.#lease));
  }

  #store(lease: Lease | undefined, before: Lease | undefined): Lease | undefined {
    this.#version += 1;
    const metadata = { uid: `u${this.#version}`, ...lease?.metadata, resourceVersion: String(this.#version) };
    this.#lease =
      lease && JSON.parse(JSON.stringify({ ...lease, metadata, apiVersion: "coordination.k8s.io/v1", kind: "Lease" }));
    const after = this.#lease;
    for (const { caller, call } of this.#watchers) {
      if (this.#isCut(caller)) continue;
      this.#timeline.after(this.#latency(undefined), () =>
        caller.time.deliver(() => {
          if (after === undefined) call("deleted", before ?? {});
          else call("updated", before ?? after, after);
        }),
      );
    }
    return after;
  }
}

interface LeaseWatcher {
  readonly caller: Caller;
  readonly call: (name: "updated" | "deleted", ...leases: readonly Lease[]) => void;
}

const ok = (body: unknown): Reply => ({ status: 200, reason: "", body });
const notFound: Reply = { status: 404, reason: "NotFound", body: {} };
const conflict: Reply = { status: 409, reason: "Conflict", body: {} };

const failures: Readonly<Partial<Record<RequestFault, Reply>>> = {
  409: conflict,
  429: { status: 429, reason: "TooManyRequests", body: {} },
  500: { status: 500, reason: "InternalError", body: {} },
  503: { status: 503, reason: "ServiceUnavailable", body: {} },
};
const failureOf = (fault: RequestFault | undefined): Reply | undefined =>
  fault === undefined ? undefined : failures[fault];

/** True for the request that releases the Lease. */
export const isRelease = ({ method, body }: ApiRequest): boolean =>
  method === "PUT" && JSON.stringify(body ?? "").includes('"holderIdentity":""');

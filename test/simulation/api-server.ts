import { ApiError, CodedError, type Lease } from "cloud-controller-host/sdk";

import type { ApiRequest, Transport } from "../../host/kube/connection/transport.ts";
import { ClusterStore, conflict, type Reply } from "./cluster-store.ts";
import type { ProcessTime, Timeline } from "./timeline.ts";
import { SimulatedWatch } from "./watch.ts";

export const requestFaults = [
  "delay",
  "lateReply",
  "drop",
  "dropReply",
  "duplicate",
  "409",
  "429",
  "500",
  "503",
  "garbage",
  "garbage",
] as const;
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
  /** Called as a request takes effect. `sentAt` is in virtual time. */
  carriedOut(request: ApiRequest, sentAt: number): void;
}

/** Holder identity of the process that steals the Lease. */
export const intruder = "an-intruder";

const meanLatencyMs = 4;
/** Limit of a read without a reply; shorter than the transport's, as all limits here. */
const readLimitMs = 6_500;

/** What a gateway in between may answer with status 200. */
const garbage = [
  "{}",
  '{"status":"ok"}',
  '{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","code":500}\n',
  "<html>\n<p>Sign in</p>\n</html>\n",
  '{"kind":"ConfigMapList","metadata":{"resourceVersion":"',
  '{"kind":"ConfigMapList","metadata":{},"items":[]}',
] as const;

/** An API server with a Lease and ConfigMaps, over a network that fails on request. */
export class SimulatedApiServer {
  readonly store: ClusterStore;
  readonly #timeline: Timeline;
  readonly #watches = new Set<SimulatedWatch>();
  faults: FaultWindow[] = [];

  constructor(timeline: Timeline) {
    this.#timeline = timeline;
    this.store = new ClusterStore((event) => {
      for (const watch of this.#watches) watch.deliver(event);
    });
  }

  get lease(): Lease | undefined {
    return this.store.lease;
  }

  /** Expires the resource versions from which a process watches. */
  expireWatches(time: ProcessTime): void {
    for (const watch of this.#watches) watch.expire(time);
  }

  /** Silently breaks the connections of a process's watches. */
  loseWatches(time: ProcessTime): void {
    for (const watch of this.#watches) watch.lose(time);
  }

  /** Makes the connections of a process's watches slow. */
  slowWatches(time: ProcessTime): void {
    for (const watch of this.#watches) watch.slow(time);
  }

  transport(caller: Caller): Transport {
    return {
      url: "https://simulated",
      userAgent: "simulation",
      close: () => undefined,
      send: (request) => this.#send(caller, request),
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
    const unlimited = request.method === "GET" ? this.#limit(caller, reject) : undefined;
    const ended = caller.time.onAbort(signal, abort);
    const body = request.body === undefined ? undefined : JSON.parse(JSON.stringify(request.body));
    const answer = (reply: Reply): void => {
      if (this.#isCut(caller)) return;
      const late = this.#faultOf(caller);
      if (late === "dropReply") return;
      this.#timeline.after(this.#latency(late), () => {
        caller.time.deliver(() => {
          ended();
          unlimited?.();
          if (reply.status < 300) resolve(responseOf(reply));
          else reject(new ApiError(reply.status, reply.reason, `simulated ${reply.status} ${reply.reason}`));
        });
      });
    };
    const fault = this.#faultOf(caller);
    const sentAt = this.#timeline.now;
    if (this.#isCut(caller) || fault === "drop") return promise;
    this.#timeline.after(this.#latency(fault === "lateReply" ? undefined : fault), () => {
      // A request whose connection was closed before it arrived is not carried out.
      if (signal?.aborted && caller.time.state !== "dead") return;
      const failure = this.#failureOf(fault);
      if (failure === undefined) caller.carriedOut(request, sentAt);
      answer(failure ?? this.#handle(caller, request, body));
      if (fault === "duplicate" && request.method !== "GET") this.#handle(caller, request, body);
    });
    return promise;
  }

  #limit({ time }: Caller, reject: (error: unknown) => void): () => void {
    const timeout = (): void => reject(new CodedError("Timeout", "no reply"));
    return this.#timeline.after(readLimitMs, () => time.deliver(timeout));
  }

  #handle(caller: Caller, request: ApiRequest, body: Lease | undefined): Reply {
    const { method, path, query = {} } = request;
    if (query["watch"] === undefined) return this.store.handle(method, path, body);
    if (query["sendInitialEvents"] !== undefined) return { status: 422, reason: "Invalid", body: {} };
    const events = this.store.since(path, Number(query["resourceVersion"]));
    if (events === undefined) return { status: 410, reason: "Expired", body: {} };
    const watch = new SimulatedWatch({
      timeline: this.#timeline,
      time: caller.time,
      collection: this.store.collectionOf(path),
      signal: request.signal,
      latency: () => this.#latency(undefined),
      isCut: () => this.#isCut(caller),
      ended: (ended) => void this.#watches.delete(ended),
    });
    this.#watches.add(watch);
    for (const event of events) watch.deliver(event);
    return { status: 200, reason: "", body: watch };
  }

  #failureOf(fault: RequestFault | undefined): Reply | undefined {
    if (fault !== "garbage") return fault === undefined ? undefined : failures[fault];
    const text = garbage[Math.floor(this.#timeline.random() * garbage.length)] ?? "";
    return { status: 200, reason: "", body: text };
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
    return fault === "delay" || fault === "lateReply" ? usual + 14_000 * this.#timeline.random() : usual;
  }
}

/** Texts are sent as they are, and everything else as JSON. */
function responseOf({ status, body }: Reply): Response {
  if (body instanceof SimulatedWatch) return new Response(body.stream, { status });
  return new Response(typeof body === "string" ? body : JSON.stringify(body), { status });
}

const failures: Readonly<Partial<Record<RequestFault, Reply>>> = {
  409: conflict,
  429: { status: 429, reason: "TooManyRequests", body: {} },
  500: { status: 500, reason: "InternalError", body: {} },
  503: { status: 503, reason: "ServiceUnavailable", body: {} },
};

/** True for the request that releases the Lease. */
export const isRelease = ({ method, body }: ApiRequest): boolean =>
  method === "PUT" && JSON.stringify(body ?? "").includes('"holderIdentity":""');

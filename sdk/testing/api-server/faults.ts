import { setTimeout } from "node:timers/promises";

import { StatusError } from "./access/status.ts";
import { matchesRequest, type RecordedRequest, type RequestMatch } from "./request-log.ts";

export type FaultEffect =
  /** An error reply. */
  | {
      readonly status: number;
      readonly reason?: string;
      readonly message?: string;
      readonly retryAfterSeconds?: number;
    }
  /** The connection breaks without a reply. */
  | "disconnect"
  /** No reply until the client gives up. */
  | "hang";

export interface Fault {
  readonly match: RequestMatch;
  readonly effect: FaultEffect;
  /** Number of requests that it applies to. Default 1. */
  readonly times?: number;
  /** The request is carried out first and only its reply is lost. Default false. */
  readonly afterwards?: boolean;
}

interface Armed {
  readonly fault: Fault;
  left: number;
}

/** Injected faults. */
export class Faults {
  #armed: Armed[] = [];
  #latencyMs = 0;

  /** Arms a fault until it has met its requests or is removed. */
  add(fault: Fault): { remove(): void } {
    const armed = { fault, left: fault.times ?? 1 };
    this.#armed.push(armed);
    return { remove: () => void (this.#armed = this.#armed.filter((other) => other !== armed)) };
  }

  /** Delays every request, in milliseconds. */
  latency(ms: number): void {
    this.#latencyMs = ms;
  }

  clear(): void {
    this.#armed = [];
    this.#latencyMs = 0;
  }

  /** True when no fault is pending. */
  get idle(): boolean {
    return this.#armed.length === 0 && this.#latencyMs === 0;
  }

  /** The first fault that meets the request; it is used up by that. */
  take(request: RecordedRequest): Fault | undefined {
    const armed = this.#armed.find(({ fault }) => matchesRequest(fault.match, request));
    if (armed === undefined) return undefined;
    armed.left -= 1;
    if (armed.left <= 0) this.#armed = this.#armed.filter((other) => other !== armed);
    return armed.fault;
  }

  /** Waits out the latency, or until `signal` aborts. */
  async hold(signal: AbortSignal): Promise<void> {
    if (this.#latencyMs > 0) await setTimeout(this.#latencyMs, undefined, { signal }).catch(() => undefined);
  }
}

/** The reply that a fault gives; throws the error of a fault that is an error reply. */
export async function faultyReply(effect: FaultEffect, signal: AbortSignal): Promise<Response> {
  if (effect === "hang") await aborted(signal);
  if (effect === "hang" || effect === "disconnect")
    return new Response(new ReadableStream({ start: (controller) => controller.error() }));
  const { status, reason = reasons[status] ?? "InternalError", message = "made to fail", retryAfterSeconds } = effect;
  throw new StatusError(status, reason, message, retryAfterSeconds === undefined ? {} : { retryAfterSeconds });
}

const reasons: Readonly<Record<number, string>> = {
  400: "BadRequest",
  401: "Unauthorized",
  403: "Forbidden",
  404: "NotFound",
  409: "Conflict",
  410: "Expired",
  429: "TooManyRequests",
  500: "InternalError",
  503: "ServiceUnavailable",
  504: "Timeout",
};

function aborted(signal: AbortSignal): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  if (signal.aborted) resolve();
  else signal.addEventListener("abort", () => resolve(), { once: true });
  return promise;
}

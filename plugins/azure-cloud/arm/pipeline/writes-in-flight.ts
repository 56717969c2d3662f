import type { PipelineRequest, PipelineResponse, SendRequest } from "@azure/core-rest-pipeline";
import type { Clock } from "cloud-controller-host/sdk";

import { linkSignals, reasonOf, sendWith } from "../transport/signals.ts";

/** ARM answers most writes within two seconds. Well within the time that a generation has for its drain. */
const replyLimitMs = 10_000;

/**
 * Writes whose replies are awaited. A write that is cut off may be carried out all the same, and the process or generation
 * that leads next may have read by then what it changes: that an instance is in a pool which it leaves now, or that nothing
 * is left of a Service. So the reply to what was sent is awaited, for a limited time, although its sender is to stop. The
 * operation that it begins is not: reads show that.
 */
export class WritesInFlight {
  readonly #clock: Clock;
  readonly #writes = new Set<Promise<PipelineResponse>>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Sends a write, which `fence` cuts off at once, and its own signal after the limit. */
  async send(request: PipelineRequest, next: SendRequest, fence: AbortSignal): Promise<PipelineResponse> {
    if (request.abortSignal?.aborted) throw reasonOf(request.abortSignal);
    const write = this.#send(request, next, fence);
    this.#writes.add(write);
    try {
      return await write;
    } finally {
      this.#writes.delete(write);
    }
  }

  /** Resolves once the signal has aborted and every write has ended. */
  async settled(signal: AbortSignal): Promise<void> {
    const stopped = Promise.withResolvers<void>();
    signal.addEventListener("abort", () => stopped.resolve(), { once: true });
    if (!signal.aborted) await stopped.promise;
    await Promise.allSettled(this.#writes);
  }

  async #send(request: PipelineRequest, next: SendRequest, fence: AbortSignal): Promise<PipelineResponse> {
    const sender = request.abortSignal;
    const [limit, replied] = [new AbortController(), new AbortController()];
    const stop = async (): Promise<void> => {
      await this.#clock.sleep(replyLimitMs, replied.signal);
      limit.abort(reasonOf(sender));
    };
    const onStop = (): void => void stop();
    sender?.addEventListener("abort", onStop);
    const link = linkSignals(fence, limit.signal);
    try {
      return await sendWith(link.signal, request, next);
    } finally {
      replied.abort();
      link.release();
      sender?.removeEventListener("abort", onStop);
    }
  }
}

import type { PipelinePolicy, PipelineRequest, PipelineResponse } from "@azure/core-rest-pipeline";
import { type Clock, isObject, RetryAfterError } from "cloud-controller-host/sdk";

import { TransportError } from "./fetch-client.ts";
import type { Troubles } from "./troubles.ts";

const retried = new Set([408, 500, 502, 503, 504]);
const retries = 3;
const firstDelayMs = 5_000;
const longestDelayMs = 60_000;

/** A longer wait is the mistake of a proxy or of a clock; a request that comes too soon costs one more 429. */
export const maxRetryAfterMs = 900_000;

/** ARM's own headers for a wait. The SDK, too, reads them before `Retry-After`. */
export const retryAfterMsHeaders = ["retry-after-ms", "x-ms-retry-after-ms"];

/**
 * The wait that a reply requests, in milliseconds, at most 15 minutes: `Retry-After` in seconds or as a date, or ARM's
 * own headers. Undefined without one, and for a value that is neither a date nor a number of at least 0.
 */
export function retryAfterMs(response: PipelineResponse, nowMs: number): number | undefined {
  for (const header of retryAfterMsHeaders) {
    const value = numberIn(response.headers.get(header));
    if (value !== undefined) return Math.min(maxRetryAfterMs, value);
  }
  const value = response.headers.get("retry-after");
  const seconds = numberIn(value);
  if (seconds !== undefined) return Math.min(maxRetryAfterMs, seconds * 1000);
  const date = Date.parse(dateIn(value));
  return Number.isNaN(date) ? undefined : Math.min(maxRetryAfterMs, Math.max(0, date - nowMs));
}

const numberIn = (value = ""): number | undefined => (/^\d+(\.\d+)?$/u.test(value) ? Number(value) : undefined);

/** Every form of an HTTP date begins with the day of the week; `Date.parse` takes "-5" for a month. */
const dateIn = (value = ""): string => (/^[A-Z][a-z]{2}/u.test(value) ? value : "");

/** Requests that failed in the network or in the service at least once, and the errors that they ended with. */
const lost = new WeakSet<object>();

/**
 * True if an attempt at the request failed in the network or in the service. It may have been carried out all the same,
 * whatever was the reply to a later one.
 */
export const hasLostAttempt = (error: unknown): boolean => isObject(error) && lost.has(error);

/** Passes on to the error of a request that an attempt at it was lost. */
export const lostAttemptsPolicy: PipelinePolicy = {
  name: "lost-attempts",
  async sendRequest(request, next) {
    try {
      return await next(request);
    } catch (error) {
      if (isObject(error) && lost.has(request)) lost.add(error);
      throw error;
    }
  },
};

/**
 * Retries what failed in the network or in the service (408, 500, 502, 503, 504), three times, after about 5, 15 and
 * 35 seconds or `Retry-After`. A wait of more than a minute is left to the caller. A 429 is not retried here: the budget
 * delays requests instead. It is a trouble until the service answers a request of that kind, or until `Troubles` forgets
 * it. Source: the retry options of upstream's ARM clients.
 */
export const retryPolicy = (
  clock: Clock,
  troubles: Troubles,
  kindOf: (request: PipelineRequest) => string,
): PipelinePolicy => ({
  name: "retry",
  async sendRequest(request, next) {
    const kind = kindOf(request);
    for (let tries = 1; ; tries++) {
      let failure: unknown;
      let response: PipelineResponse | undefined;
      try {
        response = await next(request);
        if (!retried.has(response.status)) {
          troubles.answered(kind);
          return response;
        }
      } catch (error) {
        if (error instanceof RetryAfterError) troubles.failed(kind, error);
        if (!(error instanceof TransportError)) throw error;
        failure = error;
      }
      lost.add(request);
      troubles.failed(kind, response === undefined ? failure : `the reply was ${response.status}`);
      const requestedMs = response === undefined ? undefined : retryAfterMs(response, clock.now());
      // No wait, or a time that this clock has passed already: three attempts at once would all fail.
      const delayMs = requestedMs || backoffMs(tries);
      const { abortSignal } = request;
      const signal = abortSignal instanceof AbortSignal ? abortSignal : undefined;
      const over = tries > retries || delayMs > longestDelayMs || signal?.aborted;
      if (!over) await clock.sleep(delayMs, signal);
      if (!over && !signal?.aborted) continue;
      if (response !== undefined) return response;
      throw failure;
    }
  },
});

/** 5, 15 and 35 seconds, each times 0.8 to 1.3. */
const backoffMs = (tries: number): number =>
  Math.min(longestDelayMs, (2 ** tries - 1) * firstDelayMs * (0.8 + Math.random() * 0.5));

/**
 * Drops an invalid `Retry-After` of a successful reply, and one shorter than the delay between attempts: for "-5", and for
 * a year, the SDK would poll an operation without any pause.
 */
export const minimumRetryAfterPolicy = (clock: Clock): PipelinePolicy => ({
  name: "minimum-retry-after",
  async sendRequest(request, next) {
    const response = await next(request);
    const requestedMs = retryAfterMs(response, clock.now()) ?? 0;
    const isUsable = requestedMs >= firstDelayMs && requestedMs < maxRetryAfterMs;
    if (response.status < 300 && !isUsable) response.headers.delete("retry-after");
    return response;
  },
});

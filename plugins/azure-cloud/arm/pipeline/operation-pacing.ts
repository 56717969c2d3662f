import type { PipelinePolicy, PipelineResponse } from "@azure/core-rest-pipeline";
import type { Clock } from "cloud-controller-host/sdk";

import { keepLatest } from "../../keep-latest.ts";
import { maxRetryAfterMs, retryAfterMs } from "../transport/retry.ts";
import { isRead, targetOf } from "./target.ts";

/** Pauses after the first polls of an operation, in milliseconds. */
const firstPausesMs = [200, 500, 1_000];
/** The SDK's default. */
const steadyPauseMs = 2_000;
/** Sixty operations that take minutes would use up ARM's 25 reads per second otherwise. */
const maxPauseMs = 15_000;
/** Per operation that is followed at the same time: up to 250 together take 17 of ARM's 25 reads per second. */
const shareMs = 60;
/** An operation that has not been polled for longer has been given up by its caller. */
const givenUpMs = 2 * maxPauseMs;
/** Operations followed at a time; any further one is polled every 2 seconds, the SDK's default. */
const maxOperations = 1_000;

interface Operation {
  /** Monotonic time of the reply to the write. */
  readonly begunMs: number;
  /** Monotonic time before which ARM does not want a poll. */
  readonly notBeforeMs: number;
  polls: number;
  /** Monotonic time of the last poll, or of the reply to the write. */
  polledMs: number;
}

/**
 * Polls of a long-running operation come soon at first, then every 2 seconds, and later after a tenth of the time that it
 * has taken, unless ARM names the pause. Where many operations are followed at once, those after the first polls are
 * further apart, so that together they stay below ARM's limit of reads. No pause is longer than 15 seconds. The SDK polls right after the reply to the write, even if
 * that has a `Retry-After`: this poll waits for it, as in upstream's SDK. Later pauses are passed to the SDK in the header
 * that it reads them from, in place of those with which it would poll without any pause: 0, "-5", and a wait beyond the
 * 24 days that a timer can take.
 */
export function operationPacingPolicy(clock: Clock): PipelinePolicy {
  /** By the path of their polls, the one polled last at the end. */
  const operations = new Map<string, Operation>();
  const follow = (path: string, operation: Operation): void => {
    operations.delete(path);
    operations.set(path, operation);
    keepLatest(operations, maxOperations);
  };
  return {
    name: "operation-pacing",
    async sendRequest(request, next) {
      if (!isRead(request.method)) {
        const response = await next(request);
        const pauseMs = retryAfterMs(response, clock.now()) ?? 0;
        const begunMs = clock.monotonic();
        for (const path of pollPaths(response))
          follow(path, { begunMs, notBeforeMs: begunMs + pauseMs, polls: 0, polledMs: begunMs });
        return response;
      }
      const { path } = targetOf(request.url);
      const operation = operations.get(path);
      if (operation === undefined) return next(request);
      follow(path, operation);
      const { abortSignal } = request;
      const waitMs = operation.notBeforeMs - clock.monotonic();
      if (waitMs > 0) await clock.sleep(waitMs, abortSignal instanceof AbortSignal ? abortSignal : undefined);
      const response = await next(request);
      operation.polledMs = clock.monotonic();
      if (hasEnded(response)) operations.delete(path);
      const requestedMs = retryAfterMs(response, clock.now()) ?? 0;
      const ownMs =
        firstPausesMs[operation.polls++] ?? laterPauseMs(operation, followed(operations, operation.polledMs));
      if (requestedMs > 0 && requestedMs < maxRetryAfterMs) return response;
      response.headers.set("retry-after", httpDate(Date.now() + (requestedMs || ownMs)));
      return response;
    },
  };
}

const laterPauseMs = ({ begunMs, polledMs }: Operation, others: number): number =>
  Math.min(Math.max(Math.round((polledMs - begunMs) / 10), others * shareMs, steadyPauseMs), maxPauseMs);

/** Number of operations that are followed now. */
function followed(operations: ReadonlyMap<string, Operation>, nowMs: number): number {
  let count = 0;
  for (const { polledMs } of operations.values()) if (nowMs - polledMs <= givenUpMs) count += 1;
  return count;
}

/** Without such a state in the last reply, as where ARM gives a Location alone, an operation is followed until it is given up. */
const hasEnded = ({ bodyAsText }: PipelineResponse): boolean =>
  /"status"\s*:\s*"(?:Succeeded|Failed|Canceled)"/iu.test(bodyAsText ?? "");

function pollPaths({ headers }: PipelineResponse): readonly string[] {
  const urls = [headers.get("azure-asyncoperation"), headers.get("location")];
  return urls.flatMap((url) => (url !== undefined && URL.canParse(url) ? [targetOf(url).path] : []));
}

/** With milliseconds, which HTTP's own format lacks: the SDK takes whatever `Date` parses, and seconds only as integers. */
const httpDate = (ms: number): string =>
  new Date(ms).toUTCString().replace(" GMT", `.${String(ms % 1000).padStart(3, "0")} GMT`);

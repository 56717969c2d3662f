import type { PipelinePolicy, PipelineResponse } from "@azure/core-rest-pipeline";
import { type CloudContext, type CloudWrite, messageOf } from "cloud-controller-host/sdk";

import { ArmError } from "../errors.ts";
import { settingsOf } from "../settings.ts";
import { isRead, targetOf } from "./target.ts";

/** A resource as the SDK has it, before and after a write. */
export interface WrittenResource {
  readonly before: object | undefined;
  readonly after: object | undefined;
}

/** By the signal of the write's request. */
const described = new WeakMap<object, WrittenResource>();

/** Tells the record of writes what the request with this signal changes. */
export const describeWrite = (abortSignal: AbortSignal, written: WrittenResource): void =>
  void described.set(abortSignal, written);

/** Reports every write with its outcome, after its retries. */
export const recordPolicy = (record: NonNullable<CloudContext["recordWrite"]>): PipelinePolicy => ({
  name: "record",
  async sendRequest(request, next) {
    if (isRead(request.method)) return next(request);
    const started = performance.now();
    const { path, type } = targetOf(request.url);
    const written = request.abortSignal && described.get(request.abortSignal);
    const done = (outcome: Pick<CloudWrite, "correlationId" | "error" | "status">): void =>
      record({
        operation: request.method,
        resource: path,
        ...(written && { change: changeOf(written, type) }),
        ...outcome,
        milliseconds: performance.now() - started,
      });
    try {
      const response = await next(request);
      const correlationId = correlationOf(response);
      done({ ...(correlationId && { correlationId }) });
      return response;
    } catch (error) {
      done({ error: messageOf(error), ...(error instanceof ArmError && outcomeOf(error)) });
      throw error;
    }
  },
});

const outcomeOf = ({ status, correlationId }: ArmError): Pick<CloudWrite, "correlationId" | "status"> => ({
  status,
  ...(correlationId && { correlationId }),
});

const changeOf = ({ before, after }: WrittenResource, type: string): NonNullable<CloudWrite["change"]> => ({
  before: before && settingsOf({ ...before }, type),
  after: after && settingsOf({ ...after }, type),
});

/** The ID by which Azure finds the request in its logs. */
export const correlationOf = (response: PipelineResponse): string | undefined =>
  response.headers.get("x-ms-correlation-request-id");

import type { PipelinePolicy, PipelineResponse } from "@azure/core-rest-pipeline";
import { type CloudContext, type CloudWrite, isObject, messageOf } from "cloud-controller-host/sdk";

import type { JsonObject } from "../../json.ts";
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
  before: before && settingsOf(withoutShared(before, after), type),
  after: after && settingsOf(withoutShared(after, before), type),
});

/**
 * The resource without the list items that the write leaves as they are: most of a large load balancer's. Only items
 * with names of their own, by which the record compares the others of their list all the same.
 */
function withoutShared(resource: object, other: object = {}): JsonObject {
  const others = new Map<string, unknown>(Object.entries(other));
  const entries = Object.entries(resource).map(([key, value]: [string, unknown]): [string, unknown] => {
    const twin = others.get(key);
    if (!isNamedList(value) || !isNamedList(twin)) return [key, value];
    const shared = new Set(twin);
    return [key, value.filter((item) => !shared.has(item))];
  });
  return Object.fromEntries(entries);
}

const isNamedList = (value: unknown): value is readonly object[] => {
  if (!Array.isArray(value)) return false;
  const names = new Set(value.map((item: unknown) => (isObject(item) ? item["name"] : undefined)));
  return names.size === value.length && !names.has(undefined);
};

/** The ID by which Azure finds the request in its logs. */
export const correlationOf = (response: PipelineResponse): string | undefined =>
  response.headers.get("x-ms-correlation-request-id");

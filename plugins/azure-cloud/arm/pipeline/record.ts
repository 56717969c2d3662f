import type { PipelinePolicy, PipelineResponse } from "@azure/core-rest-pipeline";
import { type CloudContext, type CloudWrite, isObject, messageOf } from "cloud-controller-host/sdk";

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

function changeOf(written: WrittenResource, type: string): NonNullable<CloudWrite["change"]> {
  const { before, after } = withoutShared(written);
  return { before: before && settingsOf({ ...before }, type), after: after && settingsOf({ ...after }, type) };
}

/**
 * The resource without the list items that the write leaves as they are: most of a large load balancer's. Only items
 * with names of their own, by which the record compares the others of their list all the same.
 */
function withoutShared({ before, after }: WrittenResource): WrittenResource {
  if (before === undefined || after === undefined) return { before, after };
  const [was, is] = [new Map<string, unknown>(Object.entries(before)), new Map<string, unknown>(Object.entries(after))];
  for (const [key, old] of was) {
    const next = is.get(key);
    if (!isNamedList(old) || !isNamedList(next)) continue;
    const shared = new Set(old).intersection(new Set(next));
    was.set(
      key,
      old.filter((item) => !shared.has(item)),
    );
    is.set(
      key,
      next.filter((item) => !shared.has(item)),
    );
  }
  return { before: Object.fromEntries(was), after: Object.fromEntries(is) };
}

const isNamedList = (value: unknown): value is readonly object[] => {
  if (!Array.isArray(value)) return false;
  const names = new Set(value.map((item: unknown) => (isObject(item) ? item["name"] : undefined)));
  return names.size === value.length && !names.has(undefined);
};

/** The ID by which Azure finds the request in its logs. */
export const correlationOf = (response: PipelineResponse): string | undefined =>
  response.headers.get("x-ms-correlation-request-id");

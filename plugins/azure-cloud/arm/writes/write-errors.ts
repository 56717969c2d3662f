import { type Clock, CodedError, isObject } from "cloud-controller-host/sdk";

import { ArmError } from "../errors.ts";
import { hasLostAttempt } from "../transport/retry.ts";

/** Codes of writes that lost to another one. The next attempt, planned from a new read, may succeed. */
const conflictCodes = new Set([
  "anotheroperationinprogress",
  "canceled",
  "canceledandsupersededduetoanotheroperation",
  "operationpreempted",
  "preconditionfailed",
  "retryableerror",
  "retryableerrorduetoanotheroperation",
]);

/** Codes of a 409 that a fresh read does not resolve. */
const standing409s = new Set([
  "missingsubscriptionregistration",
  "operationnotallowed",
  "readonlydisabledsubscription",
  "resourcegroupbeingdeleted",
  "scopelocked",
]);

/**
 * Codes of a refusal whatever the write contains: it ends once another resource has changed, once ARM's replicas agree
 * that it has, once a management lock is removed, or once the subscription is enabled again.
 */
const unrelatedToContent = new Set([
  "loadbalancerinusebyvirtualmachinescaleset",
  "publicipaddresscannotbedeleted",
  "readonlydisabledsubscription",
  "referencedresourcenotprovisioned",
  "scopelocked",
]);

/** Codes of failures of the service, independent of the request. */
const serviceFailures = new Set([
  "internalservererror",
  "internalerror",
  "internalexecutionerror",
  "operationtimedout",
  "serverbusy",
  "serverunavailable",
  "toomanyrequests",
]);

/** The resource has changed since the write was planned. */
export class OutdatedError extends Error {}

/**
 * True if another writer changed the resource first (412, most 409s), a later operation superseded this one, or reads
 * do not show yet what was written. The plan must be made again from the current state.
 */
export function isConflicting(error: unknown): boolean {
  if (error instanceof OutdatedError) return true;
  if (!(error instanceof ArmError)) return false;
  const code = error.code.toLowerCase();
  // The last request of a write with an operation is a read of the resource or of the operation.
  if (error.status === 404 && error.method === "GET") return true;
  if (error.status === 412 || conflictCodes.has(code)) return true;
  if (error.message.toLowerCase().includes("canceledandsupersededduetoanotheroperation")) return true;
  return error.status === 409 && !standing409s.has(code);
}

/**
 * True if ARM rejects the content of the write, so that the same write will fail again. A rejection of the caller
 * itself (401, 403 of the whole scope), throttling and failures of the service are not among them.
 */
export function isRejected(error: unknown): boolean {
  if (!(error instanceof ArmError) || isConflicting(error)) return false;
  if (unrelatedToContent.has(error.code.toLowerCase())) return false;
  if (error.failedOperation) return !serviceFailures.has(error.code.toLowerCase());
  if (error.status === 403) return error.code.startsWith("Linked") || error.code === "RequestDisallowedByPolicy";
  return error.status >= 400 && error.status < 500 && ![401, 408, 429].includes(error.status);
}

/** True if ARM rejects the content of the write, or has carried it out without success. */
export const hasFailed = (error: unknown): boolean =>
  isRejected(error) || (error instanceof ArmError && error.failedOperation && !isConflicting(error));

/**
 * True if nothing was written: ARM has refused the request itself, or it was not sent. A conflict proves nothing: `fetch`
 * sends a request again if a connection of its pool closes before the reply, and the other writer may be the first attempt.
 * Nor does a timeout, or a refusal after an attempt that was lost, of both of which `isLost` is true.
 */
export const isRefused = (error: unknown): boolean =>
  error instanceof OutdatedError ||
  (error instanceof ArmError &&
    error.method === "PUT" &&
    error.status >= 400 &&
    error.status < 500 &&
    error.status !== 408 &&
    !isConflicting(error) &&
    !hasLostAttempt(error));

/** Errors of writes that ARM had accepted, and whose operations may still run. */
const unended = new WeakSet<object>();

export const noteUnended = (error: object): void => void unended.add(error);

/** Codes of requests without a reply of ARM, and of operations that are not waited for any more. */
const lostCodes = new Set(["InvalidReply", "OperationTimeout", "Unreachable"]);

/**
 * True if it is not known what has become of a write: an attempt at it had no reply, or one of a gateway or of a service
 * that fails, or its operation was not seen to end. It may be carried out all the same, also later, and reads do not show it
 * at once.
 */
export const isLost = (error: unknown): boolean =>
  hasLostAttempt(error) ||
  (isObject(error) && unended.has(error)) ||
  (error instanceof CodedError && lostCodes.has(error.code)) ||
  (error instanceof ArmError && !error.failedOperation && (error.status === 408 || error.status >= 500));

/** Attempts at one write before its conflict is reported to the caller. */
const maxConflicts = 5;
const firstPauseMs = 50;

/**
 * Repeats a read, plan and write that lost to another writer, a few times with growing pauses. `fresh` is true
 * from the second attempt on: read past the cache.
 */
export async function retryConflicts<T>(
  { clock, signal }: { readonly clock: Clock; readonly signal: AbortSignal },
  attempt: (fresh: boolean) => Promise<T>,
): Promise<T> {
  for (let conflicts = 0; ;) {
    signal.throwIfAborted();
    try {
      return await attempt(conflicts > 0);
    } catch (error) {
      if (!isConflicting(error) || ++conflicts >= maxConflicts) throw error;
      await clock.sleep(firstPauseMs * 2 ** conflicts * (0.5 + Math.random()), signal);
    }
  }
}

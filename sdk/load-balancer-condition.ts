import type { Condition } from "./conditions.ts";

/**
 * The condition of Services whose load balancer could not be synced, or whose settings have warnings; others do not have
 * it. Its message is for people; what a program needs of it is written and read by the functions here alone.
 */
export const loadBalancerReady = {
  type: "LoadBalancerReady",
  synced: "EnsuredLoadBalancer",
  failed: "SyncLoadBalancerFailed",
} as const;

/**
 * The condition in which a cloud records, at a Service, the addresses that it has opened for it besides those of its load
 * balancer. Its message has them, for people and for the next process.
 */
export const additionalAddressesOpen = { type: "AdditionalAddressesOpen", reason: "SecurityRulesWritten" } as const;

/** A sync that failed, as the message of the condition has it. */
interface SyncFailure {
  readonly error: string;
  /** RFC 3339, without fractions of a second. */
  readonly retryAt: string;
  /** Those of the Service's settings, in one line; empty without any. */
  readonly warnings: string;
}

/** The message of the condition for a sync that failed. `syncFailureIn` reads it. */
export const syncFailureMessage = ({ error, retryAt, warnings }: SyncFailure): string =>
  [`${error}; next retry at ${retryAt}`, ...(warnings === "" ? [] : [warnings])].join("; ");

/** The last one: an error may contain another. */
const form = /^(?<error>.*); next retry at (?<retryAt>[\d:TZ.-]+)(?:; (?<warnings>.*))?$/su;

/** The failure that a condition shows; undefined for any other condition, and for a message that was cut. */
export function syncFailureIn({
  type,
  reason,
  message,
}: Pick<Condition, "type" | "reason" | "message">): SyncFailure | undefined {
  if (type !== loadBalancerReady.type || reason !== loadBalancerReady.failed) return undefined;
  const { error, retryAt, warnings = "" } = form.exec(message)?.groups ?? {};
  return error === undefined || retryAt === undefined ? undefined : { error, retryAt, warnings };
}

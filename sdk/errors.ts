import type { ErrorCode } from "./error-codes.ts";

/**
 * An error with a code for programs: of the table in `error-codes.ts`, or a plugin's own. `message` names the flag, key,
 * annotation or object and the remedy; `cause` is the underlying error.
 */
export class CodedError extends Error {
  readonly code: string;
  /** The part of the message that differs each time, such as ` (correlation ID 1-2-3)`. */
  readonly occurrence: string;

  constructor(
    code: ErrorCode | (string & {}),
    message: string,
    options: ErrorOptions & { readonly occurrence?: string } = {},
  ) {
    super(message, options);
    this.name = new.target.name;
    this.code = code;
    this.occurrence = options.occurrence ?? "";
  }
}

/** An error reply of the API server. `status` is the HTTP status, `reason` that of its `Status` object. */
export class ApiError extends CodedError {
  readonly status: number;
  readonly reason: string;
  /** The `Retry-After` of the reply, in milliseconds. */
  readonly retryAfterMs: number | undefined;

  constructor(status: number, reason: string, message: string, options: ErrorOptions & { retryAfterMs?: number } = {}) {
    super("ApiError", message, options);
    this.status = status;
    this.reason = reason;
    this.retryAfterMs = options.retryAfterMs;
  }
}

/** A write was refused: its generation is fenced, or the lease is no longer safely held. */
export class FencedError extends CodedError {
  constructor(what: string, why: string) {
    super("Fenced", `${what} refused: ${why}`);
  }
}

/** The object does not exist in the cloud. Only a fresh read may lead to a deletion. */
export class InstanceNotFoundError extends CodedError {
  constructor(message = "instance not found", options?: ErrorOptions) {
    super("InstanceNotFound", message, options);
  }
}

/** Retry after exactly `delayMs`, without the rate limit. upstream: `api.RetryError`. */
export class RetryAfterError extends CodedError {
  readonly delayMs: number;

  constructor(delayMs: number, message: string, options?: ErrorOptions) {
    super("RetryAfter", message, options);
    this.delayMs = delayMs;
  }
}

/** More causes than any error has: a getter may return a new one each time. */
const maxCauses = 100;

/**
 * The error and its causes, the outermost first; one that is its own cause, or that cannot be read, ends them. Empty for
 * other values.
 */
export function errorChain(error: unknown): readonly Error[] {
  const chain = new Set<Error>();
  try {
    for (let each = error; each instanceof Error && !chain.has(each) && chain.size < maxCauses; each = each.cause)
      chain.add(each);
  } catch {
    // A getter or a proxy of the error threw.
  }
  return [...chain];
}

/** The delay of the first `RetryAfterError` in a chain of causes, in milliseconds; undefined without one. */
export const retryAfterOf = (error: unknown): number | undefined =>
  errorChain(error).find((each) => each instanceof RetryAfterError)?.delayMs;

/**
 * The settings of an object are refused, given everything that was read: the outcome is known, and a plan with it is
 * complete. A failed read is not a refusal.
 */
export class RefusedError extends CodedError {}

/** True if the error, or one in its chain of causes, is a `RefusedError`. */
export const isRefusal = (error: unknown): boolean => errorChain(error).some((each) => each instanceof RefusedError);

/**
 * upstream: `cloudprovider.ImplementedElsewhere`. Another component implements this load balancer; the caller does
 * nothing. Has no effect as the cause of another error.
 */
export class ImplementedElsewhereError extends CodedError {
  constructor(message = "implemented by an alternate cloud provider", options?: ErrorOptions) {
    super("ImplementedElsewhere", message, options);
  }
}

/** Several problems of one input, reported together. */
export class ProblemsError extends CodedError {
  readonly problems: readonly string[];

  constructor(subject: string, problems: readonly string[], options?: ErrorOptions) {
    super("Problems", `${subject}: ${problems.join("; ")}`, options);
    this.problems = problems;
  }
}

const hasReason = (error: unknown, status: number, reason: string): boolean =>
  error instanceof ApiError && error.status === status && error.reason === reason;

/**
 * True for a 404 of the API server; false for one of a gateway in its place, which proves no absence, and for an error that
 * only has one among its causes, as the reply to another request may be.
 */
export const isNotFound = (error: unknown): boolean => hasReason(error, 404, "NotFound");
/** True for a 409 of the API server after another write: read the object again. */
export const isConflict = (error: unknown): boolean => hasReason(error, 409, "Conflict");
/** True for a 409 of the API server for a name that is taken. */
export const isAlreadyExists = (error: unknown): boolean => hasReason(error, 409, "AlreadyExists");
/**
 * True for the refusal of a patch with a `metadata.uid`: the object is gone, and another one has its name. The API server
 * validates a UID in a patch as a field that cannot change. It ignores one in a patch of the status of a custom resource,
 * which a `metadata.resourceVersion` guards.
 */
export const isReplaced = (error: unknown): boolean =>
  error instanceof ApiError && error.status === 422 && error.message.includes("metadata.uid");
/** True for the rejection of a call whose signal aborted or whose time was over. */
export const isAborted = (error: unknown): boolean =>
  error instanceof Error && (error.name === "AbortError" || error.name === "TimeoutError");

/** Bun's advice to developers, at the end of what its `fetch` throws. */
const adviceOfFetch =
  /\. (?:For more information, pass `verbose: true` in the second argument to fetch\(\)|Is the computer able to access the url\?)/gu;

/**
 * An error may quote a reply of megabytes, and its message stays in events and in what a page shows. A log shows all of
 * it, with how much more there was.
 */
const maxMessage = 16_000;

/**
 * The message of any thrown value, with the messages of its causes unless repeated; never a stack, and of bounded length.
 * Never throws.
 */
export function messageOf(error: unknown): string {
  try {
    const message = errorChain(error).reduceRight(withCause, rootOf(error));
    const more = message.length - maxMessage;
    return more > 0 ? `${message.slice(0, maxMessage)}… (${more} more characters)` : message;
  } catch {
    return "an error without a readable message";
  }
}

/** A cause that is not an error, as text. */
function rootOf(error: unknown): string {
  const chain = errorChain(error);
  const root: unknown = chain.length === 0 ? error : chain.at(-1)?.cause;
  return (root === undefined && chain.length > 0) || root instanceof Error ? "" : String(root);
}

function withCause(cause: string, error: Error): string {
  const message = error.message.replace(adviceOfFetch, "");
  return cause === "" || message.includes(cause) ? message : `${message}: ${cause}`;
}

/** `messageOf` without what differs each time, for events: those of a failure that lasts are then counted as one. */
export function recurringMessageOf(error: unknown): string {
  let message = messageOf(error);
  for (const each of errorChain(error)) if (each instanceof CodedError) message = message.replace(each.occurrence, "");
  return message;
}

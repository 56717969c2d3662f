/**
 * What went wrong, as a word that code can test. `message` is for people: it names the flag, key, annotation or
 * object and says what to do. `cause` keeps the error underneath.
 */
export class CodedError extends Error {
  readonly code: string;

  constructor(code: string, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = new.target.name;
    this.code = code;
  }
}

/** An error reply of the API server. `status` is the HTTP code, `reason` the machine word of its `Status` object. */
export class ApiError extends CodedError {
  readonly status: number;
  readonly reason: string;
  /** What the server asked to wait (`Retry-After`), in milliseconds. */
  readonly retryAfterMs: number | undefined;

  constructor(status: number, reason: string, message: string, options: ErrorOptions & { retryAfterMs?: number } = {}) {
    super("ApiError", message, options);
    this.status = status;
    this.reason = reason;
    this.retryAfterMs = options.retryAfterMs;
  }
}

/** A write was refused because its generation has been fenced or the lease is no longer safely held. */
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

/** The work failed in a way that wants a pause of exactly `delayMs` before the next try, and no rate-limited retry. */
export class RetryAfterError extends CodedError {
  readonly delayMs: number;

  constructor(delayMs: number, message: string, options?: ErrorOptions) {
    super("RetryAfter", message, options);
    this.delayMs = delayMs;
  }
}

/** The delay of the first `RetryAfterError` in a chain of causes, in milliseconds; undefined without one. */
export function retryAfterOf(error: unknown): number | undefined {
  if (error instanceof RetryAfterError) return error.delayMs;
  return error instanceof Error ? retryAfterOf(error.cause) : undefined;
}

/**
 * upstream: `cloudprovider.ImplementedElsewhere`. The cloud leaves this load balancer to another component: no failure,
 * and nothing for the caller to do. It counts only when thrown itself, not as another error's cause.
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

const hasStatus = (error: unknown, status: number, reason?: string): boolean =>
  error instanceof ApiError && error.status === status && (reason === undefined || error.reason === reason);

export const isNotFound = (error: unknown): boolean => hasStatus(error, 404);
export const isConflict = (error: unknown): boolean => hasStatus(error, 409, "Conflict");
export const isAlreadyExists = (error: unknown): boolean => hasStatus(error, 409, "AlreadyExists");
export const isAborted = (error: unknown): boolean =>
  error instanceof Error && (error.name === "AbortError" || error.name === "TimeoutError");

/** The text of whatever was thrown, causes included where they say something new; never a stack. */
export function messageOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const cause = error.cause === undefined ? "" : messageOf(error.cause);
  return cause === "" || error.message.includes(cause) ? error.message : `${error.message}: ${cause}`;
}

import { CodedError } from "cloud-controller-host/sdk";

/**
 * Characters. ARM's longest messages name the policies that refuse a request; a proxy may send megabytes, which are looked
 * through for ids.
 */
const maxMessage = 8_192;
/** Of a code, which is the value of a metric's label, and of an ID. */
const maxWord = 128;

/**
 * An error reply of Azure Resource Manager. `code` is ARM's error code (`ResourceNotFound`), `status` the HTTP status.
 * The message contains the request, ARM's reply and its correlation ID, but no request body and no header.
 */
export class ArmError extends CodedError {
  readonly status: number;
  /** `x-ms-correlation-request-id`, which identifies the request to Azure support. */
  readonly correlationId: string | undefined;
  /** HTTP method of the request. */
  readonly method: string | undefined;
  /** The request was accepted, but its long-running operation failed; `status` is that of the poll. */
  readonly failedOperation: boolean;

  constructor(
    status: number,
    code: string,
    message: string,
    options: {
      readonly correlationId?: string | undefined;
      readonly method?: string;
      readonly failedOperation?: boolean;
    } = {},
  ) {
    const correlationId = options.correlationId?.slice(0, maxWord);
    const occurrence = correlationId === undefined ? "" : ` (correlation ID ${correlationId})`;
    const more = message.length - maxMessage;
    const shown = more > 0 ? `${message.slice(0, maxMessage)}… (${more} more characters)` : message;
    super(code.slice(0, maxWord), shown + occurrence, { occurrence });
    this.status = status;
    this.correlationId = correlationId;
    this.method = options.method;
    this.failedOperation = options.failedOperation ?? false;
  }
}

/** Codes of 404s that prove nothing about the resource: the scope, the type or the API version is wrong. */
const elsewhere = new Set([
  "SubscriptionNotFound",
  "InvalidSubscriptionId",
  "InvalidResourceType",
  "InvalidResourceNamespace",
  "NoRegisteredProviderFound",
]);

/**
 * True if ARM reports that the resource does not exist (or its scale set or resource group does not). A 404 about
 * something else, or one without ARM's own error code, which a proxy may have sent, proves nothing.
 */
export function isAbsent(error: unknown): boolean {
  if (!(error instanceof ArmError)) return false;
  if (error.status === 404) return !elsewhere.has(error.code) && error.code !== uncoded(404);
  return error.message.includes("is not an active Virtual Machine Scale Set VM instanceId");
}

/** The result of a read, or undefined if the resource does not exist. */
export async function unlessAbsent<T>(read: PromiseLike<T>): Promise<T | undefined> {
  try {
    return await read;
  } catch (error) {
    if (isAbsent(error)) return undefined;
    throw error;
  }
}

/** Placeholder for the code of an error reply without one. */
export const uncoded = (status: number): string => `Http${status}`;

const unsuccessful = new Set(["failed", "canceled"]);

/** True if the last operation on a resource did not succeed: what ARM shows of it may not be in effect. */
export const isUnprovisioned = (resource: { readonly provisioningState?: string } | undefined): boolean =>
  unsuccessful.has(resource?.provisioningState?.toLowerCase() ?? "");

const unended = new Set(["updating", "deleting"]);

/** True if an operation on a resource is in progress: it may still fail, and what it changes may not be in effect. */
export const isUnended = (resource: { readonly provisioningState?: string } | undefined): boolean =>
  unended.has(resource?.provisioningState?.toLowerCase() ?? "");

import { CodedError } from "cloud-controller-host/sdk";

/**
 * An error reply of Azure Resource Manager. `code` is ARM's error code (`ResourceNotFound`), `status` the HTTP status.
 * The message holds the request, ARM's answer and its correlation ID; no request body and no header.
 */
export class ArmError extends CodedError {
  readonly status: number;
  /** `x-ms-correlation-request-id`, by which Azure's support finds the request. */
  readonly correlationId: string | undefined;
  /** The request was accepted, and its long-running operation failed; `status` is that of the poll. */
  readonly failedOperation: boolean;

  constructor(
    status: number,
    code: string,
    message: string,
    options: { readonly correlationId?: string | undefined; readonly failedOperation?: boolean } = {},
  ) {
    super(code, message);
    this.status = status;
    this.correlationId = options.correlationId;
    this.failedOperation = options.failedOperation ?? false;
  }
}

/** 404s that say nothing of the resource: what is wrong is the scope, the type or the version that was asked for. */
const elsewhere = new Set([
  "SubscriptionNotFound",
  "InvalidSubscriptionId",
  "InvalidResourceType",
  "InvalidResourceNamespace",
  "NoRegisteredProviderFound",
]);

/**
 * ARM reports that the resource does not exist (or that its scale set or resource group is gone). A 404 about something
 * else, or one without ARM's own error code, which a proxy may have sent, proves nothing.
 */
export function isAbsent(error: unknown): boolean {
  if (!(error instanceof ArmError)) return false;
  if (error.status === 404) return !elsewhere.has(error.code) && error.code !== uncoded(404);
  return error.message.includes("is not an active Virtual Machine Scale Set VM instanceId");
}

/** Stands for the code of an error reply that has none. */
export const uncoded = (status: number): string => `Http${status}`;

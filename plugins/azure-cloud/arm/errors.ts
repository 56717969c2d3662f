import { CodedError } from "cloud-controller-host/sdk";

/**
 * An error reply of Azure Resource Manager. `code` is ARM's machine word (`ResourceNotFound`), `status` the HTTP code.
 * The message says what was asked and what ARM answered; it holds no request body and no header.
 */
export class ArmError extends CodedError {
  readonly status: number;
  /** `x-ms-request-id`, by which Azure's support finds the request. */
  readonly requestId: string | undefined;

  constructor(status: number, code: string, message: string, requestId: string | undefined) {
    super(code, message);
    this.status = status;
    this.requestId = requestId;
  }
}

/** Codes by which ARM says for certain that something does not exist. A missing subscription is not among them. */
const absent = new Set([
  "ResourceNotFound",
  "NotFound",
  "ParentResourceNotFound",
  "ResourceGroupNotFound",
  "InstanceIdNotFound",
]);

/** ARM is sure that there is no such resource. A 404 of another kind (a wrong subscription, a proxy) is no proof. */
export function isAbsent(error: unknown): boolean {
  if (!(error instanceof ArmError)) return false;
  if (error.status === 404) return absent.has(error.code);
  return error.message.includes("is not an active Virtual Machine Scale Set VM instanceId");
}

/** A reply that is an error: ARM's status, machine word and sentence. Thrown by whatever refuses a request. */
export class ArmFault extends Error {
  readonly status: number;
  readonly code: string;
  readonly headers: Readonly<Record<string, string>>;

  constructor(status: number, code: string, message: string, headers: Readonly<Record<string, string>> = {}) {
    super(message);
    this.name = "ArmFault";
    this.status = status;
    this.code = code;
    this.headers = headers;
  }
}

export const notFound = (what: string): ArmFault =>
  new ArmFault(404, "ResourceNotFound", `The Resource '${what}' was not found.`);

/** What a handler answers. A string body is JSON text already. */
export interface ArmReply {
  readonly status: number;
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
}

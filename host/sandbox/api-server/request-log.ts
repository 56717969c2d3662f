/** One request to the server. `verb` and what follows are those of an API path; empty for other paths. */
export interface RecordedRequest {
  readonly method: string;
  /** With its query. */
  readonly path: string;
  readonly verb: string;
  /** Resource name, such as `nodes`. */
  readonly resource: string;
  readonly subresource: string;
  readonly namespace: string;
  readonly name: string;
  readonly userAgent: string;
  readonly username: string;
  /** HTTP code of the reply; undefined while there is none. */
  readonly status: number | undefined;
}

/** Which requests are meant: those that agree with every field that is given. */
export type RequestMatch = {
  readonly [Field in keyof RecordedRequest]?: RecordedRequest[Field] | RegExp;
};

const fields = [
  "method",
  "path",
  "verb",
  "resource",
  "subresource",
  "namespace",
  "name",
  "userAgent",
  "username",
  "status",
] as const;

export function matchesRequest(match: RequestMatch, request: RecordedRequest): boolean {
  return fields.every((field) => {
    const wanted = match[field];
    if (wanted === undefined) return true;
    return wanted instanceof RegExp ? wanted.test(String(request[field])) : wanted === request[field];
  });
}

const limit = 50_000;

/** The newest requests, oldest first; those before them are forgotten. */
export class RequestLog {
  #entries: RecordedRequest[] = [];

  list(match: RequestMatch = {}): readonly RecordedRequest[] {
    return this.#entries.filter((entry) => matchesRequest(match, entry));
  }

  count(match: RequestMatch = {}): number {
    return this.list(match).length;
  }

  reset(): void {
    this.#entries = [];
  }

  /** Takes a request into the log; the returned function tells its reply's code. */
  record(request: RecordedRequest): (status: number) => void {
    const entry = { ...request };
    this.#entries.push(entry);
    if (this.#entries.length >= 2 * limit) this.#entries = this.#entries.slice(-limit);
    return (status) => void (entry.status = status);
  }
}

/** One request to the server. `verb` and the fields below are empty for paths outside the API. */
export interface RecordedRequest {
  readonly method: string;
  /** Including the query. */
  readonly path: string;
  readonly verb: string;
  /** Resource name, such as `nodes`. */
  readonly resource: string;
  readonly subresource: string;
  readonly namespace: string;
  readonly name: string;
  readonly userAgent: string;
  readonly username: string;
  /** HTTP status of the reply; undefined before it. */
  readonly status: number | undefined;
}

/** Selects the requests that match every field given. */
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

/** The latest requests, oldest first. */
export class RequestLog {
  #entries: RecordedRequest[] = [];
  readonly #listeners = new Set<(request: RecordedRequest) => void>();

  /** Calls `listener` for each request when it has been answered, until it is disposed of. */
  onReply(listener: (request: RecordedRequest) => void): Disposable {
    this.#listeners.add(listener);
    return { [Symbol.dispose]: () => void this.#listeners.delete(listener) };
  }

  list(match: RequestMatch = {}): readonly RecordedRequest[] {
    return this.#entries.filter((entry) => matchesRequest(match, entry));
  }

  count(match: RequestMatch = {}): number {
    return this.list(match).length;
  }

  reset(): void {
    this.#entries = [];
  }

  /** Adds a request; the returned function records the status of its reply. */
  record(request: RecordedRequest): (status: number) => void {
    const entry = { ...request };
    this.#entries.push(entry);
    if (this.#entries.length >= 2 * limit) this.#entries = this.#entries.slice(-limit);
    return (status) => {
      entry.status = status;
      for (const listener of this.#listeners) listener(entry);
    };
  }
}

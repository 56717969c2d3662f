import type { Access } from "./access/rules.ts";

/**
 * One request to the server, with its full path and query. The fields of an access decision are empty for paths outside
 * the API; `resource` is without the subresource.
 */
export interface RecordedRequest extends Omit<Access, "groups" | "group"> {
  readonly method: string;
  readonly subresource: string;
  readonly userAgent: string;
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

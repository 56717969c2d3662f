import type { ObjectMeta } from "cloud-controller-host/sdk";

/** Where an API server is and how to get in. */
export interface Connection {
  readonly url: string;
  readonly tls: { readonly ca: string; readonly cert?: string; readonly key?: string };
  readonly token?: string;
}

/** One of the reasons of an error reply. */
interface Cause {
  readonly reason?: string;
  readonly message?: string;
  readonly field?: string;
}

/** What tests read of a reply or an event, whatever its kind. */
export interface Document {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: ObjectMeta & { readonly continue?: string; readonly remainingItemCount?: number };
  readonly spec: Readonly<Record<string, unknown>>;
  readonly status: unknown;
  readonly data: Readonly<Record<string, string>>;
  readonly items: readonly Document[];
  readonly reason?: string;
  readonly message: string;
  readonly code: number;
  readonly details?: { readonly causes?: readonly Cause[] };
}

export interface Reply {
  readonly status: number;
  readonly headers: Headers;
  readonly body: Document;
}

export interface WatchEvent {
  readonly type: string;
  readonly object: Document;
}

interface SendOptions {
  readonly contentType?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

const deadlineMs = 20_000;

export const strategic = "application/strategic-merge-patch+json";
export const merge = "application/merge-patch+json";
export const jsonPatch = "application/json-patch+json";
export const apply = "application/apply-patch+yaml";

/** Requests to an API server by nothing but `fetch`. */
export class ApiClient {
  readonly #connection: Connection;

  constructor(connection: Connection) {
    this.#connection = connection;
  }

  /** Sends a request; a string body is sent as it is. */
  async send(method: string, path: string, body?: unknown, options: SendOptions = {}): Promise<Reply> {
    const response = await this.fetch(path, {
      method,
      headers: { "content-type": options.contentType ?? "application/json", ...options.headers },
      ...(body === undefined ? {} : { body: typeof body === "string" ? body : JSON.stringify(body) }),
    });
    const text = await response.text();
    return { status: response.status, headers: response.headers, body: JSON.parse(text) };
  }

  get(path: string, accept?: string): Promise<Reply> {
    return this.send("GET", path, undefined, accept === undefined ? {} : { headers: { accept } });
  }

  /** Sends a request that must succeed, and gives what was answered. */
  async done(method: string, path: string, body?: unknown, contentType?: string): Promise<Document> {
    const reply = await this.send(method, path, body, contentType === undefined ? {} : { contentType });
    if (reply.status >= 300) throw new Error(`${method} ${path}: ${reply.status} ${reply.body.message}`);
    return reply.body;
  }

  fetch(path: string, init: RequestInit = {}): Promise<Response> {
    const { url, tls, token } = this.#connection;
    const headers = new Headers(init.headers);
    if (token !== undefined) headers.set("authorization", `Bearer ${token}`);
    return fetch(url + path, { signal: AbortSignal.timeout(deadlineMs), ...init, headers, tls });
  }

  /** Opens a watch. Dispose of it to end the connection. */
  async watch(path: string, accept = "application/json"): Promise<Watch> {
    const ending = new AbortController();
    const signal = AbortSignal.any([ending.signal, AbortSignal.timeout(deadlineMs)]);
    const response = await this.fetch(path, { headers: { accept }, signal });
    return new Watch(response, ending);
  }
}

/** An open watch, read event by event. */
export class Watch implements AsyncDisposable {
  readonly #ending: AbortController;
  readonly #events: AsyncGenerator<WatchEvent>;

  constructor(response: Response, ending: AbortController) {
    this.#ending = ending;
    this.#events = eventsOf(response);
  }

  /** The next event; rejects when the watch has ended. */
  async next(): Promise<WatchEvent> {
    const { value, done } = await this.#events.next();
    if (done) throw new Error("the watch has ended");
    return value;
  }

  /** The next events, as `TYPE name`. */
  async take(count: number): Promise<readonly string[]> {
    const seen: string[] = [];
    while (seen.length < count) {
      const { type, object } = await this.next();
      seen.push(`${type} ${object.metadata.name ?? ""}`);
    }
    return seen;
  }

  /** Everything until the watch ends. */
  rest(): Promise<readonly WatchEvent[]> {
    return Array.fromAsync(this.#events);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#ending.abort();
  }
}

async function* eventsOf(response: Response): AsyncGenerator<WatchEvent> {
  const decoder = new TextDecoder();
  let text = "";
  for await (const chunk of response.body ?? []) {
    text += decoder.decode(chunk, { stream: true });
    const lines = text.split("\n");
    text = lines.pop() ?? "";
    for (const line of lines) if (line !== "") yield JSON.parse(line);
  }
}

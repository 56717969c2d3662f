import type { ProcessTime } from "../../timeline.ts";
import type { VirtualRuntime } from "./virtual-runtime.ts";

export type Handler = (request: Request) => Response | Promise<Response>;

/** A request between two processes. */
export interface Exchange {
  readonly id: number;
  readonly process: ProcessTime;
  /** The generation of the process that sends it, if one does. */
  readonly generation: number | undefined;
  readonly port: number;
  readonly method: string;
  readonly path: string;
  readonly body: string;
  /** In virtual time. */
  readonly sentAt: number;
}

/** What the network does to a request. Delays are in milliseconds. */
export interface Fate {
  readonly delayMs: number;
  readonly replyDelayMs: number;
  /** The request is lost on its way, or its reply is: nothing more is heard of it. */
  readonly lost?: "request" | "reply";
  /** The connection is reset before the request has an effect, or after. */
  readonly reset?: "before" | "after";
  /** Something in between answers. */
  readonly instead?: () => Response;
}

/** Observes and disturbs all requests. */
export interface NetworkObserver {
  fate(exchange: Exchange): Fate;
  sent(exchange: Exchange): void;
  /** How many milliseconds later one arrives whose connection was closed on its way; undefined: never. */
  canceled(exchange: Exchange): number | undefined;
  /** Right before the server sees it. */
  arrived(exchange: Exchange): void;
  /** Right after the server has carried it out; undefined without a reply. */
  done(exchange: Exchange, status: number | undefined, text: string): void;
  /** How many milliseconds longer the reply takes, right after the server has sent it. */
  held(exchange: Exchange): number;
  /** What arrives in place of a part of a watch; the first part is an empty line. */
  passed(exchange: Exchange, part: Part): Passed;
}

/** An event of a watch. */
export type Part = Uint8Array;

/** Events of a watch, each so long after the one before: at once unless given. */
export interface Passed {
  readonly parts: readonly Part[];
  readonly spacingMs?: number;
}

interface Init {
  readonly method?: string;
  readonly headers?: Bun.HeadersInit;
  readonly body?: string | Uint8Array<ArrayBuffer>;
  readonly signal?: AbortSignal;
}

const decoder = new TextDecoder();
const networkError = (code: string): Error => Object.assign(new Error(`simulated ${code}`), { code });

/** Servers by port, and the requests to them: `Bun.serve` and `fetch` in memory. */
export class VirtualNetwork {
  readonly #runtime: VirtualRuntime;
  readonly #servers = new Map<number, Handler>();
  #exchanges = 0;
  observer: NetworkObserver | undefined;

  constructor(runtime: VirtualRuntime) {
    this.#runtime = runtime;
  }

  serve(port: number, handler: Handler): void {
    this.#servers.set(port, handler);
  }

  close(port: number): void {
    this.#servers.delete(port);
  }

  fetch(url: string, init: Init = {}): Promise<Response> {
    const { port, pathname, search } = new URL(url);
    const { body = "", method = "GET" } = init;
    const exchange: Exchange = {
      id: ++this.#exchanges,
      process: this.#runtime.caller,
      generation: this.#runtime.generation,
      port: Number(port),
      method,
      path: `${pathname}${search}`,
      body: typeof body === "string" ? body : decoder.decode(body),
      sentAt: this.#runtime.timeline.now,
    };
    const call = new Call(this.#runtime, exchange, { ...init, url }, this.observer, (at) => this.#servers.get(at));
    return call.reply;
  }
}

/** A request and its reply in transit. */
class Call {
  readonly reply: Promise<Response>;
  readonly #runtime: VirtualRuntime;
  readonly #exchange: Exchange;
  readonly #init: Init & { readonly url: string };
  readonly #observer: NetworkObserver | undefined;
  readonly #serverAt: (port: number) => Handler | undefined;
  readonly #resolve: (response: Response) => void;
  readonly #reject: (error: unknown) => void;
  readonly #connection = new AbortController();
  readonly #fate: Fate;
  /** Ends listening to the caller's signal: a process would keep every request that it has sent. */
  #ended = (): void => undefined;

  constructor(
    runtime: VirtualRuntime,
    exchange: Exchange,
    init: Init & { readonly url: string },
    observer: NetworkObserver | undefined,
    serverAt: (port: number) => Handler | undefined,
  ) {
    const { promise, resolve, reject } = Promise.withResolvers<Response>();
    this.reply = promise;
    this.#runtime = runtime;
    this.#exchange = exchange;
    this.#init = init;
    this.#observer = observer;
    this.#serverAt = serverAt;
    this.#resolve = resolve;
    this.#reject = reject;
    this.#fate = observer?.fate(exchange) ?? { delayMs: 1, replyDelayMs: 1 };
    const { signal } = init;
    if (signal?.aborted) reject(signal.reason);
    else this.#send(signal);
  }

  #send(signal: AbortSignal | undefined): void {
    const { process } = this.#exchange;
    const closed = (): void => {
      this.#ended();
      this.#connection.abort();
      this.#reject(signal?.reason);
    };
    if (signal !== undefined) this.#ended = process.onAbort(signal, closed);
    this.#observer?.sent(this.#exchange);
    const { delayMs, lost, reset } = this.#fate;
    if (lost === "request") return;
    this.#runtime.timeline.after(delayMs, () => {
      if (this.#connection.signal.aborted) this.#arriveLate();
      else if (reset === "before") this.#fail("ECONNRESET");
      else this.#arrive(this.#connection.signal);
    });
  }

  /** The server may have all of a request whose connection is closed. */
  #arriveLate(): void {
    if (this.#fate.reset === "before") return;
    const lateMs = this.#observer?.canceled(this.#exchange);
    if (lateMs !== undefined) this.#runtime.timeline.after(lateMs, () => this.#arrive());
  }

  #arrive(signal?: AbortSignal): void {
    this.#runtime.as(this.#runtime.outside, () => void this.#carryOut(signal).catch(this.#crashed));
  }

  readonly #crashed = (error: unknown): void => {
    this.#runtime.unhandled.push(`${this.#exchange.method} ${this.#exchange.path}: ${String(error)}`);
  };

  async #carryOut(signal: AbortSignal | undefined): Promise<void> {
    const { method, port } = this.#exchange;
    const { url, headers, body } = this.#init;
    const { instead, lost, reset } = this.#fate;
    const handler = this.#serverAt(port);
    if (handler === undefined) return this.#fail("ECONNREFUSED");
    this.#observer?.arrived(this.#exchange);
    const request = new Request(url, {
      method,
      ...(signal === undefined ? {} : { signal }),
      ...(headers === undefined ? {} : { headers }),
      ...(body === undefined ? {} : { body }),
    });
    const response = instead?.() ?? (await handler(request));
    if (isStream(url) && response.ok) return this.#stream(response);
    let text: string;
    try {
      text = await response.text();
    } catch {
      this.#observer?.done(this.#exchange, undefined, "");
      return this.#fail("ECONNRESET");
    }
    this.#observer?.done(this.#exchange, response.status, text);
    if (lost === "reply") return;
    if (reset === "after") return this.#fail("ECONNRESET");
    const { status, headers: replied } = response;
    const heldMs = response.ok ? (this.#observer?.held(this.#exchange) ?? 0) : 0;
    this.#deliver(() => {
      this.#ended();
      this.#resolve(new Response(text === "" ? null : text, { status, headers: replied }));
    }, heldMs);
  }

  #fail(code: string): void {
    this.#deliver(() => {
      this.#ended();
      this.#reject(networkError(code));
    });
  }

  #deliver(work: () => void, heldMs = 0): void {
    const { process } = this.#exchange;
    this.#runtime.timeline.after(this.#fate.replyDelayMs + heldMs, () => process.deliver(work));
  }

  /** Passes a watch on, chunk by chunk and in order. */
  #stream(response: Response): void {
    this.#observer?.done(this.#exchange, response.status, "");
    const { process } = this.#exchange;
    const reader = response.body?.getReader();
    let controller: ReadableStreamDefaultController<Uint8Array> | undefined;
    let open = true;
    const end = (): void => {
      open = false;
      this.#ended();
      void reader?.cancel().catch(() => undefined);
    };
    const body = new ReadableStream<Uint8Array>({
      start: (given) => void (controller = given),
      cancel: end,
    });
    this.#connection.signal.addEventListener("abort", () => {
      if (open) controller?.error(this.#init.signal?.reason);
      end();
    });
    // A killed process has closed its connections.
    const inProcess = (work: () => void): void => {
      if (process.state === "dead") end();
      else process.deliver(() => open && work());
    };
    let lastAt = 0;
    const later = (work: () => void, spacingMs = 0): void => {
      lastAt = Math.max(lastAt + spacingMs, this.#runtime.timeline.now + this.#fate.replyDelayMs);
      this.#runtime.timeline.after(lastAt - this.#runtime.timeline.now, () => inProcess(work));
    };
    const pump = async (): Promise<void> => {
      try {
        for (;;) {
          const { done, value } = (await reader?.read()) ?? { done: true, value: undefined };
          const passed = value && (this.#observer?.passed(this.#exchange, value) ?? { parts: [value] });
          for (const part of passed?.parts ?? []) later(() => controller?.enqueue(part), passed?.spacingMs);
          if (!done) continue;
          later(() => {
            open = false;
            this.#ended();
            controller?.close();
          });
          return;
        }
      } catch {
        later(() => {
          open = false;
          this.#ended();
          controller?.error(networkError("ECONNRESET"));
        });
      }
    };
    void pump();
    const { status, headers } = response;
    this.#deliver(() => this.#resolve(new Response(body, { status, headers })));
  }
}

const isStream = (url: string): boolean => /[?&]watch=(?:1|true)/u.test(url);

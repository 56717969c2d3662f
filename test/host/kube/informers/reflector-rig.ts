import { setImmediate } from "node:timers/promises";

import { manualClock } from "cloud-controller-host/sdk/testing";

import type { ApiRequest, Transport } from "../../../../host/kube/connection/transport.ts";
import { LogOnce } from "../../../../host/kube/informers/log-once.ts";
import { Reflector } from "../../../../host/kube/informers/reflector.ts";
import { ObjectStore } from "../../../../host/kube/informers/store.ts";
import { capturedLog } from "../captured-log.ts";
import { type Widget, widgets } from "../stub-api.ts";

interface Sent {
  readonly what: string;
  readonly request: ApiRequest;
  readonly resolve: (response: Response) => void;
  readonly reject: (error: unknown) => void;
}

function whatOf({ query = {} }: ApiRequest): string {
  if (query["sendInitialEvents"]) return "STREAM";
  if (query["watch"]) return `WATCH ${query["resourceVersion"]}`;
  return query["limit"] === "1" ? "VERSION" : "LIST";
}

/** A reflector whose requests are answered by the test, at moments that no network can be made to hit. */
export class ReflectorRig implements AsyncDisposable {
  readonly clock = manualClock();
  readonly store = new ObjectStore<Widget>();
  readonly reflector: Reflector<Widget>;
  /** How often the store has taken a step. */
  steps = 0;
  readonly lines: ReturnType<typeof capturedLog>["lines"];
  readonly #sent: Sent[] = [];
  readonly #stop = new AbortController();
  readonly #running: Promise<void>;

  constructor(options: { readonly catchUpFrom?: number; readonly labelSelector?: string } = {}) {
    const transport: Transport = {
      url: "https://test",
      userAgent: "test",
      close: () => undefined,
      send: (request) =>
        new Promise((resolve, reject) => {
          this.#sent.push({ what: whatOf(request), request, resolve, reject });
          request.signal?.addEventListener("abort", () => reject(request.signal?.reason), { once: true });
        }),
    };
    const { log, lines } = capturedLog(2);
    this.lines = lines;
    this.reflector = new Reflector<Widget>({
      transport,
      clock: this.clock,
      log,
      kind: widgets,
      selection: { labelSelector: options.labelSelector },
      store: this.store,
      unreachable: new LogOnce(log, "over"),
      catchUpFrom: options.catchUpFrom,
      changed: () => void (this.steps += 1),
      synced: () => undefined,
    });
    this.#running = this.reflector.run(this.#stop.signal);
  }

  readonly sentSoFar = (): readonly string[] => this.#sent.map(({ what }) => what);

  /** The request that was sent last. */
  get last(): ApiRequest | undefined {
    return this.#sent.at(-1)?.request;
  }

  readonly signal = (): AbortSignal | undefined => this.last?.signal;

  /** Answers the request that was sent last. */
  readonly reply = async (response: Response): Promise<void> => {
    this.#sent.at(-1)?.resolve(response);
    await setImmediate();
  };

  /** Fails the request that was sent last. */
  async fail(error: Error): Promise<void> {
    this.#sent.at(-1)?.reject(error);
    await setImmediate();
  }

  async end(): Promise<void> {
    this.#stop.abort(new Error("the test is over"));
    await this.#running;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.end();
  }
}

export const event = (type: string, name: string, version: number | string, annotations = {}): string => {
  const metadata = { name, namespace: "ns", resourceVersion: String(version), annotations };
  return `${JSON.stringify({ type, object: { kind: "Widget", metadata } })}\n`;
};

export const end = (version: number | string): string =>
  event("BOOKMARK", "", version, { "k8s.io/initial-events-end": "true" });

/** A body that the test writes piece by piece; without a signal its bytes are on the way already and no abort ends it. */
export function body(signal?: AbortSignal) {
  let controller: ReadableStreamDefaultController<Uint8Array> | undefined;
  const stream = new ReadableStream<Uint8Array>({ start: (made) => void (controller = made) });
  signal?.addEventListener("abort", () => controller?.error(signal.reason), { once: true });
  return {
    response: new Response(stream),
    write: (text: string): void => controller?.enqueue(new TextEncoder().encode(text)),
    close: (): void => controller?.close(),
    fail: (error: Error): void => controller?.error(error),
  };
}

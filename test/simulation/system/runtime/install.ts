/**
 * Points the clocks, timers, randomness and network of this process at the world that runs now. Import it before any
 * module of the product, which then is imported dynamically: Node's modules are patched before anything binds their
 * names. It is the one seam: no product code knows of it. `timeline.ts` has bound the real `setImmediate` before.
 */
import { EventEmitter } from "node:events";
import { createRequire } from "node:module";

import { type Handler, VirtualNetwork } from "./network.ts";
import { anySignal } from "./signals.ts";
import { editSources } from "./sources.ts";
import { sleep, timersOf } from "./timers.ts";
import { awaited, VirtualRuntime } from "./virtual-runtime.ts";

export interface ActiveWorld {
  readonly runtime: VirtualRuntime;
  readonly network: VirtualNetwork;
}

const firstPort = 20_000;
let ports = firstPort;

/** Before the first world, time stands still. */
const beginning = new VirtualRuntime(0);
let world: ActiveWorld = { runtime: beginning, network: new VirtualNetwork(beginning) };

/** From now on this process lives in that world. */
export function enter(next: ActiveWorld): void {
  world = next;
  ports = firstPort;
}

const runtime = (): VirtualRuntime => world.runtime;

interface Serving {
  readonly port?: number;
  readonly fetch: Handler;
}

const serve = ({ port = 0, fetch }: Serving) => {
  const { network } = world;
  const at = port === 0 ? ++ports : port;
  network.serve(at, fetch);
  return { port: at, hostname: "127.0.0.1", stop: async () => network.close(at) };
};

const fetch: VirtualNetwork["fetch"] = (url, init) => world.network.fetch(url, init);

class FetchSession {
  readonly fetch = fetch;

  close(): void {
    // No connection to close.
  }
}

/** `node:https`'s `request`, as far as the host uses it: a body of text, and a reply that is read whole. */
function request(
  url: string,
  options: { readonly method?: string; readonly headers?: Record<string, string>; readonly signal?: AbortSignal },
  replied: (reply: EventEmitter) => void,
): EventEmitter {
  const call = new EventEmitter();
  const end = async (body?: string): Promise<void> => {
    try {
      const response = await fetch(url, { ...options, ...(body === undefined ? {} : { body }) });
      const { status: statusCode } = response;
      const reply = Object.assign(new EventEmitter(), { statusCode, headers: Object.fromEntries(response.headers) });
      const bytes = Buffer.from(await response.arrayBuffer());
      replied(reply);
      reply.emit("data", bytes);
      reply.emit("end");
    } catch (error) {
      call.emit("error", error);
    }
  };
  return Object.assign(call, { end });
}

/** The watchdog's thread: real threads know nothing of virtual time. */
class IdleWorker extends EventEmitter {
  unref(): void {
    // It never runs.
  }

  terminate(): Promise<number> {
    return Promise.resolve(0);
  }
}

function randomUUID(): string {
  const bytes = Buffer.from(getRandomValues(new Uint8Array(16)));
  bytes.writeUInt8((bytes.readUInt8(6) & 0x0f) | 0x40, 6);
  bytes.writeUInt8((bytes.readUInt8(8) & 0x3f) | 0x80, 8);
  const hex = bytes.toString("hex");
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;
}

function getRandomValues<T extends ArrayBufferView>(array: T): T {
  // The buffer of a small array is created as it is asked for.
  const bytes = array instanceof Uint8Array ? array : new Uint8Array(array.buffer, array.byteOffset, array.byteLength);
  const { random } = runtime();
  for (let index = 0; index < bytes.length; index += 1) bytes[index] = Math.floor(random() * 256);
  return array;
}

const RealDate = Date;
class VirtualDate extends RealDate {
  constructor(...given: readonly [] | readonly [string | number | Date]) {
    const [value] = given;
    super(value ?? VirtualDate.now());
  }

  static override now(): number {
    return runtime().now();
  }
}

const timeout = (ms: number): AbortSignal => {
  const controller = new AbortController();
  runtime().after(ms, () => controller.abort(new DOMException("The operation timed out.", "TimeoutError")));
  return controller.signal;
};

const require = createRequire(import.meta.url);
const moduleNamed = (name: string): object => require(name);

const timers = timersOf(runtime);
Object.assign(globalThis, timers, { fetch, Date: VirtualDate });
Object.assign(Bun, { serve, FetchSession, sleep: (ms: number) => sleep(runtime(), ms, undefined) });
Object.assign(performance, { now: () => runtime().monotonic() });
Object.assign(Math, { random: () => runtime().random() });
Object.assign(crypto, { randomUUID, getRandomValues });
Object.assign(AbortSignal, { timeout, any: anySignal });
Object.assign(moduleNamed("node:timers"), timers);
Object.assign(moduleNamed("node:timers/promises"), {
  setTimeout: (ms: number, value: unknown, options?: { readonly signal?: AbortSignal }) =>
    sleep(runtime(), ms, value, options),
  setImmediate: (value: unknown) => sleep(runtime(), 0, value),
});
Object.assign(moduleNamed("node:crypto"), { randomUUID });
Object.assign(moduleNamed("node:https"), { request });
Object.assign(moduleNamed("node:worker_threads"), { Worker: IdleWorker });
// A collection takes up to 100 ms of real time, and nothing that the world could see.
Object.assign(moduleNamed("bun:jsc"), { fullGC: () => 0, edenGC: () => 0 });

// Imports are real work, and nothing but the source shows where they begin.
Object.assign(globalThis, { awaitedImport: awaited });

editSources((text) => text.replaceAll(/\bimport\(("[^"]+")\)/gu, "globalThis.awaitedImport(import($1))"));

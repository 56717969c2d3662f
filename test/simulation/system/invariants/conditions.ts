import type { Exchange } from "../runtime/network.ts";
import type { World } from "../world.ts";

/** Longest pause before a Service that has failed often is synced again, and a minute for that. */
const retryMs = 6 * 60_000;

const isWrite = ({ method, path, body }: Request): boolean =>
  method === "PATCH" && /\/services\/[^/]+\/status$/u.test(pathOf(path)) && body.includes('"LoadBalancerReady"');

const pathOf = (path: string): string => path.split("?")[0] ?? "";

type Request = Pick<Exchange, "method" | "path" | "body">;

/**
 * Writes of the condition of Services that have failed. A Service may be well by then, and show nothing: its process does
 * not know if the write was carried out, and repeats it with the next attempt.
 */
export class Conditions {
  readonly #world: Pick<World, "now">;
  /** When the last write of each has failed, by path. */
  readonly #failedAt = new Map<string, number>();
  readonly #lost = new WeakSet<Request>();

  constructor(world: Pick<World, "now">) {
    this.#world = world;
  }

  /** Called before the server has the request: it, or the reply, is going to be lost. */
  lost(request: Request): void {
    if (!isWrite(request)) return;
    this.#lost.add(request);
    this.#failedAt.set(pathOf(request.path), this.#world.now);
  }

  /** The server has answered. */
  done(request: Request, hasFailed: boolean): void {
    if (!isWrite(request) || this.#lost.has(request)) return;
    if (hasFailed) this.#failedAt.set(pathOf(request.path), this.#world.now);
    else this.#failedAt.delete(pathOf(request.path));
  }

  /** True while one that has failed may be repeated. */
  get areDue(): boolean {
    return this.#failedAt.values().some((at) => this.#world.now - at < retryMs);
  }
}

import type { ClusterEvent } from "./cluster-store.ts";
import type { ProcessTime, Timeline } from "./timeline.ts";

export interface SimulatedWatchOptions {
  readonly timeline: Timeline;
  readonly time: ProcessTime;
  readonly collection: string | undefined;
  readonly signal: AbortSignal | undefined;
  readonly latency: () => number;
  readonly isCut: () => boolean;
  readonly ended: (watch: SimulatedWatch) => void;
}

interface WatchEvent {
  readonly type: ClusterEvent["type"] | "ERROR";
  readonly object: object;
}

/** What becomes of a connection that a partition has hit: nothing more arrives, it arrives slowly, or it is reset. */
type Fate = "lost" | "slow" | "reset";
const fates: readonly Fate[] = ["lost", "slow", "reset"];
/** A cut connection is tried again that often, and a slow one delivers one event in up to as much time. */
const slowMs = 1_500;

/** One watch: events in order, which a paused process finds later, and which a partition loses, delays or ends. */
export class SimulatedWatch {
  readonly stream: ReadableStream<Uint8Array>;
  readonly #options: SimulatedWatchOptions;
  readonly #queue: ClusterEvent[] = [];
  /** What has arrived and waits until the process reads it. */
  #arrived = "";
  #controller: ReadableStreamDefaultController<Uint8Array> | undefined;
  #fate: Fate | undefined;
  #sending = false;
  #ended = false;

  constructor(options: SimulatedWatchOptions) {
    this.#options = options;
    this.stream = new ReadableStream({
      start: (controller) => void (this.#controller = controller),
      cancel: () => this.#end(),
    });
    options.time.onAbort(options.signal, () => this.#fail(options.signal?.reason));
    if (options.signal?.aborted) this.#end();
  }

  deliver(event: ClusterEvent): void {
    if (event.collection !== this.#options.collection || this.#ended) return;
    if (this.#options.time.state === "dead") return this.#end();
    this.#queue.push(event);
    this.#send();
  }

  /** The connection is lost without a sign of it. */
  lose(time: ProcessTime): void {
    if (this.#options.time === time) this.#fate = "lost";
  }

  /** The connection has become slow: what it brings is long past. */
  slow(time: ProcessTime): void {
    if (this.#options.time === time) this.#fate ??= "slow";
  }

  /** Ends as a watch does whose version is no longer known. */
  expire(time: ProcessTime): void {
    if (this.#options.time !== time || this.#ended) return;
    this.#arrive([{ type: "ERROR", object: { kind: "Status", code: 410, reason: "Expired" } }]);
  }

  #send(): void {
    if (this.#sending || this.#queue.length === 0) return;
    const { timeline, isCut } = this.#options;
    this.#sending = true;
    timeline.after(this.#delay(), () => {
      this.#sending = false;
      if (this.#ended) return;
      const cut = isCut();
      if (cut) this.#fate ??= fates[Math.floor(timeline.random() * fates.length)];
      if (this.#fate === "reset") return this.#options.time.deliver(() => this.#fail(new Error("simulated reset")));
      if (this.#fate === "lost") return;
      if (!cut) this.#arrive(this.#queue.splice(0, this.#fate === "slow" ? 1 : this.#queue.length));
      this.#send();
    });
  }

  #delay(): number {
    return this.#fate === "slow" ? slowMs * this.#options.timeline.random() : this.#options.latency();
  }

  #arrive(events: readonly WatchEvent[]): void {
    this.#arrived += events.map(({ type, object }) => `${JSON.stringify({ type, object })}\n`).join("");
    this.#options.time.deliver(() => {
      if (this.#arrived !== "" && !this.#ended) this.#controller?.enqueue(new TextEncoder().encode(this.#arrived));
      this.#arrived = "";
    });
  }

  #fail(reason: unknown): void {
    if (this.#ended) return;
    this.#end();
    this.#controller?.error(reason);
  }

  #end(): void {
    this.#ended = true;
    this.#options.ended(this);
  }
}

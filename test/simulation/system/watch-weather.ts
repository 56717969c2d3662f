import type { ProcessTime } from "../timeline.ts";
import type { Exchange, Part, Passed } from "./runtime/network.ts";

/** How many of its last events a watch that goes back delivers again. */
const maxBack = 6;

/** What happens to the events of watches on their way. Lists that are sent as events pass as they are. */
export class WatchWeather {
  readonly #now: () => number;
  /** In virtual time. */
  #repeatsUntil = 0;
  #backUntil = 0;
  #back = 0;
  #spacingMs = 0;
  /** Watches that began before are silent: those of a process, or of all. */
  readonly #lostAt = new Map<ProcessTime | "all", number>();
  /** The last events that a process got of a kind. */
  readonly #recent = new WeakMap<ProcessTime, Map<string, readonly Part[]>>();

  constructor(now: () => number) {
    this.#now = now;
  }

  /** Each event is delivered twice. */
  repeat(forMs: number): void {
    this.#repeatsUntil = this.#now() + forMs;
  }

  /** A watch that begins delivers some events again that its client has, each so long after the one before. */
  goBack(events: number, forMs: number, spacingMs = 0): void {
    this.#back = Math.min(events, maxBack);
    this.#backUntil = this.#now() + forMs;
    this.#spacingMs = spacingMs;
  }

  /** No watch of now delivers anything any more: none at all, or none of a process. */
  lose(of: ProcessTime | "all"): void {
    this.#lostAt.set(of, this.#now());
  }

  clear(): void {
    this.#repeatsUntil = 0;
    this.#backUntil = 0;
  }

  passed({ process, path, sentAt }: Exchange, part: Part): Passed {
    if (sentAt < Math.max(...[...this.#lostAt].map(([of, at]) => (of === "all" || of === process ? at : 0))))
      return { parts: [] };
    if (path.includes("sendInitialEvents")) return { parts: [part] };
    const ofProcess = this.#recent.get(process) ?? new Map<string, readonly Part[]>();
    this.#recent.set(process, ofProcess);
    const kind = path.slice(0, path.indexOf("?"));
    const recent = ofProcess.get(kind) ?? [];
    const isBeginning = part.length === 1;
    if (isBeginning && this.#now() < this.#backUntil)
      return { parts: [part, ...recent.slice(-this.#back)], spacingMs: this.#spacingMs };
    if (isBeginning) return { parts: [part] };
    ofProcess.set(kind, [...recent.slice(1 - maxBack), part]);
    return { parts: this.#now() < this.#repeatsUntil ? [part, part] : [part] };
  }
}

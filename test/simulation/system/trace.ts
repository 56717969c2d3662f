import type { Timeline } from "../timeline.ts";

/** Everything that happened, in order. Two runs of one seed have the same lines. */
export class Trace {
  readonly lines: string[] = [];
  readonly #timeline: Timeline;
  readonly #hash = new Bun.CryptoHasher("sha256");

  constructor(timeline: Timeline) {
    this.#timeline = timeline;
  }

  add(actor: string, text: string): void {
    const line = `${(this.#timeline.now / 1000).toFixed(3).padStart(9)} ${actor.padEnd(7)} ${text}`;
    this.#hash.update(`${line}\n`);
    this.lines.push(line);
  }

  get hash(): string {
    return this.#hash.copy().digest("hex").slice(0, 16);
  }
}

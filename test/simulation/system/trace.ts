import type { Timeline } from "../timeline.ts";

/** Everything that happened, in order. Two runs of one seed have the same lines. */
export class Trace {
  readonly lines: string[] = [];
  readonly #timeline: Timeline;

  constructor(timeline: Timeline) {
    this.#timeline = timeline;
  }

  add(actor: string, text: string): void {
    this.lines.push(`${(this.#timeline.now / 1000).toFixed(3).padStart(9)} ${actor.padEnd(7)} ${text}`);
  }

  get hash(): string {
    const hash = new Bun.CryptoHasher("sha256");
    for (const line of this.lines) hash.update(`${line}\n`);
    return hash.digest("hex").slice(0, 16);
  }
}

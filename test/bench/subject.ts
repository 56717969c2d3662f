import { HostProcess } from "../kit/host-process.ts";
import type { Figure } from "./report.ts";
import { memoryOf } from "./world.ts";

const queued = /^workqueue_(?:depth|unfinished_work_seconds)\{.*\} (\S+)$/gm;
const creations = /^rest_client_requests_total\{(?=.*method="POST").*\} (\S+)$/gm;

/** A host, with what its metrics show. */
export class Subject {
  readonly host: HostProcess;
  #stallSeconds = 0;

  constructor(host: HostProcess) {
    this.host = host;
  }

  /** Waits until no key of a work queue waits or is in progress. */
  idle(limitMs: number): Promise<void> {
    return this.#still(limitMs, async () => (await this.#sum(queued)) === 0);
  }

  /** Waits until the events of finished work are written as well: thousands may wait behind the queue's own writes. */
  async silent(limitMs: number): Promise<void> {
    let created = Number.NaN;
    await this.#still(limitMs, async () => {
      const before = created;
      created = await this.#sum(creations);
      return created === before;
    });
  }

  async #still(limitMs: number, holds: () => Promise<boolean>): Promise<void> {
    const deadline = performance.now() + limitMs;
    for (let still = 0; still < 3 && performance.now() < deadline;) {
      await Bun.sleep(200);
      still = (await holds()) ? still + 1 : 0;
    }
  }

  /**
   * Waits until its controllers run. The longest stall until then, while modules are loaded, delays nothing that is
   * under way, and is a figure of its own.
   */
  async running(phase: string): Promise<readonly Figure[]> {
    await this.host.until("its controllers run", ({ running }) => running);
    return [{ name: `${phase}StallMs`, value: await this.#stallMs(), unit: "ms, the longest until controllers run" }];
  }

  /** Memory now, and the longest stall of the event loop since the last call. */
  async standing(phase: string): Promise<readonly Figure[]> {
    return [
      {
        name: `${phase}StallMs`,
        value: await this.#stallMs(),
        unit: "ms, the longest stall of the event loop",
        aim: "at most 50 ms",
      },
      { name: `${phase}RssMiB`, value: await memoryOf(this.host.pid, "VmRSS"), unit: "MiB" },
    ];
  }

  /** Since the last call. */
  async #stallMs(): Promise<number> {
    await this.#sum(/$^/gm);
    const stallMs = Math.round(1000 * this.#stallSeconds);
    this.#stallSeconds = 0;
    return stallMs;
  }

  /** Sum of the samples that match a pattern. Each scrape begins a new period of the event loop's metric. */
  async #sum(pattern: RegExp): Promise<number> {
    const text = await (await this.host.get("/metrics")).text();
    const stall = Number(/^nodejs_eventloop_lag_max_seconds (\S+)$/m.exec(text)?.[1] ?? 0);
    this.#stallSeconds = Math.max(this.#stallSeconds, Number.isFinite(stall) ? stall : 0);
    return [...text.matchAll(pattern)].reduce((sum, [, value]) => sum + Number(value), 0);
  }
}

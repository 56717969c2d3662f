import {
  type Clock,
  type Counter,
  type Histogram,
  keyOf,
  type Logger,
  type Metrics,
  type Service,
} from "cloud-controller-host/sdk";

import type { ServiceKey } from "../model/model.ts";

/** A pause of this length ends what is logged as one piece of work. */
const idleMs = 250;

const secondsBuckets = [0.1, 0.5, 1, 5, 10, 30, 60, 120, 300, 600, 1200];

type Result = "unchanged" | "changed" | "error";

/**
 * Counts the work in metrics, and logs it in one line for all Services once the work pauses. After a start in which
 * nothing changed, that line reports 0 writes.
 */
export class Activity {
  readonly #clock: Clock;
  readonly #log: Logger;
  readonly #signal: AbortSignal;
  readonly #services: Counter<"result">;
  readonly #seconds: Histogram<"result">;
  readonly #requests: Counter<"kind">;
  #running = 0;
  /** Services since the last line; one that is planned again meanwhile is still one Service. */
  readonly #done = new Set<ServiceKey>();
  readonly #failed = new Set<ServiceKey>();
  #writes = 0;
  #seen = 0;

  constructor(context: {
    readonly clock: Clock;
    readonly log: Logger;
    readonly metrics: Metrics;
    readonly signal: AbortSignal;
  }) {
    this.#clock = context.clock;
    this.#log = context.log;
    this.#signal = context.signal;
    this.#services = context.metrics.counter({
      name: "cloudprovider_azure_services_reconciled_total",
      help: "Services whose load balancer was verified, by result: unchanged needed no write.",
      labels: ["result"],
    });
    this.#seconds = context.metrics.histogram({
      name: "cloudprovider_azure_service_reconcile_duration_seconds",
      help: "Time to bring the load balancer of a Service to its desired state, by result. Includes waits for merged writes.",
      labels: ["result"],
      buckets: secondsBuckets,
    });
    this.#requests = context.metrics.counter({
      name: "cloudprovider_azure_load_balancer_writes_total",
      help: "Requests to Azure that changed something for Services, by kind of write.",
      labels: ["kind"],
    });
  }

  /** To be called for each request that changed something. */
  wrote(kind: string, requests: number): void {
    if (requests === 0) return;
    this.#writes += requests;
    this.#requests.inc({ kind }, requests);
  }

  async track<T extends { readonly writes: number }>(service: Service, work: Promise<T>): Promise<T> {
    this.#running += 1;
    const startedMs = this.#clock.monotonic();
    let result: Result = "error";
    try {
      const value = await work;
      result = value.writes > 0 ? "changed" : "unchanged";
      return value;
    } finally {
      this.#running -= 1;
      this.#services.inc({ result });
      this.#seconds.observe((this.#clock.monotonic() - startedMs) / 1000, { result });
      (result === "error" ? this.#failed : this.#done).add(keyOf(service));
      this.#seen += 1;
      if (this.#running === 0) void this.#reportWhenIdle(this.#seen);
    }
  }

  async #reportWhenIdle(seen: number): Promise<void> {
    await this.#clock.sleep(idleMs, this.#signal);
    if (this.#running > 0 || this.#seen !== seen) return;
    const [done, failed, writes] = [this.#done.size, this.#failed.size, this.#writes];
    for (const keys of [this.#done, this.#failed]) keys.clear();
    this.#writes = 0;
    // Each failure has a line of its own.
    if (done === 0 && writes === 0) return;
    const verb = writes === 0 ? "Verified" : "Reconciled";
    this.#log.info(`${verb} ${counted(done, "Service")}, ${counted(writes, "write")}`, failed === 0 ? {} : { failed });
  }
}

const counted = (count: number, noun: string): string => `${count} ${noun}${count === 1 ? "" : "s"}`;

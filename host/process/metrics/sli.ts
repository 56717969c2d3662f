import { Counter, Gauge, Registry } from "prom-client";

import { expose, type Exposition } from "./exposition.ts";

/** One execution of a health check. `endpoint` is `healthz`, `livez` or `readyz`. */
export interface CheckOutcome {
  readonly name: string;
  readonly endpoint: string;
  readonly ok: boolean;
}

/** The registry of `/metrics/slis`: results of the health checks, for service-level indicators. */
export class SliMetrics {
  readonly #registry = new Registry();
  readonly #state: Gauge<"name" | "type">;
  readonly #runs: Counter<"name" | "type" | "status">;

  /** `startedMs`: start of the process in milliseconds since 1970. */
  constructor(startedMs: number = performance.timeOrigin) {
    const registers = [this.#registry];
    this.#state = new Gauge({
      name: "kubernetes_healthcheck",
      help: "This metric records the result of a single healthcheck.",
      labelNames: ["name", "type"],
      registers,
    });
    this.#runs = new Counter({
      name: "kubernetes_healthchecks_total",
      help: "This metric records the results of all healthcheck.",
      labelNames: ["name", "type", "status"],
      registers,
    });
    const started: Gauge = new Gauge({
      name: "process_start_time_seconds",
      help: "Start time of the process since unix epoch in seconds.",
      registers,
      collect: () => started.set(startedMs / 1000),
    });
  }

  record({ name, endpoint, ok }: CheckOutcome): void {
    this.#state.set({ name, type: endpoint }, ok ? 1 : 0);
    this.#runs.inc({ name, type: endpoint, status: ok ? "success" : "error" });
  }

  /** Removes the state of a deleted check; its counters stay. */
  forget(name: string, endpoint: string): void {
    this.#state.remove({ name, type: endpoint });
  }

  render(accept?: string): Promise<Exposition> {
    return expose([this.#registry], accept);
  }

  /** Handles DELETE of `/metrics/slis`. */
  reset(): void {
    this.#registry.resetMetrics();
  }
}

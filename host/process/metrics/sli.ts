import { Counter, Gauge, Registry } from "prom-client";

import { expose, type Exposition } from "./exposition.ts";

/** One run of a health check. `endpoint` is `healthz`, `livez` or `readyz`. */
export interface CheckOutcome {
  readonly name: string;
  readonly endpoint: string;
  readonly ok: boolean;
}

/** The registry behind `/metrics/slis`: what the health checks said, for service-level indicators. */
export class SliMetrics {
  readonly #registry = new Registry();
  readonly #state: Gauge<"name" | "type">;
  readonly #runs: Counter<"name" | "type" | "status">;

  /** `startedMs`: when the process began, milliseconds since 1970. */
  constructor(startedMs: number = performance.timeOrigin) {
    const registers = [this.#registry];
    this.#state = new Gauge({
      name: "kubernetes_healthcheck",
      help: "The result of the last run of each health check: 1 healthy, 0 not.",
      labelNames: ["name", "type"],
      registers,
    });
    this.#runs = new Counter({
      name: "kubernetes_healthchecks_total",
      help: "Runs of each health check, by result.",
      labelNames: ["name", "type", "status"],
      registers,
    });
    const started: Gauge = new Gauge({
      name: "process_start_time_seconds",
      help: "When the process started, in seconds since 1970.",
      registers,
      collect: () => started.set(startedMs / 1000),
    });
  }

  record({ name, endpoint, ok }: CheckOutcome): void {
    this.#state.set({ name, type: endpoint }, ok ? 1 : 0);
    this.#runs.inc({ name, type: endpoint, status: ok ? "success" : "error" });
  }

  /** Drops the state of a check that is no longer there; its runs stay counted. */
  forget(name: string, endpoint: string): void {
    this.#state.remove({ name, type: endpoint });
  }

  render(accept?: string): Promise<Exposition> {
    return expose([this.#registry], accept);
  }

  /** What a DELETE of `/metrics/slis` does. */
  reset(): void {
    this.#registry.resetMetrics();
  }
}

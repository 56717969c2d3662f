import type { ProcessScope } from "./scope.ts";

/** What `/statusz` shows of generations. Contents of the cloud config never appear, only their hash. */
export interface ReloadStatus {
  readonly generation: number;
  readonly configHash: string;
  readonly controllers: readonly string[];
  /** Conditions of the controllers that need an operator; empty in normal operation. */
  readonly warnings: readonly string[];
  /** False on a standby, and while the cloud provider is disabled by its config. */
  readonly running: boolean;
  readonly disabled: boolean;
  readonly reloads: number;
  /** Why the last reload did not happen; undefined when it did. */
  readonly lastRefusal: { readonly at: string; readonly reason: string } | undefined;
}

type Counted = Pick<ReloadStatus, "disabled" | "reloads" | "lastRefusal">;

/** Tells the outcome of each reload in all the places where people look: log, event on the Lease, metric, status. */
export class ReloadReport {
  readonly #scope: ProcessScope;
  readonly #metrics: ReturnType<typeof reloadMetrics>;
  #status: Counted = { disabled: false, reloads: 0, lastRefusal: undefined };

  constructor(scope: ProcessScope) {
    this.#scope = scope;
    this.#metrics = reloadMetrics(scope);
    this.#metrics.successful.set(1);
  }

  get status(): Counted {
    return this.#status;
  }

  started(generation: number, hash: string, controllers: readonly string[]): void {
    this.#metrics.generation.set(generation);
    this.#scope.log.info("Generation started", { generation, configHash: hash, controllers: controllers.join(",") });
  }

  /** Controllers of the generation that runs have begun, under a lock that was won only now. */
  joined(generation: number, lock: string, controllers: readonly string[]): void {
    this.#scope.log.info("Controllers started under a further lock", {
      generation,
      lock,
      controllers: controllers.join(","),
    });
  }

  swapped(generation: number, reason: string, seconds: number, gapMs: number): void {
    const { disabled } = this.#status;
    this.#status = { disabled: false, reloads: this.#status.reloads + 1, lastRefusal: undefined };
    this.#count("success", seconds);
    this.#metrics.gap.observe(gapMs / 1000);
    const message = `generation ${generation} runs (${reason})${disabled ? "; the cloud provider is enabled again" : ""}`;
    this.#scope.log.info("Reload done", { generation, reason, seconds, gapMs });
    this.#scope.announce("Normal", "Reloaded", message);
  }

  prepared(generation: number, reason: string, seconds: number): void {
    this.#status = { disabled: false, reloads: this.#status.reloads + 1, lastRefusal: undefined };
    this.#count("success", seconds);
    this.#scope.log.info("Reload done; the new generation stands by", { generation, reason, seconds });
  }

  refused(reason: string, why: string, seconds: number): void {
    const at = new Date(this.#scope.clock.now()).toISOString();
    this.#status = { ...this.#status, lastRefusal: { at, reason: why } };
    this.#count("refused", seconds);
    this.#scope.log.error("Reload refused; the running generation goes on", { trigger: reason, reason: why });
    this.#scope.announce("Warning", "ReloadRefused", `the running generation goes on: ${why}`);
  }

  disabled(hash: string): void {
    this.#status = { ...this.#status, disabled: true, lastRefusal: undefined };
    this.#metrics.successful.set(1);
    const message = "disableCloudProvider is true: controllers are stopped until a config without it arrives";
    this.#scope.log.warn(message, { configHash: hash });
    this.#scope.announce("Normal", "CloudProviderDisabled", message);
  }

  runFailed(generation: number, name: string, why: string, next: string): void {
    this.#metrics.failures.inc({ name });
    this.#scope.log.error(`Controller failed; ${next}`, { controller: name, generation, reason: why });
    this.#scope.announce("Warning", "ControllerFailed", `${name} of generation ${generation}: ${why}; ${next}`);
  }

  overdue(generation: number, names: readonly string[], timeoutMs: number): void {
    this.#scope.log.error("Controllers did not return in time and were fenced off", {
      generation,
      controllers: names.join(","),
      timeout: `${timeoutMs / 1000}s`,
    });
  }

  #count(result: "success" | "refused", seconds: number): void {
    this.#metrics.total.inc({ result });
    this.#metrics.seconds.observe(seconds);
    this.#metrics.successful.set(result === "success" ? 1 : 0);
  }
}

function reloadMetrics({ metrics: { root } }: ProcessScope) {
  return {
    generation: root.gauge({ name: "host_generation", help: "Number of the generation that runs." }),
    total: root.counter<"result">({
      name: "host_reloads_total",
      help: "Reloads that were asked for, by result.",
      labels: ["result"],
    }),
    successful: root.gauge({
      name: "host_last_reload_successful",
      help: "1 if the last reload was carried out, 0 if it was refused.",
    }),
    seconds: root.histogram({
      name: "host_reload_duration_seconds",
      help: "Time from the trigger of a reload to its end.",
      buckets: [0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60],
    }),
    gap: root.histogram({
      name: "host_reload_gap_seconds",
      help: "Time of a reload during which no controller ran.",
      buckets: [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5, 30],
    }),
    failures: root.counter<"name">({
      name: "host_controller_failures_total",
      help: "Controllers whose run ended unasked.",
      labels: ["name"],
    }),
  };
}

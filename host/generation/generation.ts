import { type Cloud, type Controller, type Logger, messageOf } from "cloud-controller-host/sdk";

import type { GenerationFence } from "./fence.ts";
import type { Recipe } from "./prepare.ts";
import type { GenerationMetrics, HealthCheck, ProcessScope } from "./scope.ts";
import { within } from "./time-limit.ts";

/** A controller of a generation, initialised and not yet running. */
export interface Member {
  readonly name: string;
  /** Its name in `running_managed_controllers`, which is upstream's short one. */
  readonly metricName: string;
  readonly controller: Controller;
  readonly log: Logger;
}

export interface GenerationParts {
  readonly scope: ProcessScope;
  readonly number: number;
  readonly recipe: Recipe;
  readonly cloud: Cloud;
  readonly members: readonly Member[];
  readonly fence: GenerationFence;
  readonly metrics: GenerationMetrics;
  readonly aborter: AbortController;
  /** Undoes, in reverse order, all that was made for this generation. */
  readonly resources: AsyncDisposableStack;
}

/** Why a controller's `run` ended though nobody had asked it to. */
export interface RunFailure {
  readonly name: string;
  readonly reason: string;
}

/** One prepared or running set of controllers. Life: `run` → `drain` → `dispose`; or `dispose` alone. */
export class Generation {
  readonly number: number;
  readonly recipe: Recipe;
  readonly #parts: GenerationParts;
  readonly #running = new Map<string, Promise<void>>();
  readonly #failure = Promise.withResolvers<RunFailure>();
  readonly #manager = "cloud-controller-manager";
  #startedAt: number | undefined;

  constructor(parts: GenerationParts) {
    this.#parts = parts;
    this.number = parts.number;
    this.recipe = parts.recipe;
  }

  get controllers(): readonly string[] {
    return this.#parts.members.map(({ name }) => name);
  }

  /** Settles with the first controller whose `run` ended unasked. */
  get failure(): Promise<RunFailure> {
    return this.#failure.promise;
  }

  /** For how long it has been running, in milliseconds; 0 before `run`. */
  get age(): number {
    return this.#startedAt === undefined ? 0 : this.#parts.scope.clock.monotonic() - this.#startedAt;
  }

  /** The health checks of the controllers that run: their own, or none, which passes while they run. */
  get checks(): readonly HealthCheck[] {
    return this.#parts.members.map(({ name, controller }) => ({ name, check: () => controller.check?.() }));
  }

  /** Opens the fence and starts the controllers in order, with the start interval between them. */
  run(): void {
    const { scope, fence, members, cloud } = this.#parts;
    this.#startedAt = scope.clock.monotonic();
    fence.open();
    if (cloud.run !== undefined) this.#start(`${cloud.name}-cloud`, (signal) => cloud.run?.(signal));
    if (scope.settings.controllerStartInterval === 0) for (const member of members) this.#startMember(member);
    else this.#running.set("start of controllers", this.#startSlowly());
  }

  /** Asks every controller to stop and waits for them, for a limited time; returns who did not come back. */
  async drain(timeoutMs: number): Promise<readonly string[]> {
    this.#parts.aborter.abort();
    const { clock } = this.#parts.scope;
    await within(clock, timeoutMs, Promise.allSettled(this.#running.values()));
    return [...this.#running.keys()];
  }

  /** Fences the generation off and undoes all that was made for it. What fails here is logged, not thrown. */
  async dispose(): Promise<void> {
    this.#parts.fence.close();
    try {
      await this.#parts.resources.disposeAsync();
    } catch (error) {
      this.#parts.scope.log.error("The old generation could not be disposed of in full", {
        generation: this.number,
        error,
      });
    }
  }

  fence(): void {
    this.#parts.fence.close();
  }

  async #startSlowly(): Promise<void> {
    const { scope, members, aborter } = this.#parts;
    for (const member of members) {
      if (aborter.signal.aborted) return;
      this.#startMember(member);
      await scope.clock.sleep(scope.settings.controllerStartInterval * (1 + Math.random()), aborter.signal);
    }
    this.#running.delete("start of controllers");
  }

  #startMember({ name, metricName, controller, log }: Member): void {
    const running = this.#parts.metrics.gauge<"name" | "manager">({
      name: "running_managed_controllers",
      help: "Indicates where instances of a controller are currently running",
      labels: ["name", "manager"],
    });
    log.info("Starting controller");
    running.set(1, { name: metricName, manager: this.#manager });
    this.#start(
      name,
      (signal) => controller.run(signal),
      () => {
        running.set(0, { name: metricName, manager: this.#manager });
        log.info("Controller stopped");
      },
    );
  }

  #start(name: string, run: (signal: AbortSignal) => Promise<void> | undefined, ended?: () => void): void {
    const { signal } = this.#parts.aborter;
    const settled = (reason: string): void => {
      this.#running.delete(name);
      ended?.();
      if (!signal.aborted) this.#failure.resolve({ name, reason });
    };
    this.#running.set(
      name,
      Promise.try(run, signal).then(
        () => settled("its run() returned though nobody had asked it to stop"),
        (error: unknown) => settled(messageOf(error)),
      ),
    );
  }
}

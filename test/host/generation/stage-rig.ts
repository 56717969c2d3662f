import {
  type Cloud,
  type Controller,
  type ControllerContext,
  type ControllerPlugin,
  defineCloud,
  defineController,
  type Fence,
  Type,
} from "cloud-controller-host/sdk";
import { memoryCloud } from "cloud-controller-host/sdk/testing";

import { systemClock } from "../../../host/async/clock.ts";
import { complete } from "../../../host/config/complete.ts";
import { defaultOptions } from "../../../host/config/options.ts";
import { prepare, type Recipe } from "../../../host/generation/prepare.ts";
import { ReloadReport } from "../../../host/generation/reload-report.ts";
import type { GenerationSettings, ProcessScope } from "../../../host/generation/scope.ts";
import { Stage } from "../../../host/generation/stage.ts";
import { createClient } from "../../../host/kube/connection/client.ts";
import { createTransport } from "../../../host/kube/connection/transport.ts";
import { InformerPool } from "../../../host/kube/informers/pool.ts";
import { createWorkQueue } from "../../../host/kube/queue/work-queue.ts";
import { createLogger } from "../../../host/process/log/log.ts";
import { MetricsRegistry } from "../../../host/process/metrics/metrics.ts";
import { SliMetrics } from "../../../host/process/metrics/sli.ts";
import { HealthChecks } from "../../../host/process/serving/health.ts";
import { SandboxApiServer } from "../../../host/sandbox/index.ts";

/** The main lock, the one of a migration, and what stands in the place of a lock for what another component runs. */
export const [main, side, elsewhere] = ["main-lock", "side-lock", "elsewhere"] as const;

/** What a controller was made with, for tests that act in its place. */
export interface Made {
  readonly context: ControllerContext;
  readonly cloud: Cloud;
}

type Work = (signal: AbortSignal, made: Made) => Promise<void>;

/** Ends when it is asked to, and not before. */
export const untilAborted = (signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    signal.addEventListener("abort", () => resolve(), { once: true });
    if (signal.aborted) resolve();
  });

/** A stage on the sandbox's API server, with everything real but the locks, which a test holds or not. */
export class StageRig implements AsyncDisposable {
  readonly stage: Stage;
  readonly health: HealthChecks;
  /** Locks that are safely held; taken from the start. */
  readonly held = new Set<string>([main, side]);
  /** `generation name`, of all that runs now. */
  readonly running = new Set<string>();
  /** Controllers of two generations that ran at the same time. */
  readonly overlaps: string[] = [];
  /** What was made last under each controller's name. */
  readonly made = new Map<string, Made>();
  /** The fence of the cloud that was made last. */
  cloudFence: Fence | undefined;
  readonly #lockOf = new Map<string, string>();
  readonly #scope: ProcessScope;
  readonly #ending = new AsyncDisposableStack();
  readonly #stopping = new AbortController();
  #generations = 0;

  static async start(settings: Partial<GenerationSettings> = {}): Promise<StageRig> {
    return new StageRig(await SandboxApiServer.start(), settings);
  }

  private constructor(api: SandboxApiServer, settings: Partial<GenerationSettings>) {
    this.#ending.use(api);
    const credentials = { tls: { ca: api.ca }, headers: { Authorization: `Bearer ${api.tokens.of("test")}` } };
    const server = { url: api.url, proxy: undefined, credentials: async () => credentials };
    const transport = createTransport(server, { userAgent: "test", qps: -1 });
    this.#ending.defer(() => transport.close());
    const log = createLogger({ format: "json", verbosity: 0, write: () => undefined });
    const metrics = new MetricsRegistry();
    const informers = new InformerPool({ transport, clock: systemClock, log });
    this.#ending.defer(() => informers.close());
    this.health = new HealthChecks({ clock: systemClock, log, slis: new SliMetrics() });
    this.#scope = {
      settings: {
        pluginDirectories: [],
        cloudProvider: "memory",
        clusterName: "test",
        controllers: ["*"],
        controllerStartInterval: 0,
        drainTimeout: 5_000,
        initTimeout: 5_000,
        own: new Map(),
        ...settings,
      },
      config: complete(defaultOptions),
      environment: {},
      locks: {
        main,
        of: ({ name }) => {
          const lock = this.#lockOf.get(name) ?? main;
          return lock === elsewhere ? { runBy: "another-component" } : { lock };
        },
        problems: () => [],
        safelyHeld: (lock) => this.held.has(lock),
      },
      clock: systemClock,
      log,
      metrics,
      informers,
      health: this.health,
      tracer: { span: (_name, _attributes, work) => work() },
      client: (_name, fence) => createClient(transport, { fence }),
      recorder: () => ({ event: () => undefined }),
      workqueue: (name, options) => createWorkQueue(name, { ...options, clock: systemClock }),
      announce: () => undefined,
    };
    const report = new ReloadReport(this.#scope);
    this.stage = new Stage(this.#scope, report, (recipe, signal) => this.#prepare(recipe, signal));
  }

  /** A controller that belongs to a lock and does this. */
  controller(name: string, lock: string, work: Work = untilAborted): ControllerPlugin {
    this.#lockOf.set(name, lock);
    return defineController({
      name,
      construct: (_init, _config, cloud) => (context) => {
        const made = { context, cloud };
        this.made.set(name, made);
        return this.#noted(`${context.generation} ${name}`, (signal) => work(signal, made));
      },
    });
  }

  /** Prepares a generation of these controllers and puts it on the stage. */
  async install(...controllers: readonly ControllerPlugin[]): Promise<void> {
    const config = { source: "a test", document: {}, disabled: false, hash: "hash" };
    const recipe: Recipe = { plugins: { controllers, clouds: [this.#cloud()] }, config };
    await this.stage.install(await this.#prepare(recipe, this.#stopping.signal), "test", 0);
  }

  /** Leads until the rig ends or `stop`; resolves with the end of it. */
  lead(): Promise<void> {
    return this.stage.lead(this.#stopping.signal);
  }

  stop(): void {
    this.#stopping.abort();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.stop();
    await this.stage.clear();
    await this.#ending.disposeAsync();
  }

  #prepare(recipe: Recipe, signal: AbortSignal): ReturnType<typeof prepare> {
    this.#generations += 1;
    return prepare(this.#scope, this.#generations, recipe, signal);
  }

  #noted(name: string, work: (signal: AbortSignal) => Promise<void>): Controller {
    return {
      run: async (signal) => {
        const generation = name.split(" ", 1).join("");
        for (const other of this.running)
          if (!other.startsWith(`${generation} `)) this.overlaps.push(`${other}, ${name}`);
        this.running.add(name);
        await work(signal).finally(() => this.running.delete(name));
      },
    };
  }

  #cloud() {
    return defineCloud({
      name: "memory",
      configSchema: Type.Object({}),
      decode: () => ({ ok: true, value: {}, warnings: [] }),
      create: async (_config, { fence }) => {
        this.cloudFence = fence;
        return memoryCloud().cloud;
      },
    });
  }
}

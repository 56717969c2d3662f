import {
  type Clock,
  type Cloud,
  CodedError,
  type Controller,
  type ControllerContext,
  type ControllerPlugin,
  defineCloud,
  defineController,
  type Fence,
  type KindRef,
  Type,
} from "cloud-controller-host/sdk";
import { memoryCloud } from "cloud-controller-host/sdk/testing";

import { systemClock } from "../../../host/async/clock.ts";
import { OutstandingWork } from "../../../host/async/outstanding-work.ts";
import { within } from "../../../host/async/timeout.ts";
import { defaultOptions } from "../../../host/config/flags/options.ts";
import { complete } from "../../../host/config/validate/complete.ts";
import type { LoadedPlugins } from "../../../host/generation/plugins/load.ts";
import { prepare } from "../../../host/generation/prepare/prepare.ts";
import { ReloadReport } from "../../../host/generation/report/reload-report.ts";
import type { GenerationSettings, ProcessScope } from "../../../host/generation/scope/scope.ts";
import type { Generation, GenerationSpec } from "../../../host/generation/slot/generation.ts";
import { GenerationSlot, type WorkEnd } from "../../../host/generation/slot/slot.ts";
import { createClient } from "../../../host/kube/connection/client.ts";
import { createTransport } from "../../../host/kube/connection/transport.ts";
import { InformerPool } from "../../../host/kube/informers/pool.ts";
import type { GenerationInformers } from "../../../host/kube/informers/share.ts";
import { createWorkQueue } from "../../../host/kube/queue/work-queue.ts";
import { createLogger } from "../../../host/process/log/log.ts";
import { MetricsRegistry } from "../../../host/process/metrics/metrics.ts";
import { SliMetrics } from "../../../host/process/metrics/sli.ts";
import { HealthChecks } from "../../../host/process/serving/health.ts";
import { SandboxApiServer } from "../../../sdk/testing/api-server/index.ts";
import { hurriedClock } from "../../kit/clocks.ts";
import { pluginsOf } from "../../kit/no-plugins.ts";

/** The main lock, the one of a migration, and what stands in the place of a lock for what another component runs. */
export const [main, side, elsewhere] = ["main-lock", "side-lock", "elsewhere"] as const;

/** What a controller was made with, for tests that act in its place. */
export interface Made {
  readonly context: ControllerContext;
  readonly cloud: Cloud;
}

type Work = (signal: AbortSignal, made: Made) => Promise<void>;

/** Ends when its signal aborts, and not before. */
export const untilAborted = (signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    signal.addEventListener("abort", () => resolve(), { once: true });
    if (signal.aborted) resolve();
  });

/** A slot on the sandbox's API server, with everything real but the locks, which a test holds or not. */
export class SlotRig implements AsyncDisposable {
  readonly slot: GenerationSlot;
  readonly api: SandboxApiServer;
  /** What was logged, one JSON document each. */
  readonly lines: string[] = [];
  readonly report: ReloadReport;
  readonly metrics = new MetricsRegistry();
  /** Grace periods last a tenth of their time. */
  readonly outstanding = new OutstandingWork(hurriedClock(10));
  readonly health: HealthChecks;
  /** Locks that are safely held; taken from the start. */
  readonly held = new Set<string>([main, side]);
  /** `generation name`, of all that runs now. */
  readonly running = new Set<string>();
  /** Controllers of two generations that ran at the same time. */
  readonly overlaps: string[] = [];
  /** What the next controllers watch. */
  watchedKinds: readonly KindRef[] = [];
  /** What the next clouds watch, their own work, and what they can say about one object. */
  cloudKinds: readonly KindRef[] = [];
  cloudRun: ((signal: AbortSignal) => Promise<void>) | undefined;
  cloudExplain: Cloud["explain"];
  /** What was made last under each controller's name. */
  readonly made = new Map<string, Made>();
  /** Called by the next clouds as they are created and disposed of. */
  createCloud: () => Promise<void> = () => Promise.resolve();
  disposeCloud: () => Promise<void> = () => Promise.resolve();
  /** Called as a share of the informers is released. */
  releaseShare: () => void = () => undefined;
  /** Called as each controller is initialized, and by each write to a cloud. */
  createController: (() => Promise<void>) | undefined;
  cloudWork: () => Promise<void> = () => Promise.resolve();
  /** Events on the Lease, and names of the health checks. */
  readonly announced: string[] = [];
  checks: readonly string[] = [];
  /** What the controllers whose health was checked were made with. */
  readonly checked: Made[] = [];
  /** When the stores show what was written, and when they are as fresh as the lease. */
  showWrites: () => Promise<void> = () => Promise.resolve();
  refresh: () => Promise<void> = () => Promise.resolve();
  /** Since when a lock is held, by the monotonic clock. */
  heldSince: (lock: string) => number = () => Number.NEGATIVE_INFINITY;
  /** Names of controllers that are tried again when their run fails. */
  readonly thirdParty = new Set<string>();
  collectGarbage: () => void = () => undefined;
  collectYoungGarbage: () => void = () => undefined;
  /** The fence of the cloud that was made last. */
  cloudFence: Fence | undefined;
  readonly #lockOf = new Map<string, string>();
  readonly scope: ProcessScope;
  readonly #ending = new AsyncDisposableStack();
  readonly #stopping = new AbortController();
  #generations = 0;

  static async start(settings: Partial<GenerationSettings> = {}, clock: Clock = systemClock): Promise<SlotRig> {
    return new SlotRig(await SandboxApiServer.start(), settings, clock);
  }

  private constructor(api: SandboxApiServer, settings: Partial<GenerationSettings>, clock: Clock) {
    this.api = api;
    this.#ending.use(api);
    const credentials = { tls: { ca: api.ca }, headers: { Authorization: `Bearer ${api.tokens.of("test")}` } };
    const server = { url: api.url, proxy: undefined, credentials: async () => credentials };
    const transport = createTransport(server, { userAgent: "test", qps: -1 });
    this.#ending.defer(() => transport.close());
    const log = createLogger({ format: "json", verbosity: 0, write: (line) => void this.lines.push(line) });
    const { metrics } = this;
    const informers = new InformerPool({ transport, clock: systemClock, log });
    this.#ending.defer(() => informers.close());
    this.health = new HealthChecks({ clock: systemClock, log, slis: new SliMetrics() });
    this.scope = {
      settings: {
        cloudProvider: "memory",
        clusterName: "test",
        controllers: ["*"],
        controllerStartInterval: 0,
        drainTimeout: 30_000,
        initTimeout: 30_000,
        pluginFailurePolicy: "skip",
        webhooks: [],
        own: () => new Map(),
        ...settings,
      },
      recordWrite: () => undefined,
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
        heldSince: (lock) => this.heldSince(lock),
      },
      clock,
      log,
      outstanding: this.outstanding,
      loopOwner: { run: (_name, work) => work() },
      metrics,
      informers: {
        share: () => this.#share(informers.share()),
        relist: (since) => informers.relist(since),
        showWrites: () => this.showWrites(),
      },
      health: {
        replaceGeneration: (checks) => {
          this.checks = checks.map(({ name }) => name);
          return this.health.replaceGeneration(checks);
        },
      },
      tracer: { span: (_name, _attributes, work) => work() },
      client: (_name, fence) => createClient(transport, { fence }),
      recorder: () => ({ event: () => undefined }),
      workqueue: (name, options) => createWorkQueue(name, { ...options, clock: systemClock }),
      collectGarbage: () => this.collectGarbage(),
      collectYoungGarbage: () => this.collectYoungGarbage(),
      locate: () => ({ class: "Located" }),
      announce: (_type, reason, message) => void this.announced.push(`${reason}: ${message}`),
    };
    this.report = new ReloadReport(this.scope);
    this.slot = new GenerationSlot(this.scope, this.report, (spec, signal) => this.#prepare(spec, signal));
  }

  /** A controller that belongs to a lock and does this. */
  controller(name: string, lock: string, work: Work = untilAborted): ControllerPlugin {
    this.#lockOf.set(name, lock);
    return defineController({
      name,
      construct: (_init, _config, cloud) => (context) => {
        const made = { context, cloud };
        this.made.set(name, made);
        for (const kind of this.watchedKinds) context.informers.of(kind);
        const check = (): void => void this.checked.push(made);
        const controller = { ...this.#noted(`${context.generation} ${name}`, (signal) => work(signal, made)), check };
        return this.createController?.().then(() => controller) ?? controller;
      },
    });
  }

  /** Plugins of these controllers and a cloud, as a loader results in them. */
  plugins(controllers: readonly ControllerPlugin[], hash = ""): LoadedPlugins {
    return pluginsOf({ controllers, clouds: [this.#cloud()] }, { hash });
  }

  /** Prepares a generation of these controllers and installs it. */
  install(...controllers: readonly ControllerPlugin[]): Promise<void> {
    return this.installPlugins(this.plugins(controllers));
  }

  async installPlugins(plugins: LoadedPlugins): Promise<void> {
    const config = { source: "a test", document: {}, disabled: false, hash: "hash" };
    const spec = { plugins, config };
    await this.slot.install(await this.#prepare(spec, this.#stopping.signal), "test", 0);
  }

  /** The same with a preparation that a stop of the rig does not end. */
  async installLate(...controllers: readonly ControllerPlugin[]): Promise<void> {
    const config = { source: "a test", document: {}, disabled: false, hash: "hash" };
    const spec = { plugins: this.plugins(controllers), config };
    await this.slot.install(await this.#prepare(spec, new AbortController().signal), "test", 0);
  }

  /** Leads until the rig ends or `stop`; resolves with the end of it. */
  lead(): Promise<WorkEnd> {
    return this.slot.lead(this.#stopping.signal);
  }

  stop(reason?: Error): void {
    this.#stopping.abort(reason);
  }

  /** As the elector does when the lease is lost. */
  lose(): void {
    this.held.clear();
    this.stop(new CodedError("LeaseLost", "the lease is lost"));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.stop();
    await this.slot.close();
    await this.#ending.disposeAsync();
  }

  /** A share of the real pool that is fresh when `refresh` has resolved, too. */
  #share(share: GenerationInformers): GenerationInformers {
    return {
      of: (kind, selection) => share.of(kind, selection),
      synced: (signal) => share.synced(signal),
      get unsynced() {
        return share.unsynced;
      },
      refreshed: async (since, signal) => {
        await within(systemClock, 60_000, this.refresh(), signal);
        await share.refreshed(since, signal);
      },
      stale: (since) => share.stale(since),
      release: () => {
        this.releaseShare();
        share.release();
      },
    };
  }

  #prepare(spec: GenerationSpec, signal: AbortSignal): Promise<Generation> {
    this.#generations += 1;
    const number = this.#generations;
    const mayRetry = ({ name }: ControllerPlugin): boolean => this.thirdParty.has(name);
    return prepare({
      scope: this.scope,
      report: this.report.runs,
      number,
      spec,
      signal,
      mayLeaveOut: () => false,
      mayRetry,
    });
  }

  #noted(name: string, work: (signal: AbortSignal) => Promise<void>): Controller {
    return {
      // Not async: work that throws at once makes `run` throw.
      run: (signal) => {
        const generation = name.split(" ", 1).join("");
        for (const other of this.running)
          if (!other.startsWith(`${generation} `)) this.overlaps.push(`${other}, ${name}`);
        this.running.add(name);
        const ended = (): boolean => this.running.delete(name);
        try {
          return work(signal).finally(ended);
        } catch (error) {
          ended();
          throw error;
        }
      },
    };
  }

  #cloud() {
    return defineCloud({
      name: "memory",
      configSchema: Type.Object({}),
      decode: () => ({ ok: true, value: {}, warnings: [] }),
      create: async (_config, { fence, informers }) => {
        this.cloudFence = fence;
        for (const kind of this.cloudKinds) informers.of(kind);
        const { createCloud, disposeCloud } = this;
        await createCloud();
        const { cloud } = memoryCloud();
        const { loadBalancers } = cloud;
        return {
          ...cloud,
          ...(this.cloudRun && { run: this.cloudRun }),
          ...(this.cloudExplain && { explain: this.cloudExplain }),
          ...(loadBalancers && {
            loadBalancers: {
              ...loadBalancers,
              ensureLoadBalancer: async (...given) => {
                await this.cloudWork();
                return loadBalancers.ensureLoadBalancer(...given);
              },
            },
          }),
          [Symbol.asyncDispose]: disposeCloud,
        };
      },
    });
  }
}

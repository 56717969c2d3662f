import { CodedError, type KubeObject, type Logger, type Metrics, type Store } from "cloud-controller-host/sdk";

import { OutstandingWork } from "../../host/async/outstanding-work.ts";
import { defaultOptions } from "../../host/config/flags/options.ts";
import { complete } from "../../host/config/validate/complete.ts";
import type { ProcessScope } from "../../host/generation/scope/scope.ts";
import { Supervisor } from "../../host/generation/supervisor.ts";
import { Triggers } from "../../host/generation/triggers/triggers.ts";
import { createClient } from "../../host/kube/connection/client.ts";
import type { ApiRequest } from "../../host/kube/connection/transport.ts";
import { InformerPool } from "../../host/kube/informers/pool.ts";
import { createWorkQueue } from "../../host/kube/queue/work-queue.ts";
import { createLeadership, type Leadership } from "../../host/run/leadership.ts";
import { runLifecycle } from "../../host/run/lifecycle.ts";
import { type Caller, intruder, isRelease, type SimulatedApiServer } from "./api-server.ts";
import { versionOf } from "./cluster-store.ts";
import { type Disk, isWhole } from "./disk.ts";
import { simulatedLoader } from "./plugins.ts";
import { ProcessWatch } from "./process-watch.ts";
import { ProcessTime, type Timeline } from "./timeline.ts";

/** Shorter than the defaults, so that every limit is met within a simulation. */
const options = {
  ...defaultOptions,
  leaderElectLeaseDuration: 15_000,
  leaderElectRenewDeadline: 10_000,
  leaderElectRetryPeriod: 2_000,
  generationDrainTimeout: 4_000,
  pluginInitTimeout: 5_000,
};

/** Two clock readings around a sleep may differ by this much less than it. */
const roundingMs = 1;

const noMetrics: Metrics = {
  counter: () => ({ inc: () => undefined }),
  gauge: () => ({ set: () => undefined }),
  histogram: () => ({ observe: () => undefined }),
};

export interface SimHostOptions {
  readonly index: number;
  readonly timeline: Timeline;
  readonly api: SimulatedApiServer;
  readonly disk: Disk;
  readonly violation: (text: string) => void;
}

/** The generation that a write is marked with; 0 for any other request. */
const generationIn = ({ body }: ApiRequest): number =>
  Number(/"generation":"(\d+)"/.exec(JSON.stringify(body ?? ""))?.[1] ?? 0);

/** One process: the real lifecycle, leadership, elector, supervisor, slot and generations, on virtual time and input. */
export class SimHost {
  readonly index: number;
  readonly time: ProcessTime;
  readonly supervisor: Supervisor;
  readonly outstanding: OutstandingWork;
  readonly live = new Map<string, number | undefined>();
  /** Log messages by how often they came. */
  readonly logged = new Map<string, number>();
  readonly lines: string[] = [];
  /** When a stop was requested, in virtual time. */
  stoppedAt: number | undefined;
  exitStatus: number | undefined;
  readonly #options: SimHostOptions;
  readonly #leadership: Leadership;
  readonly #triggers: Triggers;
  readonly #stopping = new AbortController();
  #newestWriter = 0;
  readonly #watch: ProcessWatch;

  constructor(simOptions: SimHostOptions) {
    const { index, timeline, api, disk } = simOptions;
    this.index = index;
    this.#options = simOptions;
    const skew = (timeline.random() - 0.5) * 7_200_000;
    this.time = new ProcessTime(timeline, { offsetMs: skew, rate: 1 + (timeline.random() - 0.5) / 100 });
    const { clock } = this.time;
    this.#watch = new ProcessWatch({
      time: this.time,
      timeline,
      status: () => this.supervisor.status,
      violation: (text) => simOptions.violation(`host ${index}: ${text}`),
    });
    this.outstanding = new OutstandingWork(clock);
    const caller: Caller = {
      host: index,
      time: this.time,
      sent: (request) => this.#sent(request),
      carriedOut: (request, at) => this.#carriedOut(request, at),
    };
    const log = this.#log();
    const events = { recorder: () => ({ event: () => undefined }) };
    const pool = new InformerPool({ transport: api.transport(caller), clock, log, catchUpFrom: 1 });
    const clients = { transport: () => api.transport(caller) };
    const parts = { clock, log, metrics: { root: noMetrics }, health: { addProcess: () => undefined }, events };
    this.#leadership = createLeadership({ options, migrations: [] }, { ...parts, informers: pool, clients });
    const scope: ProcessScope = {
      settings: {
        cloudProvider: "simulated",
        clusterName: "simulation",
        controllers: ["*"],
        controllerStartInterval: 0,
        drainTimeout: options.generationDrainTimeout,
        initTimeout: options.pluginInitTimeout,
        pluginFailurePolicy: "skip",
        webhooks: [],
        own: () => new Map(),
      },
      recordWrite: () => undefined,
      config: complete(options),
      environment: {},
      locks: this.#leadership.locks,
      clock,
      log,
      outstanding: this.outstanding,
      loopOwner: { run: (_, work) => work() },
      metrics: { root: noMetrics, generation: () => ({ ...noMetrics, start: () => undefined, end: () => undefined }) },
      informers: pool,
      health: { replaceGeneration: () => undefined },
      tracer: { span: (_, __, work) => work() },
      client: (_, fence) => pool.track(createClient(api.transport(caller), { fence })),
      recorder: () => ({ event: () => undefined }),
      workqueue: (name, queueOptions) => createWorkQueue(name, { ...queueOptions, clock }),
      locate: () => ({}),
      announce: () => undefined,
    };
    const config = disk.configSource(this.time);
    const loader = simulatedLoader({
      disk,
      time: this.time,
      outstanding: this.outstanding,
      importTimeout: options.pluginInitTimeout,
      live: this.live,
      created: (document) => this.#created(document),
      started: (what, cache) => this.#started(what, cache),
      failing: (generation) => this.#watch.failing(generation),
      violation: (text) => simOptions.violation(`host ${index}: ${text}`),
    });
    this.supervisor = new Supervisor(scope, config, loader);
    const plugins = disk.pluginSource(this.time);
    this.#triggers = new Triggers({
      clock,
      log,
      config,
      followConfig: true,
      plugins,
      followPlugins: true,
      reload: (reason, content) => this.supervisor.reload(reason, content),
    });
    void this.#run(loader, log);
  }

  get isAlive(): boolean {
    return this.time.state !== "dead";
  }

  get leads(): boolean {
    return this.isAlive && this.#leadership.status.leading;
  }

  /** True if it has seen the Lease at all. */
  get hasObserved(): boolean {
    return this.#leadership.status.leader !== "";
  }

  get mayWrite(): boolean {
    return this.isAlive && this.supervisor.mayWrite;
  }

  checkRefusals(): void {
    if (this.isAlive) this.#watch.checkRefusals();
  }

  stop(): void {
    this.stoppedAt ??= this.#options.timeline.now;
    this.time.deliver(() => this.#stopping.abort());
  }

  /** Ends a process that is no longer looked at, so that the runtime can collect it. */
  discard(): void {
    this.time.kill();
    this.#stopping.abort();
  }

  hangUp(): void {
    this.time.deliver(() => this.#triggers.request("SIGHUP"));
  }

  count(message: string): number {
    return this.logged.get(message) ?? 0;
  }

  /** As main.ts does it: plugins are loaded, then the host runs, then the process ends with whatever still runs in it. */
  async #run(loader: ReturnType<typeof simulatedLoader>, log: Logger): Promise<void> {
    const loaded = await loader.load({ mayLeaveOut: () => true });
    try {
      if (!loaded.ok) throw new CodedError("Refused", loaded.problems.join("; "));
      // The others find the Lease as late as one whose first read has failed.
      if (this.index % 2 === 1) void this.#leadership.look(this.#stopping.signal);
      this.exitStatus = await runLifecycle({
        supervisor: this.supervisor,
        leadership: this.#leadership,
        first: this.supervisor.begin(loaded.plugins, this.#stopping.signal),
        clock: this.time.clock,
        log,
        drainTimeout: options.generationDrainTimeout,
        serveReloads: async (configText, signal) => {
          await Promise.all([
            this.supervisor.serveReloads(signal),
            this.#triggers.run({ configText, pluginStamp: loaded.plugins.hash }, signal),
          ]);
        },
        stopping: this.#stopping,
      });
    } catch (error) {
      log.error("Exiting", { error });
      this.exitStatus = 1;
    }
    this.time.kill();
  }

  #sent(request: ApiRequest): void {
    const { violation } = this.#options;
    if (!this.isAlive) return;
    if (isRelease(request) && this.#watch.hasLed) {
      const left = [...this.outstanding.entries.map(({ name }) => name), ...this.live.keys()];
      if (left.length > 0) violation(`host ${this.index} releases the lease while this is alive: ${left.join(", ")}`);
    }
    const generation = generationIn(request);
    if (generation === 0) return;
    if (!this.supervisor.mayWrite)
      violation(`host ${this.index} sends a write of generation ${generation} while fenced`);
    if (generation < this.#newestWriter)
      violation(`host ${this.index}: generation ${generation} writes after generation ${this.#newestWriter}`);
    this.#newestWriter = Math.max(this.#newestWriter, generation);
  }

  /**
   * A process that runs cuts its writes off well before another can lead, however late they would arrive. One that is
   * paused or killed cannot: known limit, as in client-go.
   */
  #carriedOut(request: ApiRequest, sentAt: number): void {
    const { api, violation, index } = this.#options;
    const holder = api.lease?.spec?.holderIdentity ?? "";
    const isAnother = holder !== "" && holder !== intruder && holder !== this.#leadership.status.identity;
    if (generationIn(request) > 0 && isAnother && this.time.ranSince(sentAt))
      violation(`a write of host ${index} takes effect while another holds the lease`);
  }

  #created(document: Readonly<Record<string, unknown>>): void {
    const text = `version: ${String(document["version"])}\n${document["whole"] === true ? "whole: true" : ""}`;
    if (!isWhole(text)) this.#options.violation(`host ${this.index} loads a config that was never settled`);
  }

  /**
   * No controller starts before those of the last generation have returned or have had the time for it, or on a cache
   * that lacks what was written before the lease was free.
   */
  #started(what: string, cache: Store<KubeObject>): void {
    const { api, violation } = this.#options;
    const [generation = ""] = what.split(" ");
    const patience = this.time.clock.monotonic() - options.generationDrainTimeout + roundingMs;
    for (const [other, askedAt = Number.POSITIVE_INFINITY] of this.live)
      if (!other.startsWith(`${generation} `) && askedAt > patience)
        violation(`host ${this.index}: ${what} starts while ${other} runs`);
    for (const [name, version] of api.store.requiredOf(this.#leadership.status.identity)) {
      const cached = versionOf(cache.get(`default/${name}`) ?? {});
      if (cached < version)
        violation(`host ${this.index}: ${what} starts with version ${cached} of ${name}, and it was at ${version}`);
    }
  }

  #log(): Logger {
    const note = (message: string, fields: object = {}): void => {
      this.logged.set(message, (this.logged.get(message) ?? 0) + 1);
      this.#watch.logged(message);
      const { timeline } = this.#options;
      this.lines.push(
        `${timeline.now.toFixed(0).padStart(7)} host ${this.index}: ${message} ${JSON.stringify(fields)}`,
      );
      if (this.lines.length > 400) this.lines.shift();
    };
    const log: Logger = { info: note, warn: note, error: note, debug: () => undefined, with: () => log };
    return log;
  }
}

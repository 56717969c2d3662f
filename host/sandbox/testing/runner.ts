import type { Clock, Cloud, Controller, ControllerContext, ControllerPlugin, KindRef } from "cloud-controller-host/sdk";

import { systemClock } from "../../async/clock.ts";
import { defaultOptions, type Options } from "../../config/flags/options.ts";
import { complete } from "../../config/validate/complete.ts";
import { outcomeOf } from "../../generation/prepare/controller-set.ts";
import { createClient } from "../../kube/connection/client.ts";
import type { ApiServer } from "../../kube/connection/credentials.ts";
import { createTransport, type Transport } from "../../kube/connection/transport.ts";
import { EventBroadcaster } from "../../kube/events/recorder.ts";
import { InformerPool } from "../../kube/informers/pool.ts";
import { createWorkQueue } from "../../kube/queue/work-queue.ts";
import { createLogger } from "../../process/log/log.ts";
import { MetricsRegistry } from "../../process/metrics/metrics.ts";
import { sampleOf } from "./exposition.ts";
import { type GenerationParts, RunningController, TestGeneration } from "./generation.ts";
import { matchesSent, recordSent, type SentMatch, type SentRequest } from "./sent.ts";

export interface RunOptions {
  /** The cloud passed to the controller, such as `memoryCloud().cloud`. */
  readonly cloud: Cloud;
  /** The controller's clock; default: real time. Watches and events always use real time. */
  readonly clock?: Clock;
  /** The clock of its work queues; default: `clock`. */
  readonly queueClock?: Clock;
  /** Host flags by option name: `{ nodeMonitorPeriod: 20 }`. */
  readonly flags?: Partial<Options>;
  /** The plugin's own options. */
  readonly own?: unknown;
}

/** Client names of the informers, the event broadcaster and the test. */
export const clientNames = { informers: "informers", events: "events", test: "test" } as const;

/** Runs controllers against any API server with the host's own parts. Its disposal stops everything that runs. */
export class ControllerRunner implements AsyncDisposable {
  /** Log lines, as JSON. */
  readonly log: readonly string[];
  readonly #connect: (clientName: string) => ApiServer;
  readonly #lines: string[] = [];
  readonly #sent: SentRequest[] = [];
  readonly #metrics = new MetricsRegistry();
  readonly #logger = createLogger({ format: "json", verbosity: 4, write: (line) => void this.#lines.push(line) });
  readonly #events: EventBroadcaster;
  readonly #informers: InformerPool;
  readonly #stack = new AsyncDisposableStack();
  #generations = 0;
  /** Throws for a kind that the API server does not serve. */
  protected assertServed(_kind: KindRef): void {}

  /** `connect` returns address and credentials for a client name: one of `clientNames` or a plugin's. */
  constructor(connect: (clientName: string) => ApiServer, flags: Partial<Options> = {}) {
    this.#connect = connect;
    this.log = this.#lines;
    const shared = { clock: systemClock, log: this.#logger };
    this.#events = new EventBroadcaster({ ...shared, client: createClient(this.transport(clientNames.events)) });
    this.#stack.defer(() => this.#events.close());
    const nodeSelector = flags.nodeFilterRequirements ?? "";
    this.#informers = new InformerPool({ ...shared, transport: this.transport(clientNames.informers), nodeSelector });
    this.#stack.defer(() => this.#informers.close());
  }

  /** Requests of the controllers' clients, oldest first, without those of informers. */
  sent(match: SentMatch = {}): readonly SentRequest[] {
    return this.#sent.filter((sent) => matchesSent(match, sent));
  }

  /** The writes among `sent`. */
  writes(): readonly SentRequest[] {
    return this.#sent.filter(({ method }) => method !== "GET");
  }

  /** The value of a metric, including `_count` and `_sum` of histograms; undefined without a sample. */
  async metric(name: string, labels?: Readonly<Record<string, string>>): Promise<number | undefined> {
    return sampleOf((await this.#metrics.render()).body, name, labels);
  }

  /** True when a work queue has processed that many keys, with success or not. */
  async worked(queue: string, times: number): Promise<boolean> {
    return ((await this.metric("workqueue_work_duration_seconds_count", { name: queue })) ?? 0) >= times;
  }

  /**
   * Constructs, initializes and runs the plugin after its informers have synced. A skipped one must have a `run` of its
   * own; otherwise this throws.
   */
  async run(plugin: ControllerPlugin, options: RunOptions): Promise<RunningController> {
    const generation = this.generation(plugin, options);
    try {
      const controller = await start(plugin, generation, options);
      await generation.synced();
      return this.#stack.use(new RunningController(controller, generation));
    } catch (error) {
      await generation[Symbol.asyncDispose]();
      throw error;
    }
  }

  /** A context for one plugin, with its fence open. */
  generation(plugin: ControllerPlugin, options: Pick<RunOptions, "clock" | "queueClock"> = {}): TestGeneration {
    const { clock = systemClock, queueClock = clock } = options;
    return this.#stack.use(new TestGeneration((parts) => this.#contextOf(plugin, { clock, queueClock }, parts)));
  }

  /** A transport for a client name, closed by the runner's disposal. */
  transport(clientName: string): Transport {
    const transport = createTransport(this.#connect(clientName), { userAgent: clientName, qps: -1 });
    this.#stack.defer(() => transport.close());
    return transport;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#stack.disposeAsync();
  }

  #contextOf(
    plugin: ControllerPlugin,
    { clock, queueClock }: Required<Pick<RunOptions, "clock" | "queueClock">>,
    { stack, fence, signal }: GenerationParts,
  ) {
    const { clientName } = plugin.initContext;
    const metrics = this.#metrics.generation();
    metrics.start();
    stack.defer(() => metrics.end());
    const pool = this.#informers;
    const informers = pool.share();
    stack.defer(() => informers.release());
    const log = this.#logger.with({ controller: plugin.name });
    const assertServed = (kind: KindRef): void => this.assertServed(kind);
    const context: ControllerContext = {
      name: plugin.name,
      generation: ++this.#generations,
      client: pool.track(createClient(recordSent(this.transport(clientName), clientName, this.#sent), { fence })),
      informers: {
        of(kind, selection) {
          assertServed(kind);
          return informers.of(kind, selection);
        },
      },
      events: this.#events.recorder(plugin.name),
      metrics,
      log,
      clock,
      signal,
      workqueue(name, options = {}) {
        const queue = createWorkQueue(name, { ...options, clock: queueClock, metrics, log });
        signal.addEventListener("abort", () => queue.shutDown(), { once: true });
        return queue;
      },
    };
    return {
      context,
      async synced() {
        await informers.synced(signal);
        // As in the host, a generation starts when the watches show the writes of the one before.
        await pool.showWrites();
      },
    };
  }
}

async function start(plugin: ControllerPlugin, generation: TestGeneration, options: RunOptions): Promise<Controller> {
  const bound = plugin.bind(options.own);
  if (!bound.ok) throw new Error(`${plugin.name}: ${bound.problems.join("; ")}`);
  const init = bound.value(complete({ ...defaultOptions, ...options.flags }), options.cloud);
  const outcome = outcomeOf(plugin.name, await init(generation.context));
  if (!("skipped" in outcome)) return outcome;
  if (outcome.run === undefined) throw new Error(`skipped: ${outcome.skipped}`);
  return { run: outcome.run };
}

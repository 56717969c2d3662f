import {
  type Clock,
  type Cloud,
  type ControllerContext,
  type ControllerPlugin,
  kinds,
  type KubeClient,
  type KubeEvent,
} from "cloud-controller-host/sdk";

import { complete } from "../../host/config/complete.ts";
import { defaultOptions, type Options } from "../../host/config/options.ts";
import { createClient } from "../../host/kube/client.ts";
import { EventBroadcaster } from "../../host/kube/events.ts";
import { InformerPool } from "../../host/kube/informer-pool.ts";
import { createTransport, type Transport } from "../../host/kube/transport.ts";
import { createWorkQueue } from "../../host/kube/work-queue.ts";
import { systemClock } from "../../host/process/clock.ts";
import { createLogger } from "../../host/process/log.ts";
import { MetricsRegistry } from "../../host/process/metrics.ts";
import { type ApiServerOptions, SandboxApiServer } from "../../host/sandbox/index.ts";
import { sampleOf } from "./exposition.ts";
import { type GenerationParts, RunningController, TestGeneration } from "./generation.ts";
import { matchesSent, noted, type SentMatch, type SentRequest } from "./sent.ts";

export interface RunOptions {
  /** What the controller is given, such as `memoryCloud().cloud`. */
  readonly cloud: Cloud;
  /** The controller's clock; default: the real time. Watches and events always run on the real time. */
  readonly clock?: Clock;
  /** The clock of its work queues; default: `clock`. */
  readonly queueClock?: Clock;
  /** The host's flags that differ from their defaults, by option name: `{ nodeMonitorPeriod: 20 }`. */
  readonly flags?: Partial<Options>;
  /** The plugin's own options. */
  readonly own?: unknown;
}

/**
 * A cluster in this process for the tests of controllers: the sandbox's API server, and on it everything that the host
 * lends to a controller: transport, client, fence, informer pool, work queues, events, metrics, log. Only the cloud is
 * not real. Take a new one for each test; it starts in milliseconds and ends with all that ran in it.
 */
export class TestCluster implements AsyncDisposable {
  readonly api: SandboxApiServer;
  /** The test's own client; what it does is in no list of what the controllers did. */
  readonly admin: KubeClient;
  /** Lines of the log, as JSON. */
  readonly log: readonly string[];
  readonly #lines: string[] = [];
  readonly #sent: SentRequest[] = [];
  readonly #metrics = new MetricsRegistry();
  readonly #logger = createLogger({ format: "json", verbosity: 4, write: (line) => void this.#lines.push(line) });
  readonly #events: EventBroadcaster;
  readonly #informers: InformerPool;
  readonly #stack = new AsyncDisposableStack();
  #generations = 0;

  static async start(options: ApiServerOptions & { readonly flags?: Partial<Options> } = {}): Promise<TestCluster> {
    return new TestCluster(await SandboxApiServer.start(options), options.flags ?? {});
  }

  private constructor(api: SandboxApiServer, flags: Partial<Options>) {
    this.api = this.#stack.use(api);
    this.log = this.#lines;
    const shared = { clock: systemClock, log: this.#logger };
    this.admin = createClient(this.#transport("test"));
    const client = createClient(this.#transport("events"));
    this.#events = new EventBroadcaster({ ...shared, client });
    this.#stack.defer(() => this.#events.close());
    const nodeSelector = flags.nodeFilterRequirements ?? "";
    this.#informers = new InformerPool({ ...shared, transport: this.#transport("informers"), nodeSelector });
    this.#stack.defer(() => this.#informers.close());
  }

  /** What the controllers' own clients have sent, oldest first. Lists and watches of informers: `api.requests`. */
  sent(match: SentMatch = {}): readonly SentRequest[] {
    return this.#sent.filter((sent) => matchesSent(match, sent));
  }

  /** The writes among them. */
  writes(): readonly SentRequest[] {
    return this.#sent.filter(({ method }) => method !== "GET");
  }

  /** Events that have reached the API server, oldest first. */
  events(reason?: string): readonly KubeEvent[] {
    return this.api.list(kinds.Event).filter((event) => reason === undefined || event.reason === reason);
  }

  /** The first event of that reason, for `eventually`. */
  event(reason: string): KubeEvent | undefined {
    return this.events(reason)[0];
  }

  /** The value of a metric, `_count` and `_sum` of histograms included; undefined when it has none. */
  async metric(name: string, labels?: Readonly<Record<string, string>>): Promise<number | undefined> {
    return sampleOf((await this.#metrics.render()).body, name, labels);
  }

  /** Whether a work queue has handed out and got back that many keys, whatever came of them. */
  async worked(queue: string, times: number): Promise<boolean> {
    return ((await this.metric("workqueue_work_duration_seconds_count", { name: queue })) ?? 0) >= times;
  }

  /** Constructs, initialises and runs the plugin, once its informers have synced. Throws when it is skipped. */
  async run(plugin: ControllerPlugin, options: RunOptions): Promise<RunningController> {
    const bound = plugin.bind(options.own);
    if (!bound.ok) throw new Error(`${plugin.name}: ${bound.problems.join("; ")}`);
    const generation = this.generation(plugin, options);
    const init = bound.value(complete({ ...defaultOptions, ...options.flags }), options.cloud);
    const outcome = await init(generation.context);
    if ("skipped" in outcome) {
      await generation[Symbol.asyncDispose]();
      throw new Error(`skipped: ${outcome.skipped}`);
    }
    await generation.synced();
    return this.#stack.use(new RunningController(outcome, generation));
  }

  /** A context for one plugin, as the host makes it, with its fence open. */
  generation(plugin: ControllerPlugin, options: Pick<RunOptions, "clock" | "queueClock"> = {}): TestGeneration {
    const { clock = systemClock, queueClock = clock } = options;
    return this.#stack.use(new TestGeneration((parts) => this.#contextOf(plugin, { clock, queueClock }, parts)));
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
    stack.defer(() => metrics.end());
    const informers = this.#informers.share();
    stack.defer(() => informers.release());
    const log = this.#logger.with({ controller: plugin.name });
    const context: ControllerContext = {
      name: plugin.name,
      generation: ++this.#generations,
      client: createClient(noted(this.#transport(clientName), clientName, this.#sent), { fence }),
      informers,
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
    return { context, synced: () => informers.synced(signal) };
  }

  #transport(userAgent: string): Transport {
    const { url, ca, tokens } = this.api;
    const credentials = { tls: { ca }, headers: { Authorization: `Bearer ${tokens.of(userAgent)}` } };
    const server = { url, proxy: undefined, credentials: async () => credentials };
    const transport = createTransport(server, { userAgent, qps: -1 });
    this.#stack.defer(() => transport.close());
    return transport;
  }
}

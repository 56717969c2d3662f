import { CodedError, messageOf } from "cloud-controller-host/sdk";

import { within } from "./async/timeout.ts";
import { logFormat } from "./config/flags/options.ts";
import { flagLines } from "./config/help/configz.ts";
import { pluginSource } from "./generation/plugins/plugin-source.ts";
import { Supervisor } from "./generation/supervisor.ts";
import type { ConfigSource } from "./generation/triggers/config-source.ts";
import { Triggers } from "./generation/triggers/triggers.ts";
import { startWatchdog } from "./process/watchdog/watchdog.ts";
import { createLeadership, type Leadership } from "./run/leadership.ts";
import { runLifecycle } from "./run/lifecycle.ts";
import { createParts, type HostInput, type ProcessParts } from "./run/process-parts.ts";
import { configSource, processScope } from "./run/process-scope.ts";
import { type OpenServing, openServing } from "./run/secure-serving.ts";
import type { HostStatus } from "./run/status.ts";
import { stopPhase } from "./run/stop-phases.ts";
import { reportUnhandled } from "./run/unhandled.ts";
import { openWebhookServing } from "./run/webhook-serving.ts";
import { startShadow } from "./shadow/start.ts";

/** One host, from its start to its end. Several may live in one process, as in tests. */
export interface RunningHost {
  /** The address of the server; undefined with `--secure-port=0`. */
  readonly url: string | undefined;
  readonly status: HostStatus;
  /** Requests a reload; config and plugins are read once they have settled. */
  reload(trigger: string): void;
  /** Stops cleanly: drains, releases the lease, flushes. */
  stop(): void;
  /** Reports an error that no code has handled. The process continues. */
  unhandled(error: unknown): void;
  /** The exit status: 0 after a clean stop, 1 when the lease was lost or no generation could be run. */
  readonly finished: Promise<number>;
  /** The error that ended the host, once one has. */
  readonly failure: string | undefined;
}

/** Starts a host. Rejects on invalid input, after undoing everything; the message names the problem. */
export async function startHost(input: HostInput): Promise<RunningHost> {
  if (input.options.shadow) return startShadow(input);
  await using starting = new AsyncDisposableStack();
  const parts = await createParts(input, starting);
  for (const notice of input.notices) parts.log.warn(notice);
  for (const line of flagLines(input.settings)) parts.log.debug(1, line);
  const leadership = createLeadership(input, parts);
  const config = configSource(input, parts, starting);
  const supervisor = new Supervisor(processScope(input, parts, leadership), config, input.loader);
  const startedAt = new Date(parts.clock.now()).toISOString();
  const status = statusOf(supervisor, leadership, { startedAt, shard: input.options.shard });
  const stopping = new AbortController();
  await using standby = new AsyncDisposableStack();
  const first = prepareFirst({ leadership, supervisor, parts, stopping }, input, standby);
  const serving = await openServing(input, parts, status, supervisor);
  if (serving !== undefined) starting.defer(() => stopPhase(parts, "Closing secure serving", () => serving.close()));
  const webhooks = await openWebhookServing(input.options, parts, () => supervisor.webhooks);
  if (webhooks !== undefined) starting.defer(() => stopPhase(parts, "Closing webhook serving", () => webhooks.close()));
  starting.use(standby.move());
  return new Host({
    input,
    parts,
    leadership,
    supervisor,
    config,
    serving,
    status,
    stopping,
    first,
    ending: starting.move(),
  });
}

/** For so long, the first lists wait for the first read of the Lease. */
const maxLookMs = 1_000;

/** Prepares the first generation, which only reads, while the listeners open. Disposing of `standby` ends it. */
function prepareFirst(
  { leadership, supervisor, parts, stopping }: Pick<HostParts, "leadership" | "supervisor" | "parts" | "stopping">,
  { plugins, firstReading }: Pick<HostInput, "plugins" | "firstReading">,
  standby: AsyncDisposableStack,
): HostParts["first"] {
  // Lists that are sent after the reply are younger than a lease that is free; others are sent again when it is won.
  const looking = leadership.look(stopping.signal);
  const looked = within(parts.clock, maxLookMs, looking, stopping.signal);
  const first = supervisor.begin(plugins, stopping.signal, { looked, ...(firstReading && { firstReading }) });
  const settled = Promise.all([looking, first]).catch(() => undefined);
  const end = async (): Promise<void> => {
    stopping.abort();
    await settled;
    await supervisor.close();
  };
  standby.defer(() => stopPhase(parts, "Disposing of the last generation", end));
  return first;
}

const statusOf =
  (supervisor: Supervisor, leadership: Leadership, own: { readonly startedAt: string; readonly shard: string }) =>
  (): HostStatus => {
    const { locks, ...leading } = leadership.status;
    const withControllers = locks.map((lock) => ({ ...lock, controllers: supervisor.runningUnder(lock.lease) }));
    return {
      startedAt: own.startedAt,
      ...(own.shard !== "" && { shard: own.shard }),
      ...supervisor.status,
      ...leading,
      locks: withControllers,
      ...(leadership.shards && { shards: leadership.shards.known }),
    };
  };

interface HostParts {
  readonly input: HostInput;
  readonly parts: ProcessParts;
  readonly leadership: Leadership;
  readonly supervisor: Supervisor;
  readonly config: ConfigSource | undefined;
  readonly serving: OpenServing | undefined;
  readonly status: () => HostStatus;
  readonly stopping: AbortController;
  /** The first generation stands by; resolves with the text of its config. */
  readonly first: Promise<string | undefined>;
  readonly ending: AsyncDisposableStack;
}

class Host implements RunningHost {
  readonly finished: Promise<number>;
  readonly #host: HostParts;
  readonly #stopping: AbortController;
  readonly #triggers: Triggers;
  readonly #plugins: ConfigSource;
  #failure: string | undefined;

  constructor(host: HostParts) {
    this.#host = host;
    this.#stopping = host.stopping;
    const { options } = host.input;
    const { clock, log, health } = host.parts;
    this.#plugins = pluginSource(options.pluginDir);
    this.#triggers = new Triggers({
      clock,
      log,
      config: host.config,
      followConfig: options.enableDynamicReloading,
      plugins: this.#plugins,
      followPlugins: options.watchPlugins && options.pluginDir.length > 0,
      reload: (trigger, content) => host.supervisor.reload(trigger, content),
    });
    health.addProcess({ name: "shutdown", endpoints: ["readyz"], check: () => this.#readiness() });
    this.finished = this.#run();
  }

  get url(): string | undefined {
    return this.#host.serving?.url;
  }

  get status(): HostStatus {
    return this.#host.status();
  }

  get failure(): string | undefined {
    return this.#failure;
  }

  reload(trigger: string): void {
    this.#triggers.request(trigger);
  }

  stop(): void {
    this.#stopping.abort();
  }

  unhandled(error: unknown): void {
    reportUnhandled(error, this.#host.parts, this.#host.input.copies);
  }

  /** Not ready once a stop has been requested; alive until the end. */
  #readiness(): void {
    if (this.#stopping.signal.aborted) throw new CodedError("Stopping", "the process is shutting down");
  }

  async #run(): Promise<number> {
    const { ending, parts, input, supervisor, leadership, first } = this.#host;
    const { leaderElect, leaderElectRenewDeadline: limitMs } = input.options;
    const format = logFormat(input.options);
    const leads = (): boolean => leadership.status.leading;
    using watchdog = leaderElect
      ? startWatchdog({ limitMs, format, owner: parts.loopOwner, log: parts.log, leads })
      : undefined;
    try {
      return await runLifecycle({
        supervisor,
        leadership,
        onStartedLeading: () => watchdog?.beat(),
        first,
        clock: parts.clock,
        log: parts.log,
        drainTimeout: input.options.generationDrainTimeout,
        serveReloads: (configText, signal) => this.#serveReloads(configText, signal),
        stopping: this.#stopping,
      });
    } catch (error) {
      this.#failure = messageOf(error);
      parts.log.error("Exiting", { error });
      return 1;
    } finally {
      this.#stopping.abort();
      await ending.disposeAsync();
    }
  }

  /** Serves reloads, and requests one whenever the content of the config or of a watched plugin changes. */
  async #serveReloads(configText: string | undefined, signal: AbortSignal): Promise<void> {
    const { supervisor, input } = this.#host;
    // Plugins that changed between their import and now are reloaded by the first look at them.
    const pluginStamp = await this.#plugins.read().catch(() => undefined);
    const hash = await input.loader.hash().catch(() => undefined);
    const isCurrent = hash === input.plugins.hash;
    await Promise.all([
      supervisor.serveReloads(signal),
      this.#triggers.run({ configText, pluginStamp: isCurrent ? pluginStamp : undefined }, signal),
    ]);
  }
}

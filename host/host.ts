import { CodedError, messageOf } from "cloud-controller-host/sdk";

import { complete } from "./config/complete.ts";
import { flagLines } from "./config/configz.ts";
import { hashOf } from "./generation/cloud-config.ts";
import { type ConfigSource, fileSource } from "./generation/config-source.ts";
import { watchContent } from "./generation/content-trigger.ts";
import { pluginSource } from "./generation/plugin-source.ts";
import type { ReloadStatus } from "./generation/reload-report.ts";
import type { ProcessScope } from "./generation/scope.ts";
import { secretSource } from "./generation/secret-source.ts";
import { drainTimeout } from "./generation/stage.ts";
import { Supervisor } from "./generation/supervisor.ts";
import { traceQueue } from "./kube/connection/tracing.ts";
import { createWorkQueue } from "./kube/queue/work-queue.ts";
import { createLeadership, type Leadership, type LockStatus } from "./leadership.ts";
import { component, createParts, type HostInput, type ProcessParts } from "./process-parts.ts";
import { type OpenServing, openServing } from "./secure-serving.ts";

export interface HostStatus extends ReloadStatus {
  readonly identity: string;
  readonly leading: boolean;
  readonly leader: string;
  /** Each lock, the main one first, and the controllers that run here under it. */
  readonly locks: readonly (LockStatus & { readonly controllers: readonly string[] })[];
}

/** One host, from its start to its end. Several may live in one process, as in tests. */
export interface RunningHost {
  /** Where it serves; undefined with `--secure-port=0`. */
  readonly url: string | undefined;
  readonly status: HostStatus;
  reload(reason: string): void;
  /** Stops cleanly: drains, releases the lease, flushes. */
  stop(): void;
  /** The exit status: 0 after a clean stop, 1 when the lease was lost or no generation could be run. */
  readonly finished: Promise<number>;
}

/** Starts a host. Rejects, having undone everything, when its input is bad; the message names what is wrong. */
export async function startHost(input: HostInput): Promise<RunningHost> {
  await using starting = new AsyncDisposableStack();
  const parts = await createParts(input, starting);
  for (const notice of input.notices) parts.log.warn(notice);
  for (const line of flagLines(input.settings)) parts.log.debug(1, line);
  const leadership = createLeadership(input, parts);
  const source = sourceOf(input, parts, starting);
  const supervisor = new Supervisor(scopeOf(input, parts, leadership), source);
  const status = (): HostStatus => statusOf(supervisor, leadership);
  const serving = await openServing(input, parts, status);
  if (serving !== undefined) starting.defer(() => serving.close());
  return new Host({ input, parts, leadership, supervisor, source, serving, status, ending: starting.move() });
}

function statusOf(supervisor: Supervisor, leadership: Leadership): HostStatus {
  const { locks, ...leading } = leadership.status;
  const withControllers = locks.map((lock) => ({ ...lock, controllers: supervisor.runningUnder(lock.lease) }));
  return { ...supervisor.status, ...leading, locks: withControllers };
}

interface HostParts {
  readonly input: HostInput;
  readonly parts: ProcessParts;
  readonly leadership: Leadership;
  readonly supervisor: Supervisor;
  readonly source: ConfigSource | undefined;
  readonly serving: OpenServing | undefined;
  readonly status: () => HostStatus;
  readonly ending: AsyncDisposableStack;
}

class Host implements RunningHost {
  readonly finished: Promise<number>;
  readonly #host: HostParts;
  readonly #stopping = new AbortController();

  constructor(host: HostParts) {
    this.#host = host;
    host.parts.health.addProcess({ name: "shutdown", endpoints: ["readyz"], check: () => this.#readiness() });
    this.finished = this.#run();
  }

  get url(): string | undefined {
    return this.#host.serving?.url;
  }

  get status(): HostStatus {
    return this.#host.status();
  }

  reload(reason: string): void {
    this.#host.supervisor.reload(reason);
  }

  stop(): void {
    this.#stopping.abort();
  }

  /** Not ready from the moment that a stop is asked for; alive until the end. */
  #readiness(): void {
    if (this.#stopping.signal.aborted) throw new CodedError("Stopping", "the host is stopping");
  }

  /** The lease is the last thing that is given up before the connections close. */
  async #run(): Promise<number> {
    const { ending, parts } = this.#host;
    try {
      return await this.#lead();
    } catch (error) {
      parts.log.error(`The host ends: ${messageOf(error)}`, { error });
      return 1;
    } finally {
      this.#stopping.abort();
      await ending.disposeAsync();
    }
  }

  async #lead(): Promise<number> {
    const { supervisor, leadership, input, parts } = this.#host;
    const { signal } = this.#stopping;
    const failures: unknown[] = [];
    /** Whatever fails ends the rest cleanly; a stop that was asked for is no failure. */
    const guarded = async (work: Promise<void>): Promise<void> => {
      try {
        await work;
      } catch (error) {
        const overdue = error instanceof CodedError && error.code === drainTimeout;
        if (overdue || !signal.aborted) failures.push(error);
        this.#stopping.abort();
        // Told to the elector, which then keeps the lease from others until it has run out.
        if (overdue) throw error;
      }
    };
    const begun = supervisor.begin(input.plugins, signal);
    const following = guarded(begun.then((hash) => this.#followChanges(hash, signal)));
    const leading = leadership.run(signal, {
      lead: (lost) => guarded(begun.then(() => supervisor.lead(lost))),
      take: (lock) => guarded(supervisor.take(lock)),
    });
    const [led] = await Promise.allSettled([leading]);
    this.#stopping.abort();
    await following;
    await supervisor.end();
    if (led.status === "rejected") failures.push(led.reason);
    else parts.log.info("Leadership ended", { outcome: led.value });
    if (failures.length > 0) throw failures[0];
    return led.status === "fulfilled" && led.value === "lost" ? 1 : 0;
  }

  /** Serves reloads, and asks for one whenever the content of the config, or of a watched plugin, changes. */
  async #followChanges(hash: string, signal: AbortSignal): Promise<void> {
    const { supervisor, source, input, parts } = this.#host;
    const { clock, log } = parts;
    const follow = (followed: ConfigSource, known: string): Promise<void> => {
      const changed = (): void => supervisor.reload(`${followed.description} changed`);
      return watchContent({ source: followed, clock, log, known, changed }, signal);
    };
    const { enableDynamicReloading, watchPlugins, pluginDir } = input.options;
    const plugins = pluginSource(pluginDir);
    await Promise.all([
      supervisor.serveReloads(signal),
      ...(source !== undefined && enableDynamicReloading ? [follow(source, hash)] : []),
      ...(watchPlugins && pluginDir.length > 0 ? [follow(plugins, hashOf(await plugins.read()))] : []),
    ]);
  }
}

function sourceOf({ options }: HostInput, parts: ProcessParts, ending: AsyncDisposableStack): ConfigSource | undefined {
  if (options.cloudConfig !== "") return fileSource(options.cloudConfig);
  if (!options.enableDynamicReloading) return undefined;
  const informers = parts.informers.share();
  ending.defer(() => informers.release());
  return secretSource({
    client: parts.clients.client("cloud-config"),
    informers,
    namespace: options.cloudConfigSecretNamespace,
    name: options.cloudConfigSecretName,
    key: options.cloudConfigKey,
  });
}

function scopeOf(input: HostInput, parts: ProcessParts, leadership: Leadership): ProcessScope {
  const { options } = input;
  const { clock, log, telemetry, metrics, informers, health, generationClients, events } = parts;
  const recorder = events.recorder(component);
  return {
    settings: {
      pluginDirectories: input.pluginDirectories,
      cloudProvider: options.cloudProvider,
      clusterName: options.clusterName,
      controllers: options.controllers,
      controllerStartInterval: options.controllerStartInterval,
      drainTimeout: options.generationDrainTimeout,
      initTimeout: options.pluginInitTimeout,
      own: input.own,
    },
    config: complete(options),
    environment: input.environment,
    locks: leadership.locks,
    clock,
    log,
    metrics,
    informers,
    // A controller in trouble is no reason to kill the process, nor to take it from its Service: only /healthz tells.
    health: {
      replaceGeneration: (checks) =>
        health.replaceGeneration(checks.map((check) => ({ ...check, endpoints: ["healthz"] }))),
    },
    client: (name, fence) => informers.track(generationClients.client(name, fence)),
    recorder: (source) => events.recorder(source),
    tracer: telemetry,
    workqueue: (name, queueOptions) => traceQueue(createWorkQueue(name, { ...queueOptions, clock }), telemetry),
    announce: (type, reason, message) => recorder.event(leadership.lease, type, reason, message),
  };
}

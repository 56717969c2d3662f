import type { Clock, Environment } from "cloud-controller-host/sdk";

import { systemClock } from "./async/clock.ts";
import type { Tracer } from "./async/tracer.ts";
import { reportedVersion } from "./config/help.ts";
import type { LeaderMigration } from "./config/migration-config.ts";
import { logFormat, type Options } from "./config/options.ts";
import type { OwnOptions, Setting } from "./config/parse.ts";
import type { PluginSet } from "./generation/load.ts";
import { loadApiServer } from "./kube/connection/api-server.ts";
import { Clients } from "./kube/connection/clients.ts";
import { connectionMetrics } from "./kube/connection/connection-metrics.ts";
import { credentialMetrics } from "./kube/connection/credential-metrics.ts";
import type { ApiServer } from "./kube/connection/credentials.ts";
import { requestMetrics } from "./kube/connection/request-metrics.ts";
import { ServiceAccountClients } from "./kube/connection/service-account-clients.ts";
import { EventBroadcaster } from "./kube/events/recorder.ts";
import { InformerPool } from "./kube/informers/pool.ts";
import { createLogger, type HostLogger } from "./process/log/log.ts";
import { MetricsRegistry } from "./process/metrics/metrics.ts";
import { SliMetrics } from "./process/metrics/sli.ts";
import { HealthChecks } from "./process/serving/health.ts";
import { createTelemetry } from "./process/telemetry.ts";

/** What a host is started with: a command line that has been read and checked, and the plugins it names. */
export interface HostInput {
  /** Names in `controllers` are canonical. */
  readonly options: Options;
  readonly own: OwnOptions;
  readonly notices: readonly string[];
  readonly settings: readonly Setting[];
  readonly plugins: PluginSet;
  /** The migration configs in force, with `--enable-leader-migration`. */
  readonly migrations: readonly LeaderMigration[];
  readonly pluginDirectories: readonly string[];
  readonly environment: Environment;
  /** Where log lines go instead of the streams of the process. */
  readonly writeLog?: (line: string) => void;
}

/** The name of the program in user agents, events and the lease, as in the Go binary. */
export const component = "cloud-controller-manager";

/** What is made once a process and outlives every reload. */
export interface ProcessParts {
  readonly clock: Clock;
  readonly log: HostLogger;
  readonly telemetry: Tracer;
  readonly metrics: MetricsRegistry;
  readonly slis: SliMetrics;
  readonly health: HealthChecks;
  readonly clients: Clients;
  /** What generations talk to the API server with: the same, or each client as a service account of its own. */
  readonly generationClients: Pick<Clients, "client">;
  /** Connects to another API server, or as another user, for as long as the process lives. */
  readonly connect: (kubeconfig: string) => Clients;
  readonly events: EventBroadcaster;
  readonly informers: InformerPool;
}

/** For each try to get a service account's token. */
const tokenTimeMs = 10_000;
/** How long the process stays, with its lease released, for the events that still wait. */
const lastEventsMs = 3_000;

/** Makes them, and puts on the stack how they end: in reverse, events flushed before connections close. */
export async function createParts(input: HostInput, ending: AsyncDisposableStack): Promise<ProcessParts> {
  const { options, environment, writeLog } = input;
  const clock = systemClock;
  const log = createLogger({
    format: logFormat(options),
    verbosity: options.v,
    vmodule: options.vmodule,
    ...(writeLog && { write: writeLog }),
  });
  ending.defer(() => log.flush());
  const telemetry = ending.use(await createTelemetry(environment, reportedVersion(options), log));
  const metrics = new MetricsRegistry({ processMetrics: true });
  const slis = new SliMetrics();
  const clientsOptions = {
    qps: options.kubeApiQps,
    burst: options.kubeApiBurst,
    agent: `${component}/${reportedVersion(options)} (${process.platform}/${process.arch})`,
    observer: requestMetrics(metrics.root),
    connections: connectionMetrics(metrics.root),
    tracer: telemetry,
    clock,
  };
  const open = (api: ApiServer): Clients => {
    const opened = new Clients(api, clientsOptions);
    ending.defer(() => opened.close());
    return opened;
  };
  const observer = credentialMetrics(metrics.root);
  const root = loadApiServer({ kubeconfig: options.kubeconfig, master: options.master, observer });
  const clients = open(root);
  const openAccounts = (): ServiceAccountClients => {
    const transport = clients.transport("service-account-tokens", { timeoutMs: tokenTimeMs });
    const accounts = new ServiceAccountClients({ root, transport, clients: clientsOptions, clock, log });
    ending.defer(() => accounts.close());
    return accounts;
  };
  const generationClients = options.useServiceAccountCredentials ? openAccounts() : clients;
  const connect = (kubeconfig: string): Clients => open(loadApiServer({ kubeconfig, observer }));
  const events = new EventBroadcaster({ client: clients.client(component), clock, log, metrics: metrics.root });
  ending.defer(async () => {
    await events.flush(lastEventsMs);
    await events.close();
  });
  const informers = new InformerPool({
    transport: clients.transport("shared-informers"),
    clock,
    log,
    metrics: metrics.root,
    nodeSelector: options.nodeFilterRequirements,
    resyncMs: options.minResyncPeriod * (1 + Math.random()),
  });
  ending.defer(() => informers.close());
  const health = new HealthChecks({ clock, log, slis });
  return { clock, log, telemetry, metrics, slis, health, clients, generationClients, connect, events, informers };
}

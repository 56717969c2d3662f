import type { Clock, Environment } from "cloud-controller-host/sdk";

import { systemClock } from "../async/clock.ts";
import { createLoopOwner, type LoopOwner } from "../async/loop-owner.ts";
import type { OutstandingWork } from "../async/outstanding-work.ts";
import type { Tracer } from "../async/tracer.ts";
import { contentTypes } from "../config/flags/flags-generic.ts";
import { logFormat, type Options } from "../config/flags/options.ts";
import { reportedVersion } from "../config/help/help.ts";
import type { LeaderMigration } from "../config/parse/migration-config.ts";
import type { OwnOptions, Setting } from "../config/parse/parse.ts";
import type { LoadedPlugins, PluginLoader } from "../generation/plugins/load.ts";
import type { PrivateCopies } from "../generation/plugins/private-copies.ts";
import type { Reading } from "../generation/triggers/content-trigger.ts";
import { loadApiServer } from "../kube/connection/api-server.ts";
import { Clients } from "../kube/connection/clients.ts";
import { connectionMetrics } from "../kube/connection/connection-metrics.ts";
import { credentialMetrics } from "../kube/connection/credential-metrics.ts";
import type { ApiServer } from "../kube/connection/credentials.ts";
import { requestMetrics } from "../kube/connection/request-metrics.ts";
import { ServiceAccountClients } from "../kube/connection/service-account-clients.ts";
import { EventBroadcaster } from "../kube/events/recorder.ts";
import { InformerPool } from "../kube/informers/pool.ts";
import { BusyItems } from "../kube/queue/busy-items.ts";
import { createLogger, type HostLogger } from "../process/log/log.ts";
import { MetricsRegistry } from "../process/metrics/metrics.ts";
import { SliMetrics } from "../process/metrics/sli.ts";
import { HealthChecks } from "../process/serving/health.ts";
import { createTelemetry } from "../process/telemetry.ts";
import { type AuditLog, type AuditLogOptions, openAuditLog } from "../process/writes/audit-log.ts";
import { WriteLog } from "../process/writes/write-log.ts";
import { type StopPhase, stopPhase } from "./stop-phases.ts";

/** Input of a host: a command line that has been read and checked, and the plugins it names. */
export interface HostInput {
  /** The flags as they were given. */
  readonly argv: readonly string[];
  /** Names in `controllers` are canonical. */
  readonly options: Options;
  readonly own: OwnOptions;
  readonly notices: readonly string[];
  readonly settings: readonly Setting[];
  readonly plugins: LoadedPlugins;
  readonly loader: PluginLoader;
  readonly copies: PrivateCopies;
  /** All plugin work of the process, imports before the start included. */
  readonly outstanding: OutstandingWork;
  /** The migration configs in force, with `--enable-leader-migration`. */
  readonly migrations: readonly LeaderMigration[];
  readonly environment: Environment;
  /** First read of `--cloud-config`, made while the plugins were being imported. */
  readonly firstReading?: Promise<Reading>;
  /** Writes log lines; default: the streams of the process. */
  readonly writeLog?: (line: string) => void;
  /** Follows the message of a denial by the API server; default: the command that prints the roles of the host. */
  readonly permissionHint?: string;
}

/** The name of the program in user agents, events and the lease, as in the Go binary. */
export const component = "cloud-controller-manager";

/** The parts that are created once per process and outlive every reload. */
export interface ProcessParts {
  readonly clock: Clock;
  readonly log: HostLogger;
  readonly telemetry: Tracer;
  readonly metrics: MetricsRegistry;
  readonly slis: SliMetrics;
  readonly health: HealthChecks;
  readonly clients: Clients;
  /** Clients of generations: the same, or each as a service account of its own. */
  readonly generationClients: Pick<Clients, "client">;
  /** Connects to another API server, or as another user, for as long as the process lives. */
  readonly connect: (kubeconfig: string, flag: string) => Clients;
  readonly events: EventBroadcaster;
  readonly writes: WriteLog;
  readonly informers: InformerPool;
  readonly busy: BusyItems;
  /** The controller that occupies the event loop, for the watchdog. */
  readonly loopOwner: LoopOwner;
}

/** Per attempt to get a service account's token. */
const tokenTimeMs = 10_000;
/** Time limit for sending the last events at a stop. The lease has been released by then. */
const lastEventsMs = 3_000;
const lastRecordsMs = 3_000;

const openAudit = (
  { auditLogPath: path, auditLogMaxage, auditLogMaxbackup, auditLogMaxsize }: Options,
  parts: Pick<AuditLogOptions, "clock" | "log" | "metrics">,
): AuditLog | undefined =>
  path === ""
    ? undefined
    : openAuditLog({
        ...parts,
        path,
        rotation: { maxAgeDays: auditLogMaxage, maxBackups: auditLogMaxbackup, maxMegabytes: auditLogMaxsize },
      });

/** Creates them, and defers the phases in which they end: `stop-phases.ts` lists these in order. */
export async function createParts(input: HostInput, ending: AsyncDisposableStack): Promise<ProcessParts> {
  const { options, environment, writeLog } = input;
  const clock = systemClock;
  const log = createLogger({
    format: logFormat(options),
    verbosity: options.v,
    vmodule: options.vmodule,
    locate: (error) => ({ ...input.copies.locate(error) }),
    ...(writeLog && { write: writeLog }),
  });
  ending.defer(() => log.flush());
  const defer = (phase: StopPhase, work: () => unknown): void =>
    ending.defer(() => stopPhase({ clock, log }, phase, work));
  defer("Removing private copies of plugins", () => input.copies[Symbol.asyncDispose]());
  const telemetry = await createTelemetry(environment, reportedVersion(options), log);
  defer("Flushing telemetry", () => telemetry[Symbol.asyncDispose]());
  const metrics = new MetricsRegistry({ processMetrics: true });
  const slis = new SliMetrics();
  const clientsOptions = {
    qps: options.kubeApiQps,
    burst: options.kubeApiBurst,
    protobuf: options.kubeApiContentType === contentTypes.protobuf,
    agent: `${component}/${reportedVersion(options)} (${process.platform}/${process.arch})`,
    observer: requestMetrics(metrics.root),
    connections: connectionMetrics(metrics.root),
    tracer: telemetry,
    clock,
    permissionHint: input.permissionHint,
  };
  const connections = new DisposableStack();
  defer("Closing API server connections", () => connections.dispose());
  const open = (api: ApiServer): Clients => connections.adopt(new Clients(api, clientsOptions), (it) => it.close());
  const observer = credentialMetrics(metrics.root);
  const root = loadApiServer({ kubeconfig: options.kubeconfig, master: options.master, observer });
  const clients = open(root);
  const openAccounts = (): ServiceAccountClients => {
    const transport = clients.transport("service-account-tokens", { timeoutMs: tokenTimeMs });
    const accounts = new ServiceAccountClients({ root, transport, clients: clientsOptions, clock, log });
    return connections.adopt(accounts, (it) => it.close());
  };
  const generationClients = options.useServiceAccountCredentials ? openAccounts() : clients;
  const connect = (kubeconfig: string, flag: string): Clients => open(loadApiServer({ kubeconfig, flag, observer }));
  const events = new EventBroadcaster({ client: clients.client(component), clock, log, metrics: metrics.root });
  defer("Flushing events", () => events.flush(lastEventsMs).then(() => events.close()));
  const audit = openAudit(options, { clock, log, metrics: metrics.root });
  if (audit !== undefined) defer("Flushing audit log", () => audit.flush(lastRecordsMs));
  const writes = new WriteLog({
    clock,
    find: (kind, name) => informers.find(kind, name),
    ...(audit && { audit: (line) => audit.write(line) }),
  });
  const informers: InformerPool = new InformerPool({
    transport: clients.transport("shared-informers"),
    clock,
    log,
    metrics: metrics.root,
    nodeSelector: options.nodeFilterRequirements,
    resyncMs: options.minResyncPeriod * (1 + Math.random()),
    observers: writes,
  });
  defer("Stopping informers", () => informers.close());
  return {
    clock,
    log,
    telemetry,
    metrics,
    slis,
    health: new HealthChecks({ clock, log, slis }),
    clients,
    generationClients,
    connect,
    events,
    writes,
    informers,
    busy: new BusyItems(clock),
    loopOwner: createLoopOwner(),
  };
}

import type { KubeClient } from "cloud-controller-host/sdk";

import type { Options } from "../config/flags/options.ts";
import { configz, flagz } from "../config/help/configz.ts";
import { reportedVersion } from "../config/help/help.ts";
import { programName } from "../config/parse/parse.ts";
import { complete } from "../config/validate/complete.ts";
import { keyTypeFor, tlsSettings } from "../config/values/tls-names.ts";
import { type Console, createConsole } from "../console/console.ts";
import { Plans } from "../console/plans.ts";
import type { Supervisor } from "../generation/supervisor.ts";
import { createClient } from "../kube/connection/client.ts";
import { openAccess } from "../process/access/access.ts";
import { heapLimits } from "../process/profiling/heap.ts";
import { createProfiling } from "../process/profiling/profiling.ts";
import { followCertificate, openCertificate } from "../process/serving/certificates.ts";
import { createEndpoints, type Endpoints } from "../process/serving/endpoints.ts";
import { openNamedCertificates } from "../process/serving/named-certificates.ts";
import { serve } from "../process/serving/tls-server.ts";
import { planProcess } from "./plan-process.ts";
import type { HostInput, ProcessParts } from "./process-parts.ts";
import type { HostStatus } from "./status.ts";

export interface OpenServing {
  readonly url: string;
  close(): Promise<void>;
}

/** Starts to serve health, metrics and status over TLS; undefined with `--secure-port=0`. */
export async function openServing(
  input: HostInput,
  parts: ProcessParts,
  status: () => HostStatus,
  supervisor: Pick<Supervisor, "ownStatus" | "ownWarnings" | "explain">,
): Promise<OpenServing | undefined> {
  const { options } = input;
  if (options.securePort === 0) return undefined;
  const { log, clock } = parts;
  const access = await openAccess({
    flags: options,
    ...accessClients(options, parts),
    featureEnabled: complete(options).featureEnabled,
    clock,
    log,
    metrics: parts.metrics.root,
  });
  const names = await openNamedCertificates(options.tlsSniCertKey, { clock, log });
  const certificate = await openCertificate({
    certFile: options.tlsCertFile,
    keyFile: options.tlsPrivateKeyFile,
    certDir: options.certDir,
    bindAddress: options.bindAddress,
    keyType: keyTypeFor(options),
    clock,
  });
  const plans = new Plans(clock, planProcess(input));
  const endpoints = endpointsOf(input, parts, status, supervisor, plans);
  const server = await serve({
    address: options.bindAddress,
    port: options.securePort,
    certificate: certificate.pair,
    handler: access.guard((request) => endpoints.handle(request)),
    log,
    tls: { ...tlsSettings(options), byServerName: (name) => names.byServerName(name) },
    limits: options.http2MaxStreamsPerConnection > 0 ? { maxStreams: options.http2MaxStreamsPerConnection } : {},
    http2: !options.disableHttp2Serving,
    sharePort: options.permitPortSharing,
  });
  const stop = new AbortController();
  const { files, pair: current } = certificate;
  const changed = (pair: typeof current): void => server.setCertificate(pair);
  const following = Promise.all([
    access.run(stop.signal),
    names.run(stop.signal),
    files && followCertificate({ files, current, clock, log, changed, signal: stop.signal }),
  ]);
  return {
    url: `https://${urlHost(server.address)}:${server.port}`,
    async close() {
      stop.abort();
      await Promise.all([following, plans[Symbol.asyncDispose]()]);
      await server.close();
    },
  };
}

/**
 * Clients for reviews, each with connections and a rate limit of its own: requests that strangers cause must not use up
 * the controllers' budget. upstream: `DelegatingAuthenticationOptions.getClient`, QPS 200 and burst 400.
 */
function accessClients(
  options: Options,
  { clients, connect }: ProcessParts,
): { readonly authenticationClient: KubeClient; readonly authorizationClient: KubeClient } {
  const client = (kubeconfig: string, flag: string, name: string): KubeClient => {
    const connection = kubeconfig === "" ? clients : connect(kubeconfig, flag);
    return createClient(connection.transport(name, { qps: 200, burst: 400 }));
  };
  return {
    authenticationClient: client(options.authenticationKubeconfig, "--authentication-kubeconfig", "token-reviews"),
    authorizationClient: client(
      options.authorizationKubeconfig,
      "--authorization-kubeconfig",
      "subject-access-reviews",
    ),
  };
}

function endpointsOf(
  { options, settings, migrations }: HostInput,
  parts: ProcessParts,
  status: () => HostStatus,
  supervisor: Pick<Supervisor, "ownStatus" | "ownWarnings" | "explain">,
  plans: Plans,
): Endpoints {
  const { health, metrics, slis, log, clock } = parts;
  const { featureEnabled } = complete(options);
  const maxObjects = (): number => (status().leading ? heapLimits.leading : heapLimits.standby);
  return createEndpoints({
    health,
    metrics,
    slis,
    configz: () => configz(options, { generation: status().generation, leaderMigrations: migrations }),
    flagz: featureEnabled("ComponentFlagz") ? () => flagz(settings, options) : undefined,
    statusz: featureEnabled("ComponentStatusz") ? status : undefined,
    zPages: {
      component: programName,
      version: reportedVersion(options),
      startedAt: () => new Date(status().startedAt),
      now: () => clock.now(),
      flags: () => Object.fromEntries(settings.map(({ name, text }) => [name, text])),
    },
    writes: featureEnabled("ComponentStatusz") ? () => ({ writes: parts.writes.records }) : undefined,
    console: featureEnabled("ComponentStatusz") ? consoleOf(options, parts, status, supervisor, plans) : undefined,
    debug: options.profiling
      ? {
          profiling: createProfiling({ clock, maxObjects }),
          setVerbosity: (level) => log.setVerbosity(level),
        }
      : undefined,
  });
}

const consoleOf = (
  options: Options,
  { clock, log, writes, events, metrics, informers, busy }: ProcessParts,
  status: () => HostStatus,
  supervisor: Pick<Supervisor, "ownStatus" | "ownWarnings" | "explain">,
  plans: Plans,
): Console =>
  createConsole(
    {
      clock,
      log,
      cloudName: options.cloudProvider,
      status,
      ownStatus: () => supervisor.ownStatus,
      ownWarnings: () => supervisor.ownWarnings,
      explain: () => supervisor.explain,
      writes,
      events,
      metrics,
      informers,
      busy,
      plans,
    },
    reportedVersion(options),
  );

/** An address for clients on this machine, IPv6 in brackets. */
export function urlHost(address: string): string {
  if (address === "0.0.0.0" || address === "::") return "127.0.0.1";
  return address.includes(":") ? `[${address}]` : address;
}

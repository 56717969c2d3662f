import type { Options } from "../flags/options.ts";
import type { LeaderMigration } from "../parse/migration-config.ts";
import { programName, type Setting } from "../parse/parse.ts";
import { statusWorkers } from "../validate/complete.ts";
import { formatDuration } from "../values/durations.ts";
import { quoted } from "../values/parsed.ts";
import { tlsInEffect } from "../values/tls-names.ts";

/** The running state, in addition to the options of the command line. */
interface ActiveConfig {
  /** The running generation; undefined before the lease is acquired. */
  readonly generation?: number | undefined;
  /** The migration configs in force, with `--enable-leader-migration`. */
  readonly leaderMigrations?: readonly LeaderMigration[];
}

const configzName = "cloudcontrollermanager.config.k8s.io";

/**
 * The document at `/configz`: upstream's external `v1alpha1` form under its registered name, and the running
 * state under ours. It shows paths and names, never the content of a file.
 */
export function configz(options: Options, active: ActiveConfig = {}): Readonly<Record<string, object>> {
  return {
    [configzName]: {
      kind: "CloudControllerManagerConfiguration",
      apiVersion: `${configzName}/v1alpha1`,
      Generic: generic(options, active),
      KubeCloudShared: kubeCloudShared(options),
      NodeController: {
        ConcurrentNodeSyncs: options.concurrentNodeSyncs,
        ConcurrentNodeStatusUpdates: statusWorkers(options),
      },
      ServiceController: { ConcurrentServiceSyncs: options.concurrentServiceSyncs },
      NodeStatusUpdateFrequency: formatDuration(options.nodeStatusUpdateFrequency),
      Webhook: { Webhooks: options.webhooks.length === 0 ? null : options.webhooks },
    },
    [programName]: { generation: active.generation ?? null, leaderMigrations: active.leaderMigrations ?? [] },
  };
}

/** Upstream's form has room for one migration; further ones are listed under our name. */
const generic = (options: Options, { leaderMigrations: [leaderMigration] = [] }: ActiveConfig): object => ({
  Port: 0,
  Address: "0.0.0.0",
  MinResyncPeriod: formatDuration(options.minResyncPeriod),
  ClientConnection: {
    kubeconfig: options.kubeconfig,
    acceptContentTypes: "",
    contentType: options.kubeApiContentType,
    qps: options.kubeApiQps,
    burst: options.kubeApiBurst,
  },
  ControllerStartInterval: formatDuration(options.controllerStartInterval),
  LeaderElection: {
    leaderElect: options.leaderElect,
    leaseDuration: formatDuration(options.leaderElectLeaseDuration),
    renewDeadline: formatDuration(options.leaderElectRenewDeadline),
    retryPeriod: formatDuration(options.leaderElectRetryPeriod),
    resourceLock: options.leaderElectResourceLock,
    resourceName: options.leaderElectResourceName,
    resourceNamespace: options.leaderElectResourceNamespace,
  },
  Controllers: options.controllers,
  Debugging: { enableProfiling: options.profiling, enableContentionProfiling: options.contentionProfiling },
  LeaderMigrationEnabled: options.enableLeaderMigration,
  LeaderMigration: {
    leaderName: leaderMigration?.leaderName ?? "",
    resourceLock: leaderMigration === undefined ? "" : "leases",
    controllerLeaders: leaderMigration?.controllerLeaders ?? null,
  },
});

const kubeCloudShared = (options: Options): object => ({
  CloudProvider: { Name: options.cloudProvider, CloudConfigFile: options.cloudConfig },
  ExternalCloudVolumePlugin: options.externalCloudVolumePlugin,
  UseServiceAccountCredentials: options.useServiceAccountCredentials,
  AllowUntaggedCloud: options.allowUntaggedCloud,
  RouteReconciliationPeriod: formatDuration(options.routeReconciliationPeriod),
  NodeMonitorPeriod: formatDuration(options.nodeMonitorPeriod),
  ClusterName: options.clusterName,
  ClusterCIDR: options.clusterCidr,
  AllocateNodeCIDRs: options.allocateNodeCidrs,
  CIDRAllocatorType: options.cidrAllocatorType,
  ConfigureCloudRoutes: options.configureCloudRoutes,
  NodeSyncPeriod: formatDuration(options.nodeSyncPeriod),
});

/** The page at `/flagz`: all flags with their values, one per line, then the TLS settings in effect. */
export function flagz(settings: readonly Setting[], options: Options): string {
  const flags = settings.map(({ name, text }) => `${name}=${text}\n`).join("");
  const tls = tlsInEffect(options).map(([name, value]) => `${name}=${value}\n`);
  return `${programName} flagz\nFor people; its form may change.\n\n${flags}\nTLS in effect:\n${tls.join("")}`;
}

/** The lines logged at startup at verbosity 1 and above. */
export const flagLines = (settings: readonly Setting[]): readonly string[] =>
  settings.map(({ name, text }) => `FLAG: --${name}=${quoted(text)}`);

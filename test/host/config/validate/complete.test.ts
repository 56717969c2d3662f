import { describe, expect, test } from "bun:test";

import { featureGates } from "../../../../host/config/flags/feature-gates.ts";
import { logFormat } from "../../../../host/config/flags/options.ts";
import { configz } from "../../../../host/config/help/configz.ts";
import { complete } from "../../../../host/config/validate/complete.ts";
import { run } from "../command-line.ts";

const completed = (...argv: readonly string[]) => complete(run(argv).options);

describe("the completed config of controllers", () => {
  test("has as many status workers as node workers, unless set", () => {
    const workers = (...argv: readonly string[]) => completed(...argv).componentConfig.nodeController;
    expect(workers()).toEqual({ concurrentNodeSyncs: 1, concurrentNodeStatusUpdates: 1 });
    expect(workers("--concurrent-node-syncs=5").concurrentNodeStatusUpdates).toBe(5);
    expect(workers("--concurrent-node-status-updates=2")).toEqual({
      concurrentNodeSyncs: 1,
      concurrentNodeStatusUpdates: 2,
    });
  });

  test.each([
    [[], 24, 64],
    [["--node-cidr-mask-size=17", "--node-cidr-mask-size-ipv6=65"], 24, 65],
    [["--node-cidr-mask-size-ipv4=18", "--node-cidr-mask-size-ipv6=65"], 18, 65],
  ])("ignores the common mask size: %p", (argv, ipv4, ipv6) => {
    expect(completed(...argv).componentConfig.nodeIPAMController).toMatchObject({
      nodeCIDRMaskSizeIPv4: ipv4,
      nodeCIDRMaskSizeIPv6: ipv6,
    });
  });

  test("contains the values of the flags", () => {
    expect(
      completed(
        "--cluster-name=k8s",
        "--cluster-cidr=1.2.3.0/24",
        "--route-reconciliation-period=30s",
        "--node-status-update-frequency=10m",
        "--controllers=a,-b",
        "--concurrent-service-syncs=4",
        "--load-balancer-class=example.com/vip",
        "--service-selector=shard=a",
        "--service-cluster-ip-range=10.0.0.0/16",
      ).componentConfig,
    ).toEqual({
      generic: { minResyncPeriodMs: 43_200_000, controllerStartIntervalMs: 0, controllers: ["a", "-b"] },
      kubeCloudShared: {
        cloudProvider: "azure",
        useServiceAccountCredentials: false,
        allowUntaggedCloud: false,
        routeReconciliationPeriodMs: 30_000,
        nodeMonitorPeriodMs: 5000,
        clusterName: "k8s",
        clusterCIDR: "1.2.3.0/24",
        allocateNodeCIDRs: false,
        cidrAllocatorType: "RangeAllocator",
        configureCloudRoutes: true,
      },
      nodeController: { concurrentNodeSyncs: 1, concurrentNodeStatusUpdates: 1 },
      serviceController: {
        concurrentServiceSyncs: 4,
        loadBalancerClass: "example.com/vip",
        serviceSelector: "shard=a",
      },
      nodeIPAMController: {
        serviceClusterIPRange: "10.0.0.0/16",
        nodeCIDRMaskSizeIPv4: 24,
        nodeCIDRMaskSizeIPv6: 64,
      },
      nodeStatusUpdateFrequencyMs: 600_000,
    });
  });
});

describe("feature gates", () => {
  const alpha = "CloudControllerManagerWebhook";
  const enabled = (gate: string, setting?: string): boolean =>
    completed(...(setting === undefined ? [] : [`--feature-gates=${setting}`])).featureEnabled(gate);

  test("have their defaults until they are set", () => {
    for (const [name, { default: byDefault }] of Object.entries(featureGates)) expect(enabled(name)).toBe(byDefault);
    expect(enabled(alpha, `${alpha}=true`)).toBe(true);
    expect(enabled("RemoteRequestHeaderUID", "RemoteRequestHeaderUID=false")).toBe(false);
  });
  test("follow AllAlpha and AllBeta by their stage, unless they are set by name", () => {
    expect(enabled(alpha, "AllAlpha=true")).toBe(true);
    expect(enabled(alpha, `AllAlpha=true,${alpha}=false`)).toBe(false);
    expect(enabled(alpha, "AllBeta=true")).toBe(false);
    expect(enabled("RemoteRequestHeaderUID", "AllBeta=false")).toBe(false);
    expect(enabled("BtreeWatchCache", "AllBeta=false,AllAlpha=false")).toBe(true);
  });
  test("feature gates that do not exist throw", () => {
    for (const name of ["Nothing", "toString"])
      expect(() => completed().featureEnabled(name)).toThrow(`unknown feature gate "${name}"`);
  });
});

test("logs JSON when either of the two flags selects it", () => {
  const form = (...argv: readonly string[]) => logFormat(run(argv).options);
  expect([form(), form("--log-format=json"), form("--logging-format=json")]).toEqual(["text", "json", "json"]);
});

/** upstream: the value that its own `/configz` serves with every flag at its default. */
const upstreamDefaults = {
  kind: "CloudControllerManagerConfiguration",
  apiVersion: "cloudcontrollermanager.config.k8s.io/v1alpha1",
  Generic: {
    Port: 0,
    Address: "0.0.0.0",
    MinResyncPeriod: "12h0m0s",
    ClientConnection: {
      kubeconfig: "",
      acceptContentTypes: "",
      contentType: "application/vnd.kubernetes.protobuf",
      qps: 150,
      burst: 300,
    },
    ControllerStartInterval: "0s",
    LeaderElection: {
      leaderElect: true,
      leaseDuration: "15s",
      renewDeadline: "10s",
      retryPeriod: "2s",
      resourceLock: "leases",
      resourceName: "cloud-controller-manager",
      resourceNamespace: "kube-system",
    },
    Controllers: ["*"],
    Debugging: { enableProfiling: true, enableContentionProfiling: false },
    LeaderMigrationEnabled: false,
    LeaderMigration: { leaderName: "", resourceLock: "", controllerLeaders: null },
  },
  KubeCloudShared: {
    CloudProvider: { Name: "azure", CloudConfigFile: "" },
    ExternalCloudVolumePlugin: "",
    UseServiceAccountCredentials: false,
    AllowUntaggedCloud: false,
    RouteReconciliationPeriod: "10s",
    NodeMonitorPeriod: "5s",
    ClusterName: "kubernetes",
    ClusterCIDR: "",
    AllocateNodeCIDRs: false,
    CIDRAllocatorType: "RangeAllocator",
    ConfigureCloudRoutes: true,
    NodeSyncPeriod: "0s",
  },
  NodeController: { ConcurrentNodeSyncs: 1, ConcurrentNodeStatusUpdates: 1 },
  ServiceController: { ConcurrentServiceSyncs: 64 },
  NodeStatusUpdateFrequency: "5m0s",
  Webhook: { Webhooks: null },
};

describe("/configz", () => {
  test("shows upstream's external form and the running state", () => {
    const document: unknown = JSON.parse(JSON.stringify(configz(run([]).options)));
    expect(document).toEqual({
      "cloudcontrollermanager.config.k8s.io": upstreamDefaults,
      "cloud-controller-host": { generation: null, leaderMigrations: [] },
    });
  });
  test("shows the active generation and all migrations, the first in upstream's form", () => {
    const leaders = [{ name: "service-lb-controller", component: "*" }];
    const leaderMigrations = [
      { leaderName: "migration", controllerLeaders: leaders },
      { leaderName: "another", controllerLeaders: [] },
    ];
    const document = configz(run(["--enable-leader-migration"]).options, {
      generation: 3,
      leaderMigrations,
    });
    expect(document).toMatchObject({
      "cloudcontrollermanager.config.k8s.io": {
        Generic: {
          LeaderMigrationEnabled: true,
          LeaderMigration: { leaderName: "migration", resourceLock: "leases", controllerLeaders: leaders },
        },
      },
      "cloud-controller-host": { generation: 3, leaderMigrations },
    });
  });
});

import { afterEach, beforeAll, beforeEach, expect, setDefaultTimeout, test } from "bun:test";
import { join } from "node:path";

import { kinds, type Lease, type Node } from "cloud-controller-host/sdk";
import { eventually } from "cloud-controller-host/sdk/testing";
import { parse } from "yaml";

import { defaultOptions } from "../../host/config/flags/options.ts";
import { defaultMigration } from "../../host/process/leader-election/migration.ts";
import { hostPermissions } from "../../host/run/permissions.ts";
import { writeVerbs } from "../envtest/audit.ts";
import type { KubeControllerManager } from "../envtest/kube-controller-manager.ts";
import { describeOnRealApiServer } from "../envtest/shared.ts";
import { declaredIn, grantedBy } from "./grants.ts";
import { describeWithHelm, type Helm, manifestsOf, theOne } from "./helm.ts";
import { migratingManager, startMigratingManager } from "./kube-controller-manager.ts";
import type { RunningPod } from "./kubelet.ts";
import { buildTimeoutMs, noGo } from "./needs.ts";
import { describeDeployment, type Stage } from "./stage.ts";

setDefaultTimeout(120_000);

const folder = join(import.meta.dir, "..", "..", "deploy", "migration");
const file = (name: string): string => join(folder, name);
const secondLease = "cloud-provider-extraction-migration";
const patienceMs = 60_000;

const timings = ["lease-duration=4s", "renew-deadline=3s", "retry-period=1s"].map(
  (timing) => `--leader-elect-${timing}`,
);
const network = { allocateNodeCIDRs: true, clusterCIDR: "10.244.0.0/16", podNetworkWaitsForNodes: false };

/** The values of the chart that stand for one of the files. */
const valuesFor = (component: string) => ({
  network,
  leaderMigration: { enabled: true, controllerLeaders: [{ name: "node-ipam-controller", component }] },
});

const startManager = ({ cluster }: Stage, config: string): Promise<KubeControllerManager> =>
  startMigratingManager(
    cluster,
    ["node-ipam-controller"],
    [
      ...timings,
      `--leader-migration-config=${file(config)}`,
      "--allocate-node-cidrs=true",
      `--cluster-cidr=${network.clusterCIDR}`,
    ],
  );

async function holderOf({ cluster }: Stage, name: string): Promise<string> {
  const leases: readonly Lease[] = await cluster.admin.list(kinds.Lease, { namespace: "kube-system" });
  return leases.find(({ metadata }) => metadata?.name === name)?.spec?.holderIdentity ?? "";
}

/** Each start of a controller, in order, by the controller's name. */
const startsIn = ({ container }: RunningPod): readonly string[] =>
  [...container.output.matchAll(/ ([a-z-]+)\] "Starting controller"/g)].map(([, name = ""]) => name);

/** The program that has set the node's CIDRs, according to its managed fields. */
async function allocatorOf({ cluster }: Stage, name: string): Promise<string | undefined> {
  const node: Node = await cluster.admin.get(kinds.Node, { name });
  return node.metadata?.managedFields?.find(({ fieldsV1 }) => JSON.stringify(fieldsV1 ?? {}).includes('"f:podCIDRs"'))
    ?.manager;
}

/** Joins a node, which must get its CIDRs from that program. */
async function allocated(stage: Stage, by: string): Promise<void> {
  const [name = ""] = await stage.join(1);
  await hasCIDRs(stage, name, by);
}

async function hasCIDRs(stage: Stage, name: string, by: string): Promise<void> {
  await eventually(`${name} has CIDRs`, () => allocatorOf(stage, name), patienceMs);
  expect(await allocatorOf(stage, name)).toBe(by);
}

describeDeployment("migration from kube-controller-manager", fromManager, noGo);

function fromManager(stage: () => Stage): void {
  beforeAll(async () => void (await migratingManager()), buildTimeoutMs);
  beforeEach(async () => {
    await stage().apply(await Bun.file(file("roles.yaml")).text());
    await stage().configure();
  });

  const holds = async (who: KubeControllerManager): Promise<string> =>
    eventually(
      "kube-controller-manager holds the second lease",
      async () => {
        if (who.exitCode() !== undefined) throw new Error(await who.lastWords());
        const [own, second] = [
          await holderOf(stage(), "kube-controller-manager"),
          await holderOf(stage(), secondLease),
        ];
        return own !== "" && own === second ? second : undefined;
      },
      patienceMs,
    );

  for (const [way, config, component] of [
    ["the wildcard", "wildcard.yaml", "*"],
    ["explicit configs", "explicit-kube-controller-manager.yaml", "cloud-controller-manager"],
  ] as const)
    test(`ours waits while kube-controller-manager holds the second lease, takes over only that controller, and releases it on rollback: with ${way}`, async () => {
      const other = await startManager(stage(), config);
      try {
        await holds(other);
        await allocated(stage(), "kube-controller-manager");
        const manifests = await stage().install({ ...valuesFor(component), leaderElection });
        const ours = await stage().start(manifests);
        const before = await stage().until(ours, "ours runs what does not migrate", ({ running }) => running);
        await ours.container.eventually("cloud-node runs", () => startsIn(ours).includes("cloud-node-controller"));
        expect(before.locks.map(({ lease, leading }) => [lease, leading])).toEqual([
          ["cloud-controller-manager", true],
          [secondLease, false],
        ]);
        await allocated(stage(), "kube-controller-manager");
        expect(startsIn(ours)).not.toContain("node-ipam");

        await other[Symbol.asyncDispose]();
        const after = await stage().until(ours, "ours holds both locks", ({ locks }) =>
          locks.every(({ leading }) => leading),
        );
        await ours.container.eventually("ours runs node-ipam", () => startsIn(ours).includes("node-ipam"));
        expect(startsIn(ours).toSorted()).toEqual([...new Set(startsIn(ours))].toSorted());
        expect(after.generation).toBe(before.generation);
        await allocated(stage(), "cloud-controller-manager");

        await using again = await startManager(stage(), config);
        await eventually(
          "the other waits",
          async () => (await holderOf(stage(), "kube-controller-manager")) !== "",
          patienceMs,
        );
        await ours.container.stop(ours.graceSeconds);
        await holds(again);
        await allocated(stage(), "kube-controller-manager");
      } finally {
        await other[Symbol.asyncDispose]();
      }
    }, 240_000);
}

const leaderElection = { leaseDurationSeconds: 4, renewDeadlineSeconds: 3, retryPeriodSeconds: 1 };

describeDeployment("migration from kube-controller-manager without a second Lease", (stage) => {
  let manager: KubeControllerManager | undefined;
  const stop = async (): Promise<void> => manager?.[Symbol.asyncDispose]();
  afterEach(stop);
  const holder = (): Promise<string> => holderOf(stage(), "kube-controller-manager");
  /** Starts it with other flags, and waits until it leads. */
  const restart = async (allocates: boolean): Promise<void> => {
    await stop();
    const before = await holder();
    const cidrs = [`--allocate-node-cidrs=${allocates}`, `--cluster-cidr=${network.clusterCIDR}`];
    const flags = ["--leader-elect=true", ...timings, ...cidrs];
    manager = await stage().cluster.startKubeControllerManager({ controllers: ["node-ipam-controller"], flags });
    await eventually("it leads", async () => (await holder()) !== before, patienceMs);
  };
  const podCIDRs = async (): Promise<ReadonlyMap<string, string>> => {
    const nodes = await stage().cluster.admin.list(kinds.Node);
    return new Map(nodes.map(({ metadata, spec }) => [metadata?.name ?? "", spec?.podCIDR ?? ""]));
  };

  test("a node that joins between the two allocators waits for a unique CIDR, and the same applies on rollback", async () => {
    await stage().configure();
    await restart(true);
    await allocated(stage(), "kube-controller-manager");
    const before = await podCIDRs();
    await restart(false);
    const [waiting = ""] = await stage().join(1);
    expect(await allocatorOf(stage(), waiting)).toBeUndefined();

    const ours = await stage().start(await stage().install({ network, leaderElection }));
    await hasCIDRs(stage(), waiting, "cloud-controller-manager");
    const after = await podCIDRs();
    expect([...after]).toEqual(expect.arrayContaining([...before]));
    expect(new Set(after.values()).size).toBe(after.size);

    await ours.container.stop(ours.graceSeconds);
    const [again = ""] = await stage().join(1);
    await restart(true);
    await hasCIDRs(stage(), again, "kube-controller-manager");
    const last = await podCIDRs();
    expect([...last]).toEqual(expect.arrayContaining([...after]));
    expect(new Set(last.values()).size).toBe(last.size);
  }, 240_000);
});

describeOnRealApiServer("kube-controller-manager of this version, unpatched", (cluster) => {
  test("exits as soon as it acquires the second lease: once it does not, remove test/deploy/kube-controller-manager", async () => {
    await using manager = await cluster.startKubeControllerManager({
      controllers: ["node-ipam-controller"],
      flags: ["--leader-elect=true", "--enable-leader-migration", `--leader-migration-config=${file("wildcard.yaml")}`],
    });
    await eventually("it has ended", () => manager.exitCode() !== undefined, patienceMs);
    expect(await manager.lastWords()).toContain('informer name \\"kube-controller-manager\\" is already registered');
  });
});

describeDeployment("migration from the Go provider", (stage) => {
  test("ours stands by while the Go provider holds the Lease, takes over once it has expired, and has nothing to write", async () => {
    await stage().configure();
    const manifests = await stage().install({ leaderElection });
    // In the place of the other provider: it has initialized the nodes, and ends without giving its Lease back.
    const other = await stage().start(manifests);
    await stage().initialized(await stage().join(2));
    const ours = await stage().start(manifests);
    await stage().until(ours, "ours stands by", ({ generation, leading }) => generation === 1 && !leading);
    const mark = await stage().cluster.audit.mark();
    stage().azure.clearLog();
    await other.container.signal("SIGKILL");
    await stage().until(ours, "ours leads", ({ leading, running }) => leading && running);
    await stage().initialized(await stage().join(1));

    const written = (await stage().requested(mark)).filter(({ verb }) => writeVerbs.some((write) => write === verb));
    const nodes = written.filter(({ resource }) => resource.startsWith("nodes")).map(({ name }) => name);
    expect(new Set(nodes)).toEqual(new Set(["vmss0000002"]));
    const sent = stage()
      .azure.requests()
      .filter((request) => !/^GET |\/oauth2\//.test(request));
    expect(sent).toEqual([]);
  });
});

test("grants kube-controller-manager the second lease and nothing else", async () => {
  const roles = manifestsOf(await Bun.file(file("roles.yaml")).text());
  expect(grantedBy(roles, "leader-migration:kube-controller-manager")).toEqual([
    "create leases.coordination.k8s.io in kube-system",
    `get leases.coordination.k8s.io ${secondLease} in kube-system`,
    `update leases.coordination.k8s.io ${secondLease} in kube-system`,
  ]);
});

test("grants ours the permissions on the second lease that the host requests", async () => {
  const roles = manifestsOf(await Bun.file(file("roles.yaml")).text());
  const migration = { ...defaultMigration, leaderName: secondLease };
  const all = declaredIn([{ holder: "host", permissions: hostPermissions(defaultOptions, [migration]) }]);
  const own = new Set(declaredIn([{ holder: "host", permissions: hostPermissions(defaultOptions) }]));
  const create = "create leases.coordination.k8s.io in kube-system";
  expect(grantedBy(roles, "leader-migration:cloud-controller-host")).toEqual([
    create,
    ...all.filter((permit) => !own.has(permit)),
  ]);
});

describeWithHelm("the chart's migration config", (helm) => {
  for (const [name, component] of [
    ["wildcard.yaml", "*"],
    ["explicit-cloud-controller-manager.yaml", "cloud-controller-manager"],
  ] as const)
    test(`matches deploy/migration/${name}`, async () => {
      expect(await renderedConfig(helm(), component)).toEqual(parse(await Bun.file(file(name)).text()));
    });
});

async function renderedConfig(helm: Helm, component: string): Promise<unknown> {
  const { data } = JSON.parse(JSON.stringify(theOne(await helm.template(valuesFor(component)), "ConfigMap")));
  return parse(data["config.yaml"]);
}

import { expect, setDefaultTimeout, test } from "bun:test";
import { join } from "node:path";

import { controllerNames, kinds, labels, type Node, taints } from "cloud-controller-host/sdk";
import { eventually } from "cloud-controller-host/sdk/testing";

import { defaultOptions } from "../../host/config/flags/options.ts";
import { hostPermissions } from "../../host/run/permissions.ts";
import { freshNode } from "../../host/sandbox/kubelet.ts";
import { createNode } from "../kit/azure.ts";
import { serveCloud, type ServedCloud } from "../kit/cloud-server.ts";
import { addressesOf, balancedService, deleteService, findService } from "../kit/services.ts";
import { declaredIn, grantedBy, usedBy } from "./grants.ts";
import { release, type Values } from "./helm.ts";
import { isGone, isTainted, loseKubelet, nodeOf, waitAgain } from "./nodes.ts";
import { describeDeployment, type Stage } from "./stage.ts";

setDefaultTimeout(120_000);

/** A cloud with every capability, as a plugin of one's own. */
const cloudValues = {
  cloudProvider: "test-cloud",
  plugins: {
    folders: [{ name: "clouds", volume: { hostPath: { path: join(import.meta.dir, "..", "kit", "fixtures") } } }],
  },
};
const clusterCIDR = "10.244.0.0/16";
const patienceMs = 60_000;

/** Adds a VM and its node; default: a node that no controller has updated yet. */
async function add({ cluster }: Stage, { memory }: ServedCloud, name: string, spec?: Node["spec"]): Promise<void> {
  memory.machines.set(name, { nodeAddresses: [{ type: "InternalIP", address: "10.0.0.4" }] });
  const node = freshNode(name, new Date());
  await createNode(cluster.admin, spec === undefined ? node : { ...node, spec });
}

const known = (name: string) => ({ providerID: `test-cloud://${name}` });
const podCIDRs = { podCIDR: "10.244.7.0/24", podCIDRs: ["10.244.7.0/24"] };

const nodeHas = (stage: Stage, name: string, what: string, holds: (node: Node) => boolean): Promise<true> =>
  eventually(`${name} has ${what}`, async () => holds(await nodeOf(stage.cluster.admin, name)), patienceMs);

const hasReason = ({ status }: Node, wanted: string): boolean =>
  status?.conditions?.some(({ reason }) => reason === wanted) === true;

interface Work {
  readonly values?: Values;
  /** Makes the controller do all that it can, and waits until it has. */
  readonly all: (stage: Stage, cloud: ServedCloud) => Promise<void>;
}

const works: Readonly<Record<string, Work>> = {
  [controllerNames.cloudNode]: {
    async all(stage, cloud) {
      const { admin } = stage.cluster;
      await add(stage, cloud, "one");
      await stage.initialized(["one"]);
      await waitAgain(admin, "one");
      await stage.initialized(["one"]);
      const zone = { [labels.zoneBeta]: "north" };
      await admin.patch(kinds.Node, { name: "one" }, "merge", { metadata: { labels: zone } });
      await nodeHas(stage, "one", "the label", ({ metadata }) => metadata?.labels?.[labels.zone] === "north");
    },
  },
  [controllerNames.cloudNodeLifecycle]: {
    values: { extraArgs: ["--node-monitor-period=1s", "--cloud-node-lifecycle-controller-grace-period-seconds=0"] },
    async all(stage, cloud) {
      const { admin } = stage.cluster;
      for (const name of ["lost", "stopped", "well"]) await add(stage, cloud, name, known(name));
      cloud.memory.machines.delete("lost");
      cloud.memory.machines.set("stopped", { shutdown: true });
      for (const name of ["lost", "stopped"]) await loseKubelet(admin, name);
      await eventually("the lost one is deleted", () => isGone(admin, "lost"), patienceMs);
      await nodeHas(stage, "stopped", "the taint", (node) => isTainted(node, taints.shutdown));
    },
  },
  [controllerNames.nodeIPAM]: {
    values: {
      network: { allocateNodeCIDRs: true, clusterCIDR, podNetworkWaitsForNodes: false },
      extraArgs: ["--cidr-allocator-type=CloudAllocator"],
    },
    async all(stage, cloud) {
      const { admin, audit } = stage.cluster;
      await add(stage, cloud, "one", known("one"));
      await nodeHas(stage, "one", "its pod CIDR", ({ spec }) => spec?.podCIDR !== undefined);
      await nodeHas(stage, "one", "the condition", (node) => hasReason(node, "RouteCreated"));
      const since = await audit.mark();
      await admin.delete(kinds.Node, { name: "one" });
      await eventually(
        "the node is read again before its CIDR is reused",
        async () => (await stage.requested(since)).some(({ verb, name }) => verb === "get" && name === "one"),
        patienceMs,
      );
    },
  },
  [controllerNames.nodeRoute]: {
    values: { network: { configureCloudRoutes: true, clusterCIDR, podNetworkWaitsForNodes: false } },
    async all(stage, cloud) {
      await add(stage, cloud, "one", { ...known("one"), ...podCIDRs });
      await nodeHas(stage, "one", "the condition", (node) => hasReason(node, "RouteCreated"));
      expect(cloud.memory.routes.size).toBe(1);
    },
  },
  [controllerNames.serviceLB]: {
    async all(stage, cloud) {
      const { admin } = stage.cluster;
      await add(stage, cloud, "one", known("one"));
      await admin.create(kinds.Service, balancedService("web"));
      const addresses = async () => addressesOf(await findService(admin, "web"));
      await eventually("it has an address", async () => (await addresses()).length > 0, patienceMs);
      await deleteService(admin, "web");
      await eventually("it is gone", async () => (await findService(admin, "web")) === undefined, patienceMs);
      expect(cloud.memory.balancers.size).toBe(0);
    },
  },
};

/** What the host itself needs, whatever it runs: that it makes use of it is shown in least-privilege.test.ts. */
const ofTheHost = new Set(declaredIn([{ holder: "host", permissions: hostPermissions(defaultOptions) }]));

describeDeployment("a controller alone", (stage) => {
  for (const name of Object.values(controllerNames))
    test(`needs exactly the rules that it declares: ${name}`, async () => {
      const { values, all } = works[name] ?? {};
      if (all === undefined) throw new Error(`no case for ${name}`);
      await using cloud = await serveCloud();
      await stage().writeConfig(await Bun.file(cloud.config).text());
      const manifests = await stage().install({ ...cloudValues, ...values, controllers: [name] });
      const pod = await stage().start(manifests);
      await all(stage(), cloud);
      await pod.container.stop(pod.graceSeconds);
      const used = usedBy(await stage().requested());
      const unused = grantedBy(manifests, release).filter((permit) => !used.has(permit));
      expect(unused.filter((permit) => !ofTheHost.has(permit))).toEqual([]);
    });
});

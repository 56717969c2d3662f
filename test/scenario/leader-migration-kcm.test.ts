import { beforeEach, expect, setDefaultTimeout, test } from "bun:test";
import { appendFile, writeFile } from "node:fs/promises";
import { join } from "node:path";

import { controllerNames, kinds, type Lease, type Node } from "cloud-controller-host/sdk";
import { eventually } from "cloud-controller-host/sdk/testing";

import { defaultOptions } from "../../host/config/flags/options.ts";
import { hostPermissions } from "../../host/run/permissions.ts";
import type { HostStatus } from "../../host/run/status.ts";
import azure from "../../plugins/azure-cloud/plugin.ts";
import nodeIpam from "../../plugins/azure-node-ipam/plugin.ts";
import type { AuditMark } from "../envtest/audit.ts";
import type { KubeControllerManager } from "../envtest/kube-controller-manager.ts";
import { describeOnRealApiServer } from "../envtest/shared.ts";
import { simulateAzure, type SimulatedAzure } from "../kit/azure.ts";
import { HostProcess } from "../kit/host-process.ts";
import { hostUser } from "../kit/host-roles.ts";
import { shortLease } from "../kit/host-under-test.ts";

setDefaultTimeout(180_000);

/** Generous: the machines that run this are shared. */
const patienceMs = 80_000;
const shared = "ipam-migration";
/** In the spelling of kube-controller-manager, which knows no other. */
const migration = { leaderName: shared, controllerLeaders: [{ name: "node-ipam-controller", component: "*" }] };
const managerUser = "system:kube-controller-manager";
const allocating = [...shortLease, "--allocate-node-cidrs=true", "--cluster-cidr=10.244.0.0/16"] as const;

/** Both components get the same file. */
async function migrating({ folder }: SimulatedAzure): Promise<readonly string[]> {
  const file = join(folder, "migration.json");
  const kind = { apiVersion: "controllermanager.config.k8s.io/v1", kind: "LeaderMigrationConfiguration" };
  await writeFile(file, JSON.stringify({ ...kind, ...migration }));
  return ["--enable-leader-migration", `--leader-migration-config=${file}`, ...allocating];
}

describeOnRealApiServer("leader migration with the real kube-controller-manager", (cluster) => {
  let begun: AuditMark;
  beforeEach(async () => {
    await cluster.cleanSlate();
    begun = await cluster.audit.mark();
  });

  const startManager = async (simulated: SimulatedAzure): Promise<KubeControllerManager> =>
    cluster.startKubeControllerManager({
      // Its first lock counts as won, for the second one, only when its tokens controller has started.
      controllers: ["node-ipam-controller", "serviceaccount-token-controller"],
      flags: [...(await migrating(simulated)), "--leader-elect=true"],
    });

  async function startHost(simulated: SimulatedAzure): Promise<HostProcess> {
    const options = { ...defaultOptions, cloudConfig: simulated.config };
    await cluster.grant(hostUser, [
      ...hostPermissions(options, [migration]),
      ...azure.permissions,
      ...nodeIpam.permissions,
    ]);
    return new HostProcess({
      flags: [
        `--kubeconfig=${await cluster.kubeconfig(hostUser)}`,
        `--cloud-config=${simulated.config}`,
        "--enable-dynamic-reloading",
        `--controllers=${controllerNames.nodeIPAM}`,
        ...(await migrating(simulated)),
      ],
    });
  }

  const lease = async (name: string): Promise<Lease["spec"]> => {
    const found: Lease = await cluster.admin.get(kinds.Lease, { namespace: "kube-system", name });
    return found.spec;
  };
  const allocates = (host: HostProcess): Promise<HostStatus> =>
    host.until("node-ipam runs here", ({ locks }) => locks[1]?.controllers.includes(controllerNames.nodeIPAM) === true);
  const within = <T>(awaited: string, ask: () => Promise<T>) => eventually(awaited, ask, patienceMs);

  const cidrOf = async (name: string): Promise<string | undefined> => {
    const node: Node = await cluster.admin.get(kinds.Node, { name });
    return node.spec?.podCIDR;
  };
  const createNode = (name: string): Promise<Node> =>
    cluster.admin.create(kinds.Node, { metadata: { name, labels: { "kubernetes.io/os": "linux" } } });
  /** The users that have written a node's CIDR. */
  const writersOf = async (name: string): Promise<readonly string[]> => {
    const patches = await cluster.audit.requests({ since: begun, verbs: ["patch"], resource: "nodes" });
    const withCidr = patches.filter((each) => each.name === name && JSON.stringify(each.body).includes("podCIDR"));
    return [...new Set(withCidr.map(({ user }) => user))];
  };

  test("node-ipam runs in the component with the shared lock, there and back, and allocates no CIDR twice", async () => {
    await using simulated = await simulateAzure();
    await using host = await startHost(simulated);
    const { identity } = await allocates(host);
    await createNode("node1");
    await within("node1 has a CIDR", () => cidrOf("node1"));

    await using manager = await startManager(simulated);
    await within("the other asks for the shared lock", async () => {
      if (manager.exitCode() !== undefined) throw new Error(await manager.lastWords());
      const requested = await cluster.audit.requests({ since: begun, user: managerUser, resource: "leases" });
      return requested.some(({ verb, name }) => verb === "get" && name === shared);
    });
    const before = await lease(shared);
    await appendFile(simulated.config, "# a change\n");
    await host.until("it has reloaded", ({ generation, running }) => generation === 2 && running);
    await createNode("node2");
    await within("node2 has a CIDR", () => cidrOf("node2"));
    const { acquireTime, leaseTransitions } = before ?? {};
    expect(await lease(shared)).toMatchObject({ holderIdentity: identity, acquireTime, leaseTransitions });
    expect(manager.exitCode()).toBeUndefined();

    expect(await host.stop()).toBe(0);
    await within("the other has the shared lock", async () => {
      const { holderIdentity = "" } = (await lease(shared)) ?? {};
      return holderIdentity !== "" && holderIdentity !== identity;
    });
    await createNode("node3");
    // That of Kubernetes 1.36 cannot make its second set of controllers: it takes the lock, and ends at once.
    await within("it gives CIDRs, or has ended", async () => manager.exitCode() !== undefined || cidrOf("node3"));
    const last = manager.exitCode() === undefined ? managerUser : hostUser;
    await manager[Symbol.asyncDispose]();

    await using back = await startHost(simulated);
    await allocates(back);
    await createNode("node4");
    const names = ["node1", "node2", "node3", "node4"];
    const cidrs = await Promise.all(names.map((name) => within(`${name} has a CIDR`, () => cidrOf(name))));
    expect(new Set(cidrs).size).toBe(names.length);
    expect(await Promise.all(names.map(writersOf))).toEqual([[hostUser], [hostUser], [last], [hostUser]]);
    expect((await lease(shared))?.leaseTransitions).toBe(2);
  });
});

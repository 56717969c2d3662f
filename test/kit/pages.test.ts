/** The blocks of the pages about tests and the simulator, run as printed. */
import { afterAll, beforeAll, beforeEach, expect, setDefaultTimeout, test } from "bun:test";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { controllerNames, kinds, taints } from "cloud-controller-host/sdk";
import { eventually, memoryCloud } from "cloud-controller-host/sdk/testing";

import { startSimulator } from "../../plugins/azure-cloud/simulator/simulator.ts";
import lifecycle from "../../plugins/lifecycle/plugin.ts";
import { describeOnRealApiServer } from "../envtest/shared.ts";
import { serveCloud } from "./cloud-server.ts";
import { startControllers } from "./controllers-host.ts";
import { TestCluster } from "./harness.ts";
import { HostLab } from "./host-under-test.ts";
import { describeOnReal } from "./platform.ts";
import { balancedService } from "./services.ts";

setDefaultTimeout(120_000);

let directory = "";
beforeAll(async () => void (directory = await mkdtemp(join(tmpdir(), "pages-"))));
afterAll(() => rm(directory, { recursive: true, force: true }));

test("taints a node whose instance is shut down", async () => {
  await using cluster = await TestCluster.start();
  const memory = memoryCloud();
  memory.machines.set("node0", { shutdown: true });
  await cluster.admin.create(kinds.Node, { metadata: { name: "node0" } });
  await cluster.run(lifecycle, { cloud: memory.cloud, flags: { nodeMonitorPeriod: 20 } });

  await eventually("the node is tainted", () => cluster.writes().length === 1);
  expect(cluster.writes()[0]?.body).toMatchObject({ spec: { taints: [{ key: taints.shutdown }] } });
});

test("the simulator of the Azure page creates VMs, fails and holds requests and stores resources", async () => {
  const file = join(directory, "cloud-config.yaml");
  await using simulator = await startSimulator({ directory });
  const instances = await simulator.addInstances(3); // of vmss0: vmss0000000, vmss0000001, …
  await Bun.write(file, simulator.cloudConfig);
  simulator.failNext({ method: "PUT", path: "/loadBalancers/" }, { status: 409, code: "Conflict", times: 2 });
  const hold = simulator.hold({ method: "PUT", path: "/publicIPAddresses/" }); // … until hold.release()
  simulator.put("/providers/Microsoft.Network/publicIPAddresses/my-pip", { properties: { ipAddress: "20.9.9.9" } });
  simulator.requests(); // ["GET /subscriptions/…", …]
  hold.release();
  expect(instances.map(({ nodeName }) => nodeName)).toEqual(["vmss0000000", "vmss0000001", "vmss0000002"]);
  expect(await Bun.file(file).text()).toContain("sub0");
  expect(simulator.requests()).toEqual([]);
});

describeOnRealApiServer("a reader of nodes", (cluster) => {
  beforeEach(() => cluster.cleanSlate());

  test("lists once", async () => {
    await cluster.grant("ann", [{ apiGroup: "", resources: ["nodes"], verbs: ["list"] }]);
    const kubeconfig = await cluster.kubeconfig("ann");
    await cluster.kubectl(kubeconfig, ["get", "nodes"]);
    expect(await cluster.audit.counts({ user: "ann", resource: "nodes" })).toEqual({ "list nodes": 1 });
  });
});

describeOnReal("Services", (platform) => {
  const lab = new HostLab(platform);

  test("get a load balancer when created", async () => {
    const cloud = lab.use(await serveCloud());
    const host = await startControllers(lab, platform(), cloud, { controllers: [controllerNames.serviceLB] });
    await platform().admin.create(kinds.Service, balancedService("web"));
    await host.eventually("the load balancer exists", () => cloud.memory.balancers.has("default/web"));
  });
});

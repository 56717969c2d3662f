import { expect, test } from "bun:test";

import { labels, taints } from "cloud-controller-host/sdk";

import { clusters } from "../clusters.ts";
import { azureRig, rule } from "./azure-rig.ts";
import { ClusterRig } from "./cluster-rig.ts";
import { Removals } from "./removals.ts";

const { simulator, idOf, putBalancer, putPublicIP, putRules, view } = await azureRig([
  { name: "vm-0", privateIP: "10.240.0.4" },
  { name: "vm-1", privateIP: "10.240.0.5" },
]);
const minuteMs = 60_000;

interface Setup {
  readonly sharesAddresses?: boolean;
  /** Nodes without a VM. */
  readonly lost?: readonly string[];
  readonly excused?: readonly string[];
  readonly lastEnd?: number;
  /** Addresses of VMs by name. */
  readonly machines?: Readonly<Record<string, string>>;
  /** Since when Services have had Pods on each node. */
  readonly pods?: ReadonlyMap<string, number>;
}

async function start({
  sharesAddresses = false,
  lost = [],
  excused = [],
  lastEnd = 0,
  machines = {},
  pods,
}: Setup = {}) {
  const cluster = await ClusterRig.start();
  const found: string[] = [];
  const world = {
    api: cluster.api,
    get now() {
      return cluster.now;
    },
    services: () => cluster.services(),
    cluster: { ...clusters.plain, sharesAddresses },
    machines: { has: (name: string) => !lost.includes(name) },
    machineOf: (name: string) => (name in machines ? { set: "vmss0", privateIP: machines[name] ?? "" } : undefined),
    endpoints: pods && { of: () => pods },
    operations: { lastEnd },
  };
  const removals = new Removals(
    world,
    { excused: () => () => new Set(excused) },
    (_invariant, what) => void found.push(what),
  );
  /** What is gone without a cause. */
  const unexplained = (): readonly string[] => {
    removals.check(view());
    return found.splice(0);
  };
  return { cluster, removals, unexplained, [Symbol.asyncDispose]: () => cluster[Symbol.asyncDispose]() };
}

test("a load-balancing rule goes with a cause once its Service has changed or is gone", async () => {
  await using scene = await start();
  const { cluster, unexplained } = scene;
  const web = cluster.addService("web");
  cluster.addService("other");
  putPublicIP("shared");
  const put = (...ports: readonly number[]): void =>
    putBalancer({ frontends: [["outbound", "shared"]], rules: ports.map((port) => rule(web.base, "outbound", port)) });
  const partOf = (port: number): string => `kubernetes/loadBalancingRules/${web.base}-TCP-${port}`;
  put(80, 81, 82);
  expect(unexplained()).toEqual([]);
  put(80, 81);
  cluster.changeService("other", { sessionAffinity: "ClientIP" });
  cluster.showAddress("web", "20.0.0.1");
  expect(unexplained()).toEqual([partOf(82)]);
  cluster.changeService("web", { sessionAffinity: "ClientIP" });
  put(80);
  expect(unexplained()).toEqual([]);
  cluster.deleteService("web");
  cluster.now = 60 * minuteMs;
  put(80, 81);
  unexplained();
  put();
  expect(unexplained()).toEqual([]);
});

test.each<readonly [what: string, minutes: number, lastEnd: number, isUnexplained: boolean]>([
  ["nine minutes after a change may go for it", 9, 0, false],
  ["eleven minutes after a change goes without a cause", 11, 0, true],
  ["an hour after a change may go for it where operations take an hour", 60, 1, false],
])("what was written %s", async (_what, minutes, lastEnd, isUnexplained) => {
  await using scene = await start({ lastEnd });
  const { cluster, unexplained } = scene;
  const { base } = cluster.addService("web");
  cluster.changeService("web", { sessionAffinity: "ClientIP" });
  cluster.now = minutes * minuteMs;
  const put = (isThere: boolean): void => putBalancer({ frontends: isThere ? [[base, "10.240.0.100"]] : [] });
  put(true);
  unexplained();
  // How long it was there says nothing.
  cluster.now += 60 * minuteMs;
  unexplained();
  put(false);
  expect(unexplained()).toEqual(isUnexplained ? [`kubernetes/frontendIPConfigurations/${base}`] : []);
});

test("what a change from outside has taken away goes with a cause", async () => {
  await using scene = await start();
  const { base } = scene.cluster.addService("web");
  putPublicIP(`kubernetes-${base}`);
  scene.unexplained();
  simulator.delete(idOf("publicIPAddresses", `kubernetes-${base}`));
  scene.removals.accept(view());
  expect(scene.unexplained()).toEqual([]);
});

function putRoute(isThere: boolean): void {
  const properties = {
    addressPrefix: "10.244.0.0/24",
    nextHopType: "VirtualAppliance",
    nextHopIpAddress: "10.240.0.4",
  };
  const routes = isThere ? [{ name: "vm-0____10244000024", properties }] : [];
  simulator.put(idOf("routeTables", "rt0"), { properties: { routes } });
}

test.each<readonly [what: string, change: (cluster: ClusterRig) => void, lost: readonly string[], hasCause: boolean]>([
  ["without a cause while its node is as it was", () => undefined, [], false],
  ["without a cause for a label of its node", (cluster) => cluster.labelNode("vm-0", "a"), [], false],
  ["with a cause once its node is gone", (cluster) => cluster.deleteNode("vm-0"), [], true],
  ["with a cause once the VM of its node is gone", () => undefined, ["vm-0"], true],
  ["with a cause once its node has another address", (cluster) => cluster.moveNode("vm-0", "10.240.0.5"), [], true],
])("a route goes %s", async (_what, change, lost, hasCause) => {
  await using scene = await start({ lost });
  scene.cluster.addNode("vm-0", "10.240.0.4");
  putRoute(true);
  scene.unexplained();
  change(scene.cluster);
  putRoute(false);
  expect(scene.unexplained()).toEqual(hasCause ? [] : ["route of vm-0 to 10.240.0.4"]);
});

test("a route to a former VM goes with a cause once its node has the address of the next one", async () => {
  await using scene = await start();
  scene.cluster.addNode("vm-0", "vm-0.example.com");
  putRoute(true);
  scene.unexplained();
  scene.cluster.labelNode("vm-0", "a");
  putRoute(false);
  expect(scene.unexplained()).toEqual(["route of vm-0 to 10.240.0.4"]);
  putRoute(true);
  scene.unexplained();
  // The name stays.
  scene.cluster.moveNode("vm-0", "vm-0.example.com", "10.240.0.5");
  putRoute(false);
  expect(scene.unexplained()).toEqual([]);
});

test("a route that is written long after its node is gone goes with a cause", async () => {
  await using scene = await start();
  scene.cluster.addNode("vm-0", "10.240.0.4");
  scene.cluster.deleteNode("vm-0");
  scene.cluster.now = 60 * minuteMs;
  putRoute(true);
  scene.unexplained();
  putRoute(false);
  expect(scene.unexplained()).toEqual([]);
});

test("a node port of a former node closes with a cause on an address that a frontend has now, and no other port does", async () => {
  await using scene = await start();
  const { cluster, unexplained } = scene;
  const { base } = cluster.addService("web");
  cluster.addNode("vm-0", "10.240.0.100");
  putBalancer({ frontends: [[base, "10.240.0.100"]] }, "kubernetes-internal");
  const partOf = (port: number): string => `Allow Tcp from Internet to 10.240.0.100 ${port}`;
  const open = (...ports: readonly number[]): void => putRules({ to: ["10.240.0.100"], ports: ports.map(String) });
  open(80, 443, 30_000, 30_001);
  unexplained();
  open(80, 443, 30_000);
  expect(unexplained()).toEqual([partOf(30_001)]);
  cluster.deleteNode("vm-0");
  open(80);
  expect(unexplained()).toEqual([partOf(443)]);
});

test("a node port closes with a cause on the address that a node has left", async () => {
  await using scene = await start();
  const { cluster, unexplained } = scene;
  const { base } = cluster.addService("web");
  cluster.addNode("vm-0", "10.240.0.100");
  putBalancer({ frontends: [[base, "10.240.0.100"]] }, "kubernetes-internal");
  putRules({ to: ["10.240.0.100"], ports: ["80", "30000"] });
  unexplained();
  cluster.moveNode("vm-0", "10.240.0.5");
  putRules({ to: ["10.240.0.100"] });
  expect(unexplained()).toEqual([]);
});

test("a port of a shared address closes with a cause once it was handed over to another Service or its own has changed", async () => {
  await using scene = await start({ sharesAddresses: true });
  const { cluster, unexplained } = scene;
  const [web, other] = [cluster.addService("web"), cluster.addService("other")];
  const address = putPublicIP("shared");
  const put = (...owners: readonly string[]): void =>
    putBalancer({
      frontends: [["outbound", "shared"]],
      rules: owners.map((owner, index) => rule(owner, "outbound", 80 + index)),
    });
  const open = (...sources: readonly string[]): void =>
    putRules({ to: [address], ports: sources.map((_source, index) => String(80 + index)) });
  put(web.base, web.base, other.base);
  open("80", "81", "82");
  expect(unexplained()).toEqual([]);
  open("80", "81");
  expect(unexplained()).toEqual([`Allow Tcp from Internet to ${address} 82`]);
  cluster.changeService("other", { sessionAffinity: "ClientIP" });
  open("80");
  expect(unexplained()).toEqual([`Allow Tcp from Internet to ${address} 81`]);
  cluster.now = 60 * minuteMs;
  open("80", "81", "82");
  unexplained();
  put(web.base, web.base, web.base);
  open("80", "81");
  expect(unexplained()).toEqual([]);
});

test("what denies the rest of a shared address goes with a cause once any of its Services is gone", async () => {
  await using scene = await start({ sharesAddresses: true });
  const { cluster, unexplained } = scene;
  const [web, other, third] = [cluster.addService("web"), cluster.addService("other"), cluster.addService("third")];
  const address = putPublicIP("shared");
  putPublicIP("theirs");
  putBalancer({
    frontends: [
      ["outbound", "shared"],
      ["outbound2", "theirs"],
    ],
    rules: [rule(web.base, "outbound"), rule(other.base, "outbound", 81), rule(third.base, "outbound2")],
  });
  const deny = (isThere: boolean): void =>
    putRules(...(isThere ? [{ to: [address], ports: ["*"], protocol: "*", access: "Deny" as const }] : []));
  const gone = [`Deny * from Internet to ${address} *`];
  deny(true);
  unexplained();
  cluster.deleteService("third");
  deny(false);
  expect(unexplained()).toEqual(gone);
  deny(true);
  unexplained();
  cluster.deleteService("other");
  deny(false);
  expect(unexplained()).toEqual([]);
});

test("a port of a shared address without a rule closes with a cause", async () => {
  await using scene = await start({ sharesAddresses: true });
  scene.cluster.addService("web");
  putRules({ to: [putPublicIP("shared")] });
  scene.unexplained();
  putRules();
  expect(scene.unexplained()).toEqual([]);
});

test("a member leaves with a cause once all Services of its pool have changed, or its operation is excused", async () => {
  await using scene = await start({ excused: ["vm-1"] });
  const { cluster, unexplained } = scene;
  const [web, other] = [cluster.addService("web"), cluster.addService("other")];
  for (const index of [0, 1]) cluster.addNode(`vm-${index}`, `10.240.0.${index + 4}`);
  putPublicIP("shared");
  const put = (...members: readonly number[]): void =>
    putBalancer({
      frontends: [["outbound", "shared"]],
      rules: [rule(web.base, "outbound"), rule(other.base, "outbound", 81)],
      members: members.map((index) => `10.240.0.${index + 4}`),
    });
  put(0, 1);
  unexplained();
  cluster.changeService("web", { sessionAffinity: "ClientIP" });
  put();
  expect(unexplained()).toEqual(["member vm-0 of kubernetes/kubernetes"]);
  put(0);
  unexplained();
  cluster.changeService("other", { sessionAffinity: "ClientIP" });
  put();
  expect(unexplained()).toEqual([]);
});

/** A Service with a member, and what is unexplained when that leaves; an hour has passed since all changes before. */
function withMember({ cluster, unexplained }: Awaited<ReturnType<typeof start>>) {
  const { base } = cluster.addService("web");
  cluster.addNode("vm-0", "10.240.0.4");
  const put = (...members: readonly string[]): void =>
    putBalancer({ frontends: [[base, "10.240.0.100"]], rules: [rule(base, base)], members });
  const leave = (): readonly string[] => {
    put("10.240.0.4");
    unexplained();
    put();
    return unexplained();
  };
  const pass = (): void => void (cluster.now += 60 * minuteMs);
  pass();
  return { leave, pass, lost: ["member vm-0 of kubernetes/kubernetes"] };
}

test("a member leaves with a cause while its node is excluded from load balancers, and for a while after that", async () => {
  await using scene = await start();
  const { leave, pass, lost } = withMember(scene);
  expect(leave()).toEqual(lost);
  scene.cluster.labelNode("vm-0", labels.excludeFromLoadBalancers);
  pass();
  expect(leave()).toEqual([]);
  scene.cluster.labelNode("vm-0", "serves");
  expect(leave()).toEqual([]);
  pass();
  expect(leave()).toEqual(lost);
});

test("a member leaves with a cause while its node is out of service and a Service drains nodes", async () => {
  await using scene = await start();
  const { leave, lost } = withMember(scene);
  scene.cluster.taintNode("vm-0", taints.outOfService);
  expect(leave()).toEqual(lost);
  scene.cluster.addService("drained", {}, { "azure-load-balancer-drain-seconds": "20" });
  expect(leave()).toEqual([]);
  scene.cluster.taintNode("vm-0", "another");
  expect(leave()).toEqual(lost);
});

test.each<readonly [what: string, setup: Setup, hasCause: boolean]>([
  ["without a cause on the address of a node that is there", { machines: { "vm-0": "10.240.0.100" } }, false],
  ["with a cause on the address of a node whose VM is gone", { lost: ["vm-0"] }, true],
  ["with a cause on the address of a node whose name another VM has", { machines: { "vm-0": "10.240.0.7" } }, true],
])("a node port closes %s", async (_what, setup, hasCause) => {
  await using scene = await start(setup);
  const { base } = scene.cluster.addService("web");
  scene.cluster.addNode("vm-0", "10.240.0.100");
  scene.cluster.now = 60 * minuteMs;
  putBalancer({ frontends: [[base, "10.240.0.100"]] }, "kubernetes-internal");
  putRules({ to: ["10.240.0.100"], ports: ["80", "30000"] });
  scene.unexplained();
  putRules({ to: ["10.240.0.100"], ports: ["80"] });
  expect(scene.unexplained()).toHaveLength(hasCause ? 0 : 1);
});

test("a member of the pool of one Service leaves with a cause while that has no Pod on the node, or had none shortly before", async () => {
  const pods = new Map<string, number>([["vm-0", 0]]);
  await using scene = await start({ pods });
  const { base } = scene.cluster.addService("web");
  scene.cluster.addNode("vm-0", "10.240.0.4");
  const leave = (): readonly string[] => {
    const parts = { frontends: [[base, "10.240.0.100"]], rules: [rule(base, base)], pool: "default-web" } as const;
    putBalancer({ ...parts, members: ["10.240.0.4"] }, "gold");
    scene.unexplained();
    putBalancer(parts, "gold");
    return scene.unexplained();
  };
  scene.cluster.now = 60 * minuteMs;
  expect(leave()).toEqual(["member vm-0 of gold/default-web"]);
  pods.set("vm-0", 55 * minuteMs);
  expect(leave()).toEqual([]);
  scene.cluster.now = 120 * minuteMs;
  expect(leave()).toEqual(["member vm-0 of gold/default-web"]);
  pods.delete("vm-0");
  expect(leave()).toEqual([]);
});

test("a member of another load balancer than that of its node leaves with a cause", async () => {
  await using scene = await start();
  const { base } = scene.cluster.addService("web");
  scene.cluster.addNode("vm-0", "10.240.0.4");
  const put = (...members: readonly string[]): void =>
    putBalancer({ frontends: [[base, "10.240.0.100"]], rules: [rule(base, base)], members }, "gold");
  put("10.240.0.4");
  scene.unexplained();
  put();
  expect(scene.unexplained()).toEqual([]);
});

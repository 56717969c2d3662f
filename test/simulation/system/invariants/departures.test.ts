import { expect, test } from "bun:test";

import { defaultLoadBalancerName, labels } from "cloud-controller-host/sdk";

import type { Target } from "../weather.ts";
import { ClusterRig } from "./cluster-rig.ts";
import { Departures } from "./departures.ts";

const minuteMs = 60_000;
const owners = ["/virtualmachines/0", "/virtualmachines/1"] as const;

/** A public Service and two nodes, long there. */
async function start() {
  const cluster = await ClusterRig.start();
  const underway = new Set<string>();
  /** Load balancers of all Services. Those that the public one refused are on the internal one, as before a move. */
  const refused = new Set<string>();
  const balancersThen = () =>
    ["kubernetes", "kubernetes-internal"].map((name) => ({
      name,
      properties: {
        frontendIPConfigurations: cluster
          .services()
          .filter(({ metadata }) => name !== "kubernetes" || !refused.has(metadata?.name ?? ""))
          .map((service) => ({ name: defaultLoadBalancerName(service) })),
      },
    }));
  const departures = new Departures({
    view: () => ({ balancers: balancersThen() }),
    api: cluster.api,
    get now() {
      return cluster.now;
    },
    services: () => cluster.services(),
    azure: { operations: () => [...underway].map((owner) => `/subscriptions/sub0${owner}`) },
    machines: { all: owners.map((owner, index) => ({ name: `vm-${index}`, owner })) },
  });
  cluster.addService("web");
  for (const index of owners.keys()) cluster.addNode(`vm-${index}`, `10.240.0.${index + 4}`);
  cluster.now = 60 * minuteMs;
  /** Writes the machine of the first node, with the pools of some load balancers, as `kubernetes/POOL` or without a name. */
  const write = (
    balancers: readonly string[] = [],
    { target = "azure", isWrite = true, path = "/virtualMachines/0?api-version=1" }: Partial<Request> = {},
  ): void => {
    const pools = balancers.map((name) => {
      const [balancer, pool = "kubernetes"] = name.split("/");
      return { id: `/loadBalancers/${balancer}/backendAddressPools/${pool}` };
    });
    departures.sent({ target, isWrite, exchange: { path: `/subscriptions/sub0${path}`, body: JSON.stringify(pools) } });
    underway.add(owners[0]);
  };
  /** Nodes that may be in no pool of public load balancers, and of internal ones. */
  const excused = (family = "IPv4") => [false, true].map((internal) => [...departures.excused()(internal, family)]);
  return { cluster, refused, underway, write, excused, [Symbol.asyncDispose]: () => cluster[Symbol.asyncDispose]() };
}

interface Request {
  readonly target: Target;
  readonly isWrite: boolean;
  readonly path: string;
}

const both = [["vm-0"], ["vm-0"]];
const ofPublic = [["vm-0"], []];
const ofInternal = [[], ["vm-0"]];
const none = [[], []];

test("a node whose machine was taken out of its pools while it was away is excused until ten minutes after the operation", async () => {
  await using scene = await start();
  const { cluster, underway, write, excused } = scene;
  cluster.deleteNode("vm-0");
  write();
  expect(excused()).toEqual(both);
  cluster.now += 60 * minuteMs;
  expect(excused()).toEqual(both);
  underway.clear();
  cluster.now += 10 * minuteMs;
  expect(excused()).toEqual(both);
  cluster.now += 1;
  expect(excused()).toEqual(none);
  cluster.now -= 1;
  expect(excused()).toEqual(none);
});

test("a node whose machine was taken out of its pools while it was excluded is excused", async () => {
  await using scene = await start();
  const { cluster, write, excused } = scene;
  cluster.labelNode("vm-0", labels.excludeFromLoadBalancers);
  cluster.now += 60 * minuteMs;
  write();
  cluster.labelNode("vm-0", "serves");
  expect(excused()).toEqual(both);
});

test("a node is excused from the pools of load balancers that no Service has", async () => {
  await using scene = await start();
  const { cluster, write, excused } = scene;
  write();
  expect(excused()).toEqual(ofInternal);
  cluster.deleteService("web");
  cluster.addService("plain", { type: "ClusterIP" });
  cluster.addService("inner", {}, { "azure-load-balancer-internal": "true" });
  cluster.now += 60 * minuteMs;
  write();
  expect(excused()).toEqual(ofPublic);
});

test("a node is excused from the pools of load balancers that have nothing of the Services that are there", async () => {
  await using scene = await start();
  const { cluster, refused, write, excused } = scene;
  cluster.addService("inner", {}, { "azure-load-balancer-internal": "true" });
  cluster.now += 60 * minuteMs;
  write();
  expect(excused()).toEqual(none);
  refused.add("web");
  write();
  expect(excused()).toEqual(ofPublic);
});

test.each<readonly [balancers: readonly string[], expected: readonly (readonly string[])[]]>([
  [["kubernetes"], ofInternal],
  [["kubernetes-internal"], ofPublic],
  [["Kubernetes-Internal"], ofPublic],
  [["kubernetes", "kubernetes-internal"], none],
])(
  "a node without a Node object whose machine is written with pools of %p is in those",
  async (balancers, expected) => {
    await using scene = await start();
    scene.cluster.deleteNode("vm-0");
    scene.write(balancers);
    expect(scene.excused()).toEqual(expected.map((names) => [...names]));
  },
);

test("a node whose machine leaves the pool of one family is in that of the other", async () => {
  await using scene = await start();
  const { cluster, underway, write, excused } = scene;
  cluster.deleteNode("vm-0");
  write(["kubernetes/kubernetes-IPv6", "kubernetes-internal"]);
  expect([excused("IPv4"), excused("IPv6")]).toEqual([ofPublic, ofInternal]);
  underway.clear();
  write(["kubernetes-internal/kubernetes-IPv6"]);
  expect([excused("IPv4"), excused("IPv6")]).toEqual([both, both]);
});

test.each<readonly [what: string, part: Partial<Request>]>([
  ["a read", { isWrite: false }],
  ["a write of Kubernetes", { target: "kube" }],
  ["a write of something else", { path: "/virtualMachines/0/extensions" }],
])("%s excuses no node", async (_what, part) => {
  await using scene = await start();
  scene.cluster.deleteNode("vm-0");
  scene.write([], part);
  expect(scene.excused()).toEqual(none);
});

test.each<[string, (cluster: ClusterRig) => void, (cluster: ClusterRig) => void]>([
  [
    "the return of a node may not know it yet, whatever else changes",
    (cluster) => {
      cluster.deleteNode("vm-0");
      cluster.addNode("vm-0", "10.240.0.4");
      cluster.labelNode("vm-0", "a");
    },
    (cluster) => cluster.labelNode("vm-0", "b"),
  ],
  [
    "the end of a node's exclusion may not know it yet",
    (cluster) => {
      cluster.labelNode("vm-0", labels.excludeFromLoadBalancers);
      cluster.now += 60 * minuteMs;
      cluster.labelNode("vm-0", "serves");
    },
    (cluster) => cluster.labelNode("vm-0", "b"),
  ],
  [
    "the first public Service may not know it yet, whatever Services follow",
    (cluster) => {
      cluster.deleteService("web");
      cluster.now += 60 * minuteMs;
      cluster.addService("web");
    },
    (cluster) => cluster.addService("other"),
  ],
])("a write within three minutes of %s", async (_, comes, follows) => {
  await using scene = await start();
  const { cluster, underway, write, excused } = scene;
  comes(cluster);
  cluster.now += 3 * minuteMs;
  follows(cluster);
  write(["kubernetes-internal"]);
  expect(excused()).toEqual(none);
  underway.clear();
  cluster.now -= 1;
  write(["kubernetes-internal"]);
  expect(excused()).toEqual(ofPublic);
});

test("a write into the pools supersedes one that lasts, and not one that has ended", async () => {
  await using scene = await start();
  const { cluster, underway, write, excused } = scene;
  cluster.deleteNode("vm-0");
  write();
  write(["kubernetes", "kubernetes-internal"]);
  expect(excused()).toEqual(none);
  write(["kubernetes"]);
  underway.clear();
  write(["kubernetes-internal"]);
  expect(excused()).toEqual(both);
  underway.clear();
  cluster.now += 9 * minuteMs;
  write(["kubernetes", "kubernetes-internal"]);
  underway.clear();
  expect(excused()).toEqual(both);
  cluster.now += minuteMs + 1;
  expect(excused()).toEqual(none);
});

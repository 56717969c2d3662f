import { expect, setDefaultTimeout, test } from "bun:test";

import {
  annotations,
  forEachConcurrently,
  isUninitialized,
  kinds,
  labels,
  type Node,
  type Service,
  taints,
} from "cloud-controller-host/sdk";

import { freshNode } from "../../host/sandbox/kubelet.ts";
import { createNode } from "../kit/azure.ts";
import { serveCloud, type ServedCloud } from "../kit/cloud-server.ts";
import { startControllers } from "../kit/controllers-host.ts";
import type { HostProcess } from "../kit/host-process.ts";
import { HostLab } from "../kit/host-under-test.ts";
import { getNode, joinNode, nodeName } from "../kit/kubelet.ts";
import { describeOnReal } from "../kit/platform.ts";
import { addressesOf, balancedService, deleteService } from "../kit/services.ts";

setDefaultTimeout(180_000);

/** What the API server takes at most: annotations have 256 KiB together, other fields what fits into a request. */
const most = 250 * 1024;
const long = (length: number): string => "x".repeat(length);

interface Odd {
  readonly name: string;
  readonly meta?: NonNullable<Node["metadata"]>;
  readonly spec?: NonNullable<Node["spec"]>;
  readonly status?: NonNullable<Node["status"]>;
  /** What becomes of it; default: it is initialized like any other. */
  readonly stays?: "uninitialized";
}

const withProviderID = (name: string, providerID: string): Odd => ({ name, spec: { providerID } });
const withPodCIDRs = (name: string, ...podCIDRs: readonly string[]): Odd => ({ name, spec: { podCIDRs } });

/** All that a real API server accepts. The names too: some of them are properties of every JavaScript object. */
const oddNodes: readonly Odd[] = [
  { name: long(253) },
  { name: "1.2.3.4" },
  { name: "constructor", meta: { labels: { constructor: "a", toString: "b", hasOwnProperty: "c", valueOf: "d" } } },
  { name: "much-annotated", meta: { annotations: { "example.com/much": long(most) } } },
  { name: "odd-node-ip", meta: { annotations: { [annotations.providedNodeIP]: "not-an-ip" } }, stays: "uninitialized" },
  { name: "odd-exclusion", meta: { labels: { [labels.excludeFromLoadBalancers]: "maybe" } } },
  { name: "odd-taints", spec: { taints: [{ key: taints.uninitialized, effect: "NoExecute", value: "false" }] } },
  withProviderID("provider-word", "garbage"),
  withProviderID("provider-empty", "azure://"),
  withProviderID("provider-of-another", "test-cloud://node-1"),
  withProviderID("provider-path", "azure:///subscriptions/../../../etc/passwd"),
  withProviderID("provider-control", 'a\u0000b\nE1120 00:00:00.000000 1 forged] "line"'),
  withProviderID("provider-escapes", "azure://%00%zz/💥"),
  withProviderID("provider-long", `azure://${long(most)}`),
  withPodCIDRs("cidr-everything", "0.0.0.0/0"),
  withPodCIDRs("cidr-whole-range", "10.244.0.0/16"),
  withPodCIDRs("cidr-elsewhere", "192.168.0.0/24"),
  withPodCIDRs("cidr-one-address", "10.244.9.0/32"),
  withPodCIDRs("cidr-other-family", "FD00:0:0::/64"),
  withPodCIDRs("cidr-twice-1", "10.244.7.0/24"),
  withPodCIDRs("cidr-twice-2", "10.244.7.0/24"),
  {
    name: "odd-status",
    status: {
      addresses: [
        { type: "InternalIP", address: "not-an-ip" },
        { type: "", address: "" },
        { type: "Odd", address: long(most) },
      ],
      conditions: [{ type: "Ready", status: "Maybe" }],
    },
  },
];

const oddServices: readonly Service[] = [
  balancedService("constructor"),
  balancedService(long(63)),
  balancedService("1digit"),
  balancedService("odd-address", { loadBalancerIP: "not-an-ip" }),
  balancedService("many-ports", {
    allocateLoadBalancerNodePorts: false,
    ports: Array.from({ length: 1000 }, (_, index) => ({ name: `p${index}`, port: index + 1 })),
  }),
  annotated("much-annotated", { "example.com/much": long(most) }),
  annotated("odd-keys", { constructor: "a", toString: "b" }),
];

function annotated(name: string, more: Readonly<Record<string, string>>): Service {
  return { ...balancedService(name), metadata: { name, namespace: "default", annotations: more } };
}

describeOnReal("objects that are odd, and yet accepted", (platform) => {
  const lab = new HostLab(platform);

  const join = async ({ memory }: ServedCloud, { name, meta, spec, status }: Odd): Promise<void> => {
    const fresh = freshNode("", new Date());
    memory.machines.set(name, { instanceType: "large", region: "north", zone: "north-1" });
    await createNode(platform().admin, {
      ...fresh,
      metadata: { name, ...meta },
      spec: { ...fresh.spec, ...spec },
      ...(status === undefined ? {} : { status: { ...fresh.status, ...status } }),
    });
  };

  const isReachable = ({ status }: Node): boolean =>
    status?.conditions?.some(({ reason }) => reason === "RouteCreated") === true;

  async function allIsWell(host: HostProcess, { memory }: ServedCloud, good: readonly string[]): Promise<void> {
    const services = oddServices.length + good.length;
    await host.eventually("each Service has a load balancer and its address", async () => {
      const all = await platform().admin.list(kinds.Service, { namespace: "default" });
      return (
        memory.balancers.size === services && all.filter((each) => addressesOf(each).length === 1).length === services
      );
    });
    await host.eventually("each good node has all that it is owed", async () => {
      const nodes = await Promise.all(good.map((name) => getNode(platform().admin, name)));
      return nodes.every((node) => !isUninitialized(node) && node.spec?.podCIDR !== undefined && isReachable(node));
    });
    await host.eventually("each odd node is initialized that can be", async () => {
      const nodes = await Promise.all(oddNodes.map(({ name }) => getNode(platform().admin, name)));
      return nodes.every((node, index) => isUninitialized(node) === (oddNodes[index]?.stays === "uninitialized"));
    });
  }

  test("objects that are odd, and yet accepted, disturb no others, whether they existed before the host or appear while it runs", async () => {
    const cloud = lab.use(await serveCloud());
    const { admin } = platform();
    for (const odd of oddNodes.slice(0, 10)) await join(cloud, odd);
    for (const service of oddServices.slice(0, 3)) await admin.create(kinds.Service, service);
    const host = await startControllers(lab, platform(), cloud);
    await host.until("it runs", ({ running }) => running);
    for (const odd of oddNodes.slice(10)) await join(cloud, odd);
    for (const service of oddServices.slice(3)) await admin.create(kinds.Service, service);
    const good = Array.from({ length: 20 }, (_, index) => nodeName(index + 1));
    await forEachConcurrently({ workers: 8 }, good, async (name) => {
      await joinNode(admin, cloud.memory, name);
      await admin.create(kinds.Service, balancedService(name));
    });
    await allIsWell(host, cloud, good);

    const specs = new Map((await admin.list(kinds.Node)).map(({ metadata, spec }) => [metadata?.name, spec]));
    for (const { name, spec } of oddNodes) expect(specs.get(name)).toMatchObject(lasting(spec));
    // Its own CIDR for each good node, and none that overlaps what an odd one has.
    const given = good.map((name) => specs.get(name)?.podCIDR ?? "");
    expect(given.filter((cidr) => !/^10\.244\.\d+\.0\/24$/.test(cidr))).toEqual([]);
    expect(new Set([...given, "10.244.7.0/24", "10.244.9.0/24"]).size).toBe(good.length + 2);

    for (const { metadata } of oddServices) await deleteService(admin, metadata?.name ?? "");
    await host.eventually("the odd Services are gone, with their load balancers", async () => {
      const left = await admin.list(kinds.Service, { namespace: "default" });
      const balanced = left.filter(({ spec }) => spec?.type === "LoadBalancer");
      return balanced.length === good.length && cloud.memory.balancers.size === good.length;
    });

    expect(await host.status()).toMatchObject({ generation: 1, running: true });
    expect((await host.get("/healthz")).status).toBe(200);
    const lines = host.lines("");
    expect(lines.filter((line) => line.startsWith("E") && !line.includes('node="odd-node-ip"'))).toEqual([]);
    expect(lines.filter((line) => line.startsWith("W") && !/ (?:node|object)="cidr-/u.test(line))).toEqual([]);
    expect(lines.some((line) => line.includes("forged] "))).toBe(true);
    expect(Math.max(...lines.map(({ length }) => length))).toBeLessThan(40_000);
  });
});

/** Fields that must not change: a provider ID, and CIDRs as the API server writes them. */
const lasting = ({ providerID, podCIDRs }: NonNullable<Node["spec"]> = {}): object => ({
  ...(providerID === undefined ? {} : { providerID }),
  ...(podCIDRs === undefined ? {} : { podCIDRs }),
});

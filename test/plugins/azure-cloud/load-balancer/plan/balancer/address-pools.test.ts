import { describe, expect, test } from "bun:test";

import type { LoadBalancerBackendAddress } from "@azure/arm-network";

import type { NodeDrain } from "../../../../../../plugins/azure-cloud/load-balancer/model/drain.ts";
import { virtualNetworkId } from "../../../../../../plugins/azure-cloud/load-balancer/model/ids.ts";
import type { Observed } from "../../../../../../plugins/azure-cloud/load-balancer/model/model.ts";
import { withAddresses } from "../../../../../../plugins/azure-cloud/load-balancer/plan/balancer/address-pools.ts";
import {
  type DrainingAddress,
  placeKey,
} from "../../../../../../plugins/azure-cloud/load-balancer/plan/balancer/drain-places.ts";
import { plan } from "../../../../../../plugins/azure-cloud/load-balancer/plan/plan.ts";
import { intentOf, plannerConfigOf, type ServiceShape } from "../../fixtures.ts";
import { converge, nodesNamed, world } from "../../world.ts";

const nodeIP = { loadBalancerBackendPoolConfigurationType: "nodeIP" };
const nodes = nodesNamed("node-0", "node-1");
const drained = (elapsedMs: number): NodeDrain => ({ cause: "taint", record: "down", elapsedMs });

interface Case {
  readonly wanted: readonly string[];
  readonly keys?: object;
  readonly shapes?: readonly ServiceShape[];
  /** The address of `node-0` is not in the pool. */
  readonly isAbsent?: boolean;
  /** Nodes with a sign that they are about to leave. */
  readonly leaving?: readonly string[];
}

/** Members after a plan: both nodes are in the pool, and `node-0` is down in it. */
function membersAfter(
  drain: NodeDrain,
  { wanted, keys = {}, shapes = [{}], isAbsent = false, leaving = ["node-0"] }: Case,
): readonly (string | undefined)[] {
  const config = plannerConfigOf({ ...nodeIP, ...keys });
  const intents = (names: readonly string[]) =>
    shapes.map((shape) =>
      intentOf({ ...shape, nodes: nodes.filter(({ metadata }) => names.includes(metadata?.name ?? "")) }),
    );
  const services = intents([]).map(({ service }) => service);
  const { observed } = converge(intents(["node-0", "node-1"]), world({ services, nodes }), config);
  const loadBalancers = observed.loadBalancers.map((balancer) => ({
    ...balancer,
    backendAddressPools: (balancer.backendAddressPools ?? []).map((pool) => ({
      ...pool,
      loadBalancerBackendAddresses: (pool.loadBalancerBackendAddresses ?? []).flatMap((address) => {
        if (address.name !== "node-0") return [address];
        return isAbsent ? [] : [{ ...address, adminState: "Down" as const }];
      }),
    })),
  }));
  const known = nodes.map((node) =>
    leaving.includes(node.metadata?.name ?? "")
      ? { ...node, spec: { taints: [{ key: "ToBeDeletedByClusterAutoscaler", effect: "NoSchedule" as const }] } }
      : node,
  );
  const now: Observed = { ...observed, nodes: known, loadBalancers, drains: new Map([["node-0", drain]]) };
  const [write] = plan(intents(wanted), now, config).stages.flatMap((stage) => stage.writes);
  const body = write?.kind === "put-load-balancer" ? write.body : loadBalancers[0];
  return (body?.backendAddressPools?.[0]?.loadBalancerBackendAddresses ?? []).map(({ name }) => name);
}

describe("a pool of node addresses, of which one is drained", () => {
  const seconds = { loadBalancerDrainTimeInSeconds: 600 };

  test("loses the address after the drain time", () => {
    expect(membersAfter(drained(599_999), { wanted: ["node-1"], keys: seconds })).toEqual(["node-0", "node-1"]);
    expect(membersAfter(drained(600_000), { wanted: ["node-1"], keys: seconds })).toEqual(["node-1"]);
  });

  test("is written where only the state of the address changes", () => {
    const config = plannerConfigOf({ ...nodeIP, ...seconds });
    const intents = [intentOf({ nodes })];
    const { observed } = converge(intents, world({ services: intents.map(({ service }) => service), nodes }), config);
    const now: Observed = { ...observed, drains: new Map([["node-0", { ...drained(0), record: "requested" }]]) };
    const [write] = plan([intentOf({ nodes: nodes.slice(1) })], now, config).stages.flatMap((stage) => stage.writes);
    const [pool] = (write?.kind === "put-load-balancer" ? write.body.backendAddressPools : undefined) ?? [];
    const states = pool?.loadBalancerBackendAddresses?.map(({ name, adminState }) => `${name} ${adminState}`);
    expect(states).toEqual(["node-0 Down", "node-1 undefined"]);
  });

  test("puts the address of a node up again that does not leave after all, and joins it again if it had left", () => {
    const config = plannerConfigOf({ ...nodeIP, ...seconds });
    const intents = [intentOf({ nodes })];
    const { observed } = converge(intents, world({ services: intents.map(({ service }) => service), nodes }), config);
    const statesAfter = (adminState: string | undefined): readonly string[] => {
      const loadBalancers = observed.loadBalancers.map((balancer) => ({
        ...balancer,
        backendAddressPools: (balancer.backendAddressPools ?? []).map((pool) => ({
          ...pool,
          loadBalancerBackendAddresses: (pool.loadBalancerBackendAddresses ?? []).flatMap((address) =>
            address.name !== "node-0" ? [address] : adminState === undefined ? [] : [{ ...address, adminState }],
          ),
        })),
      }));
      const drain: NodeDrain = { cause: undefined, record: "down", elapsedMs: 0 };
      const now: Observed = { ...observed, loadBalancers, drains: new Map([["node-0", drain]]) };
      const [write] = plan(intents, now, config).stages.flatMap((stage) => stage.writes);
      const [pool] = (write?.kind === "put-load-balancer" ? write.body.backendAddressPools : undefined) ?? [];
      return (pool?.loadBalancerBackendAddresses ?? []).map((one) => `${one.name} ${one.adminState}`).toSorted();
    };
    expect(statesAfter("Down")).toEqual(["node-0 None", "node-1 undefined"]);
    expect(statesAfter(undefined)).toEqual(["node-0 undefined", "node-1 undefined"]);
  });

  test("is not joined again by a node that is about to leave, and is without a drain time", () => {
    const wanted = ["node-0", "node-1"];
    expect(membersAfter(drained(0), { wanted, keys: seconds, isAbsent: true })).toEqual(["node-1"]);
    expect(new Set(membersAfter(drained(0), { wanted, isAbsent: true }))).toEqual(new Set(wanted));
  });

  test("is never emptied, although the sync of nodes has left out all others", () => {
    const both = ["node-0", "node-1"];
    const found = { wanted: ["node-0"], keys: seconds, isAbsent: true, leaving: both };
    expect(membersAfter(drained(600_000), found)).toEqual(["node-1"]);
  });

  test("loses no other address where the sync of nodes has left out all", () => {
    const pool = {
      loadBalancerBackendAddresses: ["10.240.0.4", "10.240.0.5"].map((ipAddress) => ({ name: ipAddress, ipAddress })),
    };
    const place = { balancer: "/lb", isDown: false, hasOthers: true, isLocal: false, drainMs: 600_000 };
    const addresses = new Map([[placeKey("/pool", "10.240.0.4"), { node: "node-0", drain: drained(0), place }]]);
    const wanted = { nodes: [], pool: { family: "IPv4", local: false }, id: "/pool" } as const;
    const draining = { addresses, leaving: new Map<string, ReadonlySet<string>>() };
    expect(withAddresses(pool, { ...wanted, draining }, plannerConfigOf(nodeIP))).toBe(pool);
  });

  test("puts an address up again where no time is configured any more and its node is to stay", () => {
    const address = { name: "node-0", ipAddress: "10.240.0.4", adminState: "Down" } as const;
    const place = { balancer: "/lb", isDown: true, hasOthers: true, isLocal: false, drainMs: 0 };
    const addresses = new Map([[placeKey("/pool", "10.240.0.4"), { node: "node-0", drain: drained(0), place }]]);
    const wanted = { nodes: nodes.slice(0, 1), pool: { family: "IPv4", local: false }, id: "/pool" } as const;
    const after = withAddresses(
      { loadBalancerBackendAddresses: [address] },
      { ...wanted, draining: { addresses, leaving: new Map() } },
      plannerConfigOf(nodeIP),
    );
    expect(after.loadBalancerBackendAddresses?.map(({ adminState }) => adminState)).toEqual(["None"]);
  });

  test("loses the address at once where no time is configured any more", () => {
    expect(membersAfter(drained(0), { wanted: ["node-1"] })).toEqual(["node-1"]);
  });

  test("keeps it for the longest time of its Services", () => {
    const shape = (name: string, time: string): ServiceShape => ({
      name,
      uid: `${name}0000000`,
      spec: { ports: [{ name: "http", protocol: "TCP", port: 80, nodePort: 30080 + name.length }] },
      annotations: { "azure-load-balancer-drain-seconds": time },
    });
    const shapes = [shape("long", "3600"), shape("short", "60")];
    for (const order of [shapes, shapes.toReversed()])
      expect(membersAfter(drained(3_599_999), { wanted: ["node-1"], shapes: order })).toEqual(["node-0", "node-1"]);
    expect(membersAfter(drained(3_600_000), { wanted: ["node-1"], shapes })).toEqual(["node-1"]);
  });
});

test("a pool without a node is emptied if it is that of one local Service, and kept otherwise", () => {
  const pool = { loadBalancerBackendAddresses: [{ name: "node-0", ipAddress: "10.240.0.4" }] };
  const draining = { addresses: new Map(), leaving: new Map() };
  const after = (local: boolean) =>
    withAddresses(pool, { nodes: [], pool: { family: "IPv4", local }, id: "", draining }, plannerConfigOf());
  expect(after(true).loadBalancerBackendAddresses).toEqual([]);
  expect(after(false)).toBe(pool);
});

describe("a pool of addresses that other nodes have by now", () => {
  const none = { addresses: new Map<string, DrainingAddress>(), leaving: new Map<string, ReadonlySet<string>>() };
  const nodeAt = (name: string, ip: string) => ({
    metadata: { name },
    status: { addresses: [{ type: "InternalIP", address: ip }] },
  });
  const present = { b: "10.240.0.5", a: "10.240.0.4" };
  const after = (
    now: Readonly<Record<string, string>>,
    draining = none,
    before: Readonly<Record<string, string>> = present,
  ) => {
    const pool = {
      loadBalancerBackendAddresses: Object.entries(before).map(([name, ipAddress]) => ({ name, ipAddress })),
    };
    const wanted = { nodes: Object.entries(now).map(([name, ip]) => nodeAt(name, ip)), id: "/pool", draining };
    const next = withAddresses(pool, { ...wanted, pool: { family: "IPv4", local: false } }, plannerConfigOf());
    return (next.loadBalancerBackendAddresses ?? []).map(({ name, ipAddress }) => `${name} ${ipAddress}`);
  };

  test("keeps their names as long as no other node needs one: an address counts, whatever its name", () => {
    expect(after({ a: "10.240.0.5", b: "10.240.0.4" })).toEqual(["b 10.240.0.5", "a 10.240.0.4"]);
    expect(after({ c: "10.240.0.5", a: "10.240.0.4", d: "10.240.0.6" })).toEqual([
      "b 10.240.0.5",
      "a 10.240.0.4",
      "d 10.240.0.6",
    ]);
  });

  test("names each after its node where a name is needed: ARM refuses a pool with two entries of one name", () => {
    expect(after({ a: "10.240.0.5", b: "10.240.0.6" })).toEqual(["a 10.240.0.5", "b 10.240.0.6"]);
    expect(after({ a: "10.240.0.5", b: "10.240.0.6" }, none, { B: "10.240.0.5" })).toEqual([
      "a 10.240.0.5",
      "b 10.240.0.6",
    ]);
    expect(after({ a: "10.240.0.5", b: "10.240.0.6", c: "10.240.0.4" })).toEqual([
      "a 10.240.0.5",
      "c 10.240.0.4",
      "b 10.240.0.6",
    ]);
  });

  test("names one after a node that drains", () => {
    const place = { balancer: "/lb", isDown: true, hasOthers: true, isLocal: false, drainMs: 600_000 };
    const draining = new Map([[placeKey("/pool", "10.240.0.5"), { node: "c", drain: drained(0), place }]]);
    expect(after({ a: "10.240.0.4", b: "10.240.0.6" }, { ...none, addresses: draining })).toEqual([
      "c 10.240.0.5",
      "a 10.240.0.4",
      "b 10.240.0.6",
    ]);
  });
});

describe("a pool that a plan has left as it is", () => {
  const config = plannerConfigOf(nodeIP);
  const named = nodesNamed("node-0", "node-1");
  const [address = "", other = ""] = named.map((node) => node.status?.addresses?.[0]?.address);
  const nothing = { addresses: new Map(), leaving: new Map() };
  const poolOf = (addresses: readonly LoadBalancerBackendAddress[], id = virtualNetworkId(config)) => ({
    name: "kubernetes",
    virtualNetwork: { id },
    loadBalancerBackendAddresses: [...addresses],
  });
  const place = { balancer: "/lb", isDown: true, hasOthers: true, isLocal: false, drainMs: 600_000 };
  const draining = new Map([[placeKey("/pool", other), { node: "node-1", drain: drained(0), place }]]);

  test.each([
    [
      "gets a node that was about to leave",
      { pool: poolOf([{ name: "node-0", ipAddress: address }]), list: named },
      { ...nothing, leaving: new Map([["/pool", new Set(["node-1"])]]) },
      [address, other],
    ],
    [
      "loses a node that was drained",
      {
        pool: poolOf([
          { name: "node-0", ipAddress: address },
          { name: "node-1", ipAddress: other, adminState: "Down" },
        ]),
        list: named.slice(0, 1),
      },
      { ...nothing, addresses: draining },
      [address],
    ],
    [
      "loses all where it is the pool of one local Service by now",
      { pool: poolOf([{ name: "node-0", ipAddress: address }]), list: [] },
      nothing,
      [],
    ],
  ])("%s", (_change, { pool, list: of }, before, after) => {
    const wanted = { nodes: of, pool: { family: "IPv4", local: false }, id: "/pool", draining: before } as const;
    expect(withAddresses(pool, wanted, config)).toBe(pool);
    const now = { ...wanted, pool: { family: "IPv4", local: of.length === 0 }, draining: nothing } as const;
    const addresses = withAddresses(pool, now, config).loadBalancerBackendAddresses;
    expect(addresses?.map(({ ipAddress }) => ipAddress)).toEqual(after);
  });

  test("shows the address of a node as down that drains by now", () => {
    const pool = poolOf([
      { name: "node-0", ipAddress: address },
      { name: "node-1", ipAddress: other },
    ]);
    const wanted = { nodes: named, pool: { family: "IPv4", local: false }, id: "/pool" } as const;
    expect(withAddresses(pool, { ...wanted, draining: nothing }, config)).toBe(pool);
    const drain = { ...drained(0), record: "requested" } as const;
    const addresses = new Map([
      [placeKey("/pool", other), { node: "node-1", drain, place: { ...place, isDown: false } }],
    ]);
    const after = withAddresses(pool, { ...wanted, draining: { ...nothing, addresses } }, config);
    expect(after.loadBalancerBackendAddresses?.map(({ adminState }) => adminState)).toEqual([undefined, "Down"]);
  });

  test("has its network, which an address of it has as well, on the pool alone", () => {
    const virtualNetwork = { id: virtualNetworkId(config) };
    const pool = poolOf([{ name: "node-0", ipAddress: address, virtualNetwork }]);
    const wanted = { nodes: named.slice(0, 1), pool: { family: "IPv4", local: false }, id: "/pool" } as const;
    const after = withAddresses(pool, { ...wanted, draining: nothing }, config);
    expect(after).toEqual(poolOf([{ name: "node-0", ipAddress: address }]));
  });

  test("gets the network of the config, however often it was planned", () => {
    const pool = poolOf([{ name: "node-0", ipAddress: address }], "/virtualNetworks/former");
    const wanted = {
      nodes: named.slice(0, 1),
      pool: { family: "IPv4", local: false },
      id: "/pool",
      draining: nothing,
    } as const;
    for (let plans = 0; plans < 2; plans += 1)
      expect(withAddresses(pool, wanted, config).virtualNetwork).toEqual({ id: virtualNetworkId(config) });
  });
});

test("a pool has the nodes of all Services that use it, each once", () => {
  const config = plannerConfigOf(nodeIP);
  const port = { name: "https", protocol: "TCP", port: 443, nodePort: 30443 };
  const intents = [
    intentOf({ name: "web", nodes: nodesNamed("node-0", "node-1") }),
    intentOf({
      name: "other",
      nodes: [...nodes.slice(1), ...nodesNamed("", "", "node-2").slice(2)],
      spec: { ports: [port] },
    }),
  ];
  const { observed } = converge(intents, world({ services: intents.map(({ service }) => service), nodes }), config);
  const [pool] = observed.loadBalancers.flatMap(({ backendAddressPools = [] }) => backendAddressPools);
  const names = (pool?.loadBalancerBackendAddresses ?? []).map(({ name = "" }) => name);
  expect(names.toSorted()).toEqual(["node-0", "node-1", "node-2"]);
});

test("a pool of addresses has a node of another resource group, but none that is unmanaged", () => {
  const labeled = (label: string, value: string) =>
    nodes.map((node, at) =>
      at === 1 ? { ...node, metadata: { ...node.metadata, labels: { [label]: value } } } : node,
    );
  const membersWith = (list: typeof nodes) => {
    const intent = intentOf({ nodes: list });
    const { observed } = converge(
      [intent],
      world({ services: [intent.service], nodes: list }),
      plannerConfigOf(nodeIP),
    );
    const [pool] = observed.loadBalancers.flatMap(({ backendAddressPools = [] }) => backendAddressPools);
    return (pool?.loadBalancerBackendAddresses ?? []).map(({ name }) => name);
  };
  expect(membersWith(labeled("kubernetes.azure.com/resource-group", "other"))).toEqual(["node-0", "node-1"]);
  expect(membersWith(labeled("kubernetes.azure.com/managed", "false"))).toEqual(["node-0"]);
});

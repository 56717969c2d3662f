import { describe, expect, test } from "bun:test";

import type { LoadBalancer } from "@azure/arm-network";

import { plan } from "../../../../../plugins/azure-cloud/load-balancer/plan/plan.ts";
import { changesOf, contentsOf } from "../../../../../plugins/azure-cloud/load-balancer/removals/contents.ts";
import { ownersOf } from "../../../../../plugins/azure-cloud/load-balancer/removals/owners.ts";
import { itemKey, kindOf, nameOf, type Owner } from "../../../../../plugins/azure-cloud/removal-guard/items.ts";
import { intentOf, plannerConfigOf } from "../fixtures.ts";
import { converge, nodesNamed, world } from "../world.ts";

const config = plannerConfigOf();
const textOf = (owner: Owner): string => (owner.kind === "endpoint" ? `${owner.service} ${owner.node}` : owner.name);

test("the deletion of a Service removes its parts, its public IP and its private link service, and nothing of the others", () => {
  const [web, other] = ["a".repeat(32), "b".repeat(32)].map((uid, index) => {
    const annotations = { "azure-pls-create": "true", "azure-disable-load-balancer-floating-ip": "true" };
    const spec = { ports: [{ name: "p", protocol: "TCP", port: 80 + index, nodePort: 30_080 + index }] };
    return intentOf({ name: `web-${index}`, uid, annotations, spec, nodes: nodesNamed("node-0") });
  });
  if (web === undefined || other === undefined) throw new Error("two Services are needed");
  const { observed } = converge([web, other], world(), config);
  const batch = [{ ...web, action: "delete" as const }];
  const state = { ...observed, services: [other.service] };
  const changes = changesOf(plan(batch, state, config), {
    observed: state,
    owners: ownersOf(batch, state, config),
    isFree: () => true,
  });
  const removed = changes.flatMap(({ before, after }) => {
    const left = new Set(after.map(itemKey));
    return before
      .filter((item) => !left.has(itemKey(item)))
      .map((item) => [kindOf(item), ...item.owners.map(textOf)].join(" "));
  });
  expect(removed.toSorted()).toEqual([
    "frontend addresses default/web-0",
    "frontends default/web-0",
    "private link services default/web-0",
    "probes default/web-0",
    "public IPs default/web-0",
    "rules default/web-0",
    "security rules",
    "security rules",
  ]);
});

test("a security rule for the address of a Service is that Service's, whatever node ports others use", () => {
  const annotations = { "azure-disable-load-balancer-floating-ip": "true" };
  const nodePort = intentOf({ name: "node-port", annotations, nodes: nodesNamed("node-0") });
  const web = intentOf({ nodes: nodesNamed("node-0") });
  const { observed, last } = converge([web], world(), config);
  const ingress = (last.results.get("default/web")?.status?.ingress ?? []).flatMap(({ ip = [] }) => ip);
  const state = { ...observed, services: [intentOf({ ingress }).service, nodePort.service] };
  const [items] = contentsOf({ ...state, loadBalancers: [] }, ownersOf([], state, config));
  expect(items?.items.map((item) => [nameOf(item), item.owners, item.services])).toEqual([
    [`${ingress[0]} tcp 80`, [{ kind: "Service", name: "default/web" }], ["default/web"]],
  ]);
});

test.each([
  ["is its node's while a Service opens the node port there", {}, ["node-0", "node-0"]],
  ["has no owner where the Service has no security rules", { "azure-disable-load-balancer-nsg-rule": "true" }, []],
  ["has no owner where an internal Service allows no sources", { "azure-load-balancer-internal": "true" }, []],
  ["is its node's in the family of the sources", { "azure-allowed-ip-ranges": "10.0.0.0/8" }, ["node-0"]],
] as const)("an opening on the address of a node %s", (_title, now, expected) => {
  const direct = { "azure-disable-load-balancer-floating-ip": "true" };
  const before = intentOf({ annotations: direct, nodes: nodesNamed("node-0") });
  const start = world({ nodes: nodesNamed("node-0"), services: [before.service] });
  const { securityGroup } = converge([before], start, config).observed;
  const services = [intentOf({ annotations: { ...direct, ...now } }).service];
  const rules = securityGroup?.securityRules?.map((rule) => ({
    ...rule,
    ...(rule.name?.startsWith("k8s-azure-lb") && {
      destinationAddressPrefix: "",
      destinationAddressPrefixes: ["10.240.0.4", "fd00::4"],
    }),
  }));
  const found = { ...start, services, securityGroup: { ...securityGroup, securityRules: rules ?? [] } };
  const [items] = contentsOf(found, ownersOf([], found, config));
  expect(items?.items.flatMap(({ owners }) => owners.map(textOf))).toEqual([...expected]);
});

test("a member of a pool is its node's, in a Service's own pool its endpoint's, and without a node without an owner", () => {
  const id =
    "/subscriptions/sub0/resourceGroups/rg0/providers/Microsoft.Network/loadBalancers/lb/backendAddressPools/p";
  const [known, unknown] = ["node-0", undefined].map((node) => {
    return { ipConfigurationId: `/nic/${node}`, node, gone: node === undefined, complete: true };
  });
  if (known === undefined || unknown === undefined) throw new Error("two members are needed");
  const { service } = intentOf({});
  const state = { ...world(), services: [service], poolMembers: new Map([[id.toLowerCase(), [known, unknown]]]) };
  const ownersIn = (name: string) => {
    const leave = [known.ipConfigurationId, unknown.ipConfigurationId];
    const target = { id, resourceGroup: "rg0", name, services: ["default/web"], loadBalancer: "lb" };
    const write = { ...target, kind: "update-members", family: "IPv4", join: [], leave } as const;
    const changes = changesOf(
      { stages: [{ name: "members", writes: [write] }], results: new Map(), nodeEvents: new Map() },
      { observed: state, owners: ownersOf([], state, config), isFree: () => true },
    );
    return changes.flatMap(({ before }) => before.map(({ owners }) => owners));
  };
  expect(ownersIn("kubernetes")).toEqual([[{ kind: "Node", name: "node-0" }], []]);
  expect(ownersIn("default-web")).toEqual([[{ kind: "endpoint", service: "default/web", node: "node-0" }], []]);
  expect(ownersIn("Default-Web")).toEqual([[{ kind: "endpoint", service: "default/web", node: "node-0" }], []]);
});

describe("a member that leaves the pool of a load balancer", () => {
  const id = "/subscriptions/sub0/resourceGroups/rg0/providers/Microsoft.Network/loadBalancers/kubernetes";
  const pool = { id: `${id}/backendAddressPools/Kubernetes` };
  const other = { id: `${id}/backendAddressPools/other` };
  const addresses = { loadBalancerBackendAddresses: [{ ipAddress: "10.0.0.4" }] };
  const observed = {
    ...world(),
    loadBalancers: [{ id, name: "kubernetes", backendAddressPools: [{ name: "kubernetes", ...addresses }] }],
  };

  test.each<[string, boolean, LoadBalancer]>([
    ["nothing uses the pool any more", true, {}],
    ["only another pool is used", true, { loadBalancingRules: [{ backendAddressPool: other }] }],
    ["a rule uses the pool", false, { loadBalancingRules: [{ backendAddressPool: pool }] }],
    ["a rule for all ports uses the pool", false, { loadBalancingRules: [{ backendAddressPools: [pool] }] }],
    ["an outbound rule uses the pool", false, { outboundRules: [{ protocol: "All", backendAddressPool: pool }] }],
  ])("counts only while something uses the pool: %s", (_, isIdle, body) => {
    const target = { id, resourceGroup: "rg0", name: "kubernetes", services: [] };
    const writes = [{ kind: "put-load-balancer", ...target, body }] as const;
    const [change] = changesOf(
      { stages: [{ name: "load-balancers", writes: [...writes] }], results: new Map(), nodeEvents: new Map() },
      { observed, owners: ownersOf([], observed, config), isFree: () => true },
    );
    expect(change?.before.map((item) => [kindOf(item), change.isIdle?.(item)])).toEqual([
      ["members of backend pool kubernetes", isIdle],
    ]);
  });
});

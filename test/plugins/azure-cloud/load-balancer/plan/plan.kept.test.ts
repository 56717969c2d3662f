import { expect, setDefaultTimeout, test } from "bun:test";

import type { SecurityRule } from "@azure/arm-network";
import type { Node } from "cloud-controller-host/sdk";
import * as fc from "fast-check";

import type { Observed, ServiceIntent } from "../../../../../plugins/azure-cloud/load-balancer/model/model.ts";
import { plan } from "../../../../../plugins/azure-cloud/load-balancer/plan/plan.ts";
import { applied } from "../applied.ts";
import { intentOf, plannerConfigOf } from "../fixtures.ts";
import { converge, nodesNamed, usersBalancer, world } from "../world.ts";

setDefaultTimeout(120_000);

const configs = [
  plannerConfigOf(),
  plannerConfigOf({ loadBalancerBackendPoolConfigurationType: "nodeIP", tags: "env=test" }),
  plannerConfigOf({ loadBalancerSku: "basic" }),
  plannerConfigOf({ clusterServiceLoadBalancerHealthProbeMode: "shared" }),
  plannerConfigOf({
    loadBalancerBackendPoolConfigurationType: "nodeIP",
    multipleStandardLoadBalancerConfigurations: [
      { name: "kubernetes", primaryVMSet: "vmss0" },
      { name: "second", primaryVMSet: "vmss1" },
    ],
  }),
];

const annotations = [
  {},
  { "azure-load-balancer-internal": "true" },
  { "azure-load-balancer-internal": "true", "azure-load-balancer-enable-high-availability-ports": "true" },
  { "azure-load-balancer-ipv4": "20.9.9.9" },
  { "azure-disable-load-balancer-floating-ip": "true" },
  { "azure-disable-load-balancer-floating-ip": "true", "azure-allowed-ip-ranges": "198.51.100.0/24" },
  { "azure-deny-all-except-load-balancer-source-ranges": "true", "azure-allowed-ip-ranges": "203.0.113.0/24" },
  { "azure-additional-public-ips": "198.51.100.8" },
  { "azure-load-balancer-tcp-idle-timeout": "3" },
  { "azure-disable-load-balancer-security-rules": "true" },
  { "azure-allowed-service-tags": "AzureCloud,Storage" },
];

const portLists = [["TCP 80"], ["TCP 80", "TCP 443"], ["UDP 53"], ["SCTP 80", "TCP 443"]].map((list) =>
  list.map((text) => {
    const [protocol = "", port = ""] = text.split(" ");
    return {
      name: text.toLowerCase().replace(" ", "-"),
      protocol,
      port: Number(port),
      nodePort: 30_000 + Number(port),
    };
  }),
);

const nodeLists = [nodesNamed("node-0", "node-1", "node-2"), nodesNamed("node-0"), nodesNamed("node-3", "node-0")];

/** What has changed since the plan before. */
const changes = fc.oneof(
  fc.record({ service: fc.nat(3), annotated: fc.constantFrom(...annotations), ports: fc.constantFrom(...portLists) }),
  fc.record({ deleted: fc.nat(3) }),
  fc.record({ nodes: fc.constantFrom(...nodeLists) }),
  fc.record({ config: fc.constantFrom(...configs) }),
  fc.record({ lost: fc.constantFrom("loadBalancingRules", "frontendIPConfigurations", "probes") }),
  fc.record({ rule: fc.nat(4), edit: fc.constantFrom("closed", "ports", "opened", "denied") }),
  fc.constant({ applied: true }),
  fc.constant({ applied: true }),
);

interface State {
  readonly intents: ReadonlyMap<string, ServiceIntent>;
  readonly nodes: readonly Node[];
  readonly config: (typeof configs)[number];
  readonly observed: Observed;
}

type Change = typeof changes extends fc.Arbitrary<infer T> ? T : never;

function after(state: State, change: Change): State {
  const { intents, observed } = state;
  if ("nodes" in change) return { ...state, nodes: change.nodes };
  if ("config" in change) return { ...state, config: change.config };
  if ("applied" in change) return synced(state);
  if ("lost" in change) {
    const loadBalancers = observed.loadBalancers.map((one) => ({ ...one, [change.lost]: one[change.lost]?.slice(1) }));
    return { ...state, observed: { ...observed, loadBalancers } };
  }
  if ("rule" in change) return { ...state, observed: withRuleEdited(observed, change) };
  const name = `web-${"service" in change ? change.service : change.deleted}`;
  const known = intents.get(name);
  if ("service" in change) {
    const made = intentOf({ name, uid: `uid-${name}`, annotations: change.annotated, spec: { ports: change.ports } });
    const service = { ...made.service, status: known?.service.status ?? {} };
    return { ...state, intents: new Map(intents).set(name, { ...made, service }) };
  }
  if (known === undefined) return state;
  return { ...state, intents: new Map(intents).set(name, { ...known, action: "delete" }) };
}

/** A person edits a rule of the security group, or adds one with the addresses of another. */
function withRuleEdited(observed: Observed, { rule: at, edit }: Extract<Change, { rule: number }>): Observed {
  const { securityRules = [] } = observed.securityGroup ?? {};
  const rule = securityRules[at % securityRules.length];
  const added = { priority: 600 + at, destinationPortRanges: ["8080"] };
  const edited: Readonly<Record<typeof edit, readonly SecurityRule[]>> = {
    closed: securityRules.filter((one) => one !== rule),
    ports: securityRules.map((one) => (one === rule ? { ...one, destinationPortRanges: ["9090"] } : one)),
    opened: [...securityRules, { ...rule, ...added, name: `k8s-azure-lb_allow_IPv4_${at}` }],
    denied: [...securityRules, { ...rule, ...added, name: "k8s-azure-lb_deny-all_IPv4", access: "Deny" }],
  };
  return { ...observed, securityGroup: { ...observed.securityGroup, securityRules: [...edited[edit]] } };
}

/** The plan is carried out, and Services have the status that it gave them. */
function synced(state: State): State {
  const input = inputOf(state);
  const planned = plan(...input);
  const intents = [...state.intents].map(([name, intent]) => {
    const loadBalancer = planned.results.get(`default/${name}`)?.status;
    const service = loadBalancer === undefined ? intent.service : { ...intent.service, status: { loadBalancer } };
    return [name, { ...intent, service }] as const;
  });
  return { ...state, intents: new Map(intents), observed: applied(input[1], planned) };
}

/** A Service that is being deleted is wanted by no list. */
function inputOf({ intents, nodes, config, observed }: State, only?: string): Parameters<typeof plan> {
  const all = [...intents.values()];
  const services = all.flatMap(({ service, action }) => (action === "delete" ? [] : [service]));
  const chosen = only === undefined ? all : all.filter(({ service }) => service.metadata?.name === only);
  return [chosen.map((intent) => ({ ...intent, nodes })), { ...observed, nodes, services }, config];
}

const start: State = {
  intents: new Map(),
  nodes: nodesNamed("node-0", "node-1"),
  config: plannerConfigOf(),
  observed: world({ loadBalancers: [usersBalancer("kubernetes")] }),
};

test("whatever plans came before, a plan equals that of objects which were never planned with", () => {
  fc.assert(
    fc.property(fc.array(changes, { minLength: 1, maxLength: 14 }), (list) => {
      let state = start;
      for (const change of list) {
        state = after(state, change);
        for (const only of [undefined, "web-0", "web-1"]) {
          const input = inputOf(state, only);
          expect(plan(...input)).toEqual(plan(...structuredClone(input)));
        }
      }
    }),
    { seed: 20_261_123, numRuns: 40 },
  );
});

/** What a security group with a rule for the third node opens once a Service without that port is planned. */
function openedWith(nodes: readonly Node[], kept: readonly ServiceIntent[]): readonly string[] {
  const web = intentOf({ name: "web", nodes });
  const group = world().securityGroup;
  const rule = {
    name: "k8s-azure-lb_allow_IPv4_0123456789abcdef0123456789abcdef",
    priority: 500,
    access: "Allow",
    direction: "Inbound",
    protocol: "Tcp",
    sourceAddressPrefix: "Internet",
    sourcePortRange: "*",
    destinationAddressPrefix: "10.240.0.6",
    destinationPortRanges: ["30080"],
  };
  const services = [web, ...kept].map(({ service }) => service);
  const observed = world({ nodes, services, securityGroup: { ...group, securityRules: [rule] } });
  const rules = converge([web], observed, plannerConfigOf()).observed.securityGroup?.securityRules ?? [];
  return rules.flatMap(({ destinationAddressPrefix }) => destinationAddressPrefix ?? []);
}

const three = nodesNamed("node-0", "node-1", "node-2");

test("a node that has joined since the plan before loses the rule of a node port that is not used any more", () => {
  expect(openedWith(three.slice(0, 1), [])).not.toContain("10.240.0.6");
  expect(openedWith(three, [])).not.toContain("10.240.0.6");
});

test("a node that has joined since the plan before keeps the rule of a Service that is not planned", () => {
  const kept = [intentOf({ name: "other", annotations: { "azure-disable-load-balancer-floating-ip": "true" } })];
  expect(openedWith(three.slice(0, 1), kept)).not.toContain("10.240.0.6");
  expect(openedWith(three, kept)).toContain("10.240.0.6");
});

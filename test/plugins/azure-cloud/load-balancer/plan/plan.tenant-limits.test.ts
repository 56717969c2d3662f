import { describe, expect, test } from "bun:test";
import { join } from "node:path";

import { plan } from "../../../../../plugins/azure-cloud/load-balancer/plan/plan.ts";
import { processorMs } from "../../../../kit/processor-time.ts";
import { intentOf, plannerConfigOf, type ServiceShape } from "../fixtures.ts";
import { converge, nodesNamed, world } from "../world.ts";
import { addressesOf, largest, portsOf, rangesOf, tagsOf } from "./largest-service.ts";

const config = plannerConfigOf({ loadBalancerBackendPoolConfigurationType: "nodeIP" });
const nodes = nodesNamed("node-0", "node-1");
const dual = { ipFamilies: ["IPv4", "IPv6"] };
const internal = { "azure-load-balancer-internal": "true" };
const tags = (count: number, more: Readonly<Record<string, string>> = {}) => ({
  annotations: { "azure-allowed-service-tags": tagsOf(count), ...more },
});
const additional = (count: number) => ({ "azure-additional-public-ips": addressesOf(count) });
const threeProtocols = { ports: portsOf(3, ["TCP", "UDP", "SCTP"]) };
const ranges = (count: number) => ({ spec: { loadBalancerSourceRanges: [...rangesOf(count)] } });
const twoProtocols = { ports: portsOf(2, ["TCP", "UDP"]) };

const planned = (shape: ServiceShape, observed = world({ nodes })) =>
  plan([intentOf({ nodes, ...shape })], observed, config);
const noRules = world({ nodes, securityGroup: { name: "nsg0" } });

describe("a Service that exceeds a limit of Azure by itself is refused before anything is built", () => {
  test.each<[title: string, largest: ServiceShape, tooLarge: ServiceShape, message: string]>([
    ["by ports", { spec: { ports: portsOf(1500) } }, { spec: { ports: portsOf(1501) } }, "1501 ports in 1 IP family"],
    [
      "by ports times IP families",
      { spec: { ...dual, ports: portsOf(750) } },
      { spec: { ...dual, ports: portsOf(751) } },
      "751 ports in 2 IP families need 1502 rules; a load balancer has 1500 at most",
    ],
    [
      "by service tags times protocols times IP families",
      { ...tags(166, internal), spec: { ...dual, ...threeProtocols } },
      { ...tags(167, internal), spec: { ...dual, ...threeProtocols } },
      "needs 1002 rules in the security group, which has 1000 at most; use fewer items in service.beta.kubernetes.io/azure-allowed-service-tags",
    ],
    [
      "by service tags times additional addresses",
      tags(40, additional(99)),
      tags(40, additional(100)),
      "needs 4040 destination prefixes in the security group, which has 4000 at most",
    ],
    [
      "by ranges times protocols",
      { spec: { ...ranges(2000).spec, ...twoProtocols } },
      { spec: { ...ranges(2001).spec, ...twoProtocols } },
      "needs 4002 source prefixes in the security group, which has 4000 at most; use fewer items in spec.loadBalancerSourceRanges",
    ],
    ["by ranges in its spec", ranges(4000), ranges(4001), "spec.loadBalancerSourceRanges has 4001 items"],
    [
      "by the rules that deny everything else",
      { ...ranges(3999), annotations: { "azure-deny-all-except-load-balancer-source-ranges": "true" } },
      { ...ranges(4000), annotations: { "azure-deny-all-except-load-balancer-source-ranges": "true" } },
      "needs 4001 source prefixes",
    ],
  ])("%s", (_title, allowed, refused, message) => {
    expect(planned(allowed, noRules).results.get("default/web")?.problem).toBeUndefined();
    const { stages, results } = planned(refused, noRules);
    const { problem } = results.get("default/web") ?? {};
    expect([stages, problem?.code, problem?.messages.join()]).toEqual([
      [],
      "InvalidService",
      expect.stringContaining(message),
    ]);
  });

  test("a Service that exceeds a limit of Azure by itself is refused before anything is built, and without security rules by its ports only", () => {
    const disabled = { "azure-disable-load-balancer-nsg-rule": "true" };
    expect(planned(tags(200, { ...disabled, ...additional(200) })).stages).not.toEqual([]);
  });

  test("a Service that exceeds a limit of Azure by itself is refused before anything is built, at no more cost than reading its annotations", () => {
    const shape = { ...tags(3000, additional(3000)), spec: { ports: portsOf(50_000, ["TCP", "UDP"]) } };
    const intents = Array.from({ length: 3 }, () => intentOf({ nodes, ...shape }));
    const times = intents.map((intent) =>
      processorMs(() => expect(plan([intent], noRules, config).stages).toEqual([])),
    );
    expect(Math.min(...times)).toBeLessThan(100);
  });
});

const numbered = (count: number, key: (index: number) => string): Readonly<Record<string, string>> =>
  Object.fromEntries(Array.from({ length: count }, (_, index) => [key(index), "1"]));
const items = (count: number, item: (index: number) => string): string =>
  Array.from({ length: count }, (_, index) => item(index)).join(",");

test.each<[string, maxMs: number, ServiceShape]>([
  ["a loadBalancerIP of 500 KB that begins like IPv6", 200, { spec: { loadBalancerIP: "1:".repeat(250_000) } }],
  [
    "thousands of annotations that are almost those of ports",
    200,
    {
      spec: { ports: portsOf(500) },
      annotations: numbered(3500, (index) => `port_${(index % 500) + 1}_health-probe_prob${index}`),
    },
  ],
  [
    "thousands of unknown annotations",
    200,
    { annotations: numbered(4500, (index) => `zzure-load-balancer-h${index}`) },
  ],
  ["thousands of tags", 50, { annotations: { "azure-pip-tags": items(3200, (index) => `${index.toString(36)}=`) } }],
])("planning a Service costs little processor time with %s", (_title, maxMs, shape) => {
  const times = Array.from({ length: 3 }, () => {
    const intent = intentOf({ nodes, ...shape });
    return processorMs(() => plan([intent], noRules, config));
  });
  expect(Math.min(...times)).toBeLessThan(maxMs);
});

test("a Service with more additional addresses than allowed keeps the rules that it has while others are planned", () => {
  const old = intentOf({
    name: "old",
    ingress: ["20.9.9.1", ...addressesOf(201).split(",")],
    annotations: additional(201),
  });
  const rule = {
    name: "k8s-azure-lb_allow_IPv4_x",
    priority: 500,
    access: "Allow",
    direction: "Inbound",
    protocol: "Tcp",
    destinationAddressPrefixes: ["20.9.9.1", ...addressesOf(201).split(",")],
    destinationPortRanges: ["80"],
  };
  const observed = world({
    nodes,
    services: [old.service],
    securityGroup: { name: "nsg0", securityRules: [rule] },
  });
  const { observed: after } = converge([intentOf({ nodes })], observed, config);
  expect(after.securityGroup?.securityRules).toContainEqual(rule);
  expect(after.securityGroup?.securityRules).toHaveLength(2);
});

test("sixty Services with the same additional addresses are planned in 150 ms of CPU time", () => {
  const intents = Array.from({ length: 60 }, (_, index) => {
    const ports = portsOf(20).map((port) => ({ ...port, port: port.port + 20 * index }));
    return intentOf({ name: `s${index}`, nodes, annotations: additional(60), spec: { ports } });
  });
  const { observed } = converge(intents, world({ nodes }), config);
  const times = [1, 2, 3].map(() => processorMs(() => expect(plan(intents, observed, config).stages).toEqual([])));
  expect(Math.min(...times)).toBeLessThan(150);
});

describe("the largest Service that is allowed is planned in 50 ms of CPU time and 50 MB", () => {
  test.each(Object.keys(largest))(
    "the largest Service that is allowed is planned in 50 ms of CPU time and 50 MB: %s",
    async (name) => {
      const child = Bun.spawn([process.execPath, join(import.meta.dir, "largest-service.ts"), name], {
        stdout: "pipe",
        stderr: "inherit",
      });
      const [output, code] = await Promise.all([child.stdout.text(), child.exited]);
      expect([name, code]).toEqual([name, 0]);
      const [cpuMs = Number.NaN, megabytes = Number.NaN] = output.split(" ").map(Number);
      expect([cpuMs, megabytes]).toEqual([expect.any(Number), expect.any(Number)]);
      expect(cpuMs).toBeLessThan(50);
      expect(megabytes).toBeLessThan(50);
    },
    60_000,
  );
});

import { describe, expect, test } from "bun:test";

import type { FrontendIPConfiguration } from "@azure/arm-network";

import {
  frontendName,
  hasBase,
  hasBaseInAnyCase,
  isServiceFrontend,
  publicIPName,
  ruleName,
} from "../../../../../../plugins/azure-cloud/load-balancer/model/names.ts";
import {
  frontendsOf,
  type FrontendTarget,
  isChanged,
  subnetProblem,
} from "../../../../../../plugins/azure-cloud/load-balancer/plan/draft/frontends.ts";
import { plan } from "../../../../../../plugins/azure-cloud/load-balancer/plan/plan.ts";
import {
  readSubject,
  wantedPrefix,
  wantedPublicIP,
} from "../../../../../../plugins/azure-cloud/load-balancer/service/subject.ts";
import { intentOf, plannerConfigOf, type ServiceShape } from "../../fixtures.ts";
import { converge, nodesNamed, usersBalancer, world } from "../../world.ts";

const config = plannerConfigOf();
const nodes = nodesNamed("node-0", "node-1");
const subjectOf = (shape: ServiceShape) => readSubject(intentOf(shape).service, config).subject;
const uid = "257b9655-5137-4ad2-b091-ef3f07043ad3";
const base = "a257b965551374ad2b091ef3f07043ad";
const internalOn = (subnet: string) => ({
  "azure-load-balancer-internal": "true",
  "azure-load-balancer-internal-subnet": subnet,
});

describe("the name of a frontend", () => {
  const nameOf = (shape: ServiceShape) => frontendName(subjectOf({ uid, ...shape }), "IPv4");
  const long = `a${"-".repeat(50)}z`;

  test("a short subnet is its suffix", () => {
    expect(nameOf({ annotations: internalOn("shortsubnet") })).toBe(`${base}-shortsubnet`);
  });

  test("`a`, 50 times `-` and `z` are cut, and the final `-` becomes `_`", () => {
    const name = nameOf({ annotations: internalOn(long) });
    expect([name.length, name]).toEqual([75, `${base}-a${"-".repeat(40)}_`]);
  });

  test("a long subnet is cut, so that the name has 75 characters", () => {
    expect(nameOf({ annotations: internalOn("s".repeat(60)) })).toBe(`${base}-${"s".repeat(42)}`);
  });

  test("an external Service has the base name only", () => {
    expect(nameOf({ annotations: { "azure-load-balancer-internal-subnet": "subnet" } })).toBe(base);
  });
});

describe("names of rules and public IPs", () => {
  const dual = { uid, spec: { ipFamilies: ["IPv4", "IPv6"] } };

  test("an internal rule of a dual-stack Service for IPv6", () => {
    const subject = subjectOf({ ...dual, annotations: internalOn("shortsubnet") });
    expect(ruleName(subject, "TCP", 9000, "IPv6")).toBe(`${base}-shortsubnet-TCP-9000-IPv6`);
  });

  test("a rule name is cut in its subnet only", () => {
    const name = ruleName(subjectOf({ uid, annotations: internalOn("s".repeat(60)) }), "TCP", 9000, "IPv4");
    expect([name.length, name.endsWith("s-TCP-9000")]).toEqual([75, true]);
  });

  test("a single-stack IPv6 Service has no suffix", () => {
    const subject = subjectOf({ uid, spec: { ipFamilies: ["IPv6"] } });
    expect([frontendName(subject, "IPv6"), ruleName(subject, "TCP", 80, "IPv6")]).toEqual([base, `${base}-TCP-80`]);
  });

  test("a public IP has the last segment of its prefix, is cut to 75, and then gets the suffix", () => {
    const named = { base: "auid", subnet: undefined, dualStack: false };
    expect(publicIPName("azure", named, "IPv4", "prefix-id")).toBe("azure-auid-prefix-id");
    const cut = publicIPName("azure", { ...named, dualStack: true }, "IPv6", `/x/${"p".repeat(90)}`);
    expect([cut.length, cut.endsWith("p-IPv6")]).toEqual([80, true]);
  });

  test("a name belongs to a Service by its whole base", () => {
    expect([hasBase("atest1", "atest1"), hasBase("atest1-x", "atest1"), hasBase("atest10", "atest1")]).toEqual([
      true,
      true,
      false,
    ]);
    expect([hasBaseInAnyCase("ATEST1-tcp-80", "atest1"), hasBase("ATEST1-x", "atest1")]).toEqual([true, false]);
    expect([isServiceFrontend(base), isServiceFrontend("users-frontend"), isServiceFrontend(undefined)]).toEqual([
      true,
      false,
      false,
    ]);
  });
});

describe("a changed frontend", () => {
  const publicTarget: FrontendTarget = { kind: "public", publicIPId: "/PIP" };
  const privateTarget: FrontendTarget = { kind: "private", subnet: { id: "/subnet", name: "subnet" } };
  const internal = (more = {}) =>
    subjectOf({ name: "test1", annotations: { "azure-load-balancer-internal": "true", ...more } });
  const external = subjectOf({ name: "test1" });

  test.each<[string, FrontendIPConfiguration, ReturnType<typeof subjectOf>, FrontendTarget, boolean]>([
    [
      "FIP `atest1-name`, expected name differs, owned as primary: changed",
      { name: "atest1-name" },
      external,
      publicTarget,
      true,
    ],
    [
      "FIP `btest1-name` (other owner), expected differs: unchanged",
      { name: "btest1-name" },
      external,
      publicTarget,
      false,
    ],
    [
      "internal, no wanted IP, no subnet annotation: unchanged",
      { name: "atest1", privateIPAddress: "10.0.0.1", subnet: { id: "/other" } },
      internal(),
      privateTarget,
      false,
    ],
    [
      "internal, subnet annotation and FIP subnet id differs: changed",
      { name: "atest1-subnet", subnet: { id: "/other" } },
      internal({ "azure-load-balancer-internal-subnet": "subnet" }),
      privateTarget,
      true,
    ],
    [
      "internal, wanted IP equals private IP: unchanged",
      { name: "atest1", privateIPAddress: "10.0.0.1" },
      internal({ "azure-load-balancer-ipv4": "10.0.0.1" }),
      privateTarget,
      false,
    ],
    [
      "internal, wanted IP differs: changed",
      { name: "atest1", privateIPAddress: "10.0.0.2" },
      internal({ "azure-load-balancer-ipv4": "10.0.0.1" }),
      privateTarget,
      true,
    ],
    ["external, FIP without pip: unchanged", { name: "atest1" }, external, publicTarget, false],
    [
      "external, pip id equal: unchanged",
      { name: "atest1", publicIPAddress: { id: "/pip" } },
      external,
      publicTarget,
      false,
    ],
    [
      "external, pip id different: changed",
      { name: "atest1", publicIPAddress: { id: "/other" } },
      external,
      publicTarget,
      true,
    ],
  ])("%s", (_title, frontend, subject, target, expected) => {
    expect(isChanged(frontend, subject, "IPv4", target)).toBe(expected);
  });
});

describe("the owner of a frontend", () => {
  const target: FrontendTarget = { kind: "public", publicIPId: "/pip" };
  const shared = { name: "aother", publicIPAddress: { id: "/PIP" }, privateIPAddress: "10.0.0.1" };
  const owned = (shape: ServiceShape, used: FrontendTarget = target) =>
    frontendsOf({ frontendIPConfigurations: [shared] }, subjectOf({ name: "test1", ...shape }), "IPv4", used).length ===
    1;

  test("primary by base name", () => expect(owned({ name: "other" })).toBe(true));
  test("a secondary Service without a wanted IP owns no frontend", () => expect(owned({})).toBe(false));
  test("secondary external by IP", () =>
    expect(owned({ annotations: { "azure-load-balancer-ipv4": "20.1.1.1" } })).toBe(true));
  test("secondary external by name", () => expect(owned({ annotations: { "azure-pip-name": "pip" } })).toBe(true));

  test("another public IP is not a frontend of the Service", () => {
    expect(owned({ annotations: { "azure-pip-name": "pip" } }, { kind: "public", publicIPId: "/another" })).toBe(false);
  });

  test("no frontend with a private address is taken for that of a Service without a public IP", () => {
    const internal = { name: "aother-subnet", privateIPAddress: "10.0.0.1" };
    const chosen = subjectOf({ name: "test1", annotations: { "azure-load-balancer-ipv4": "20.1.1.1" } });
    const none: FrontendTarget = { kind: "public", publicIPId: "" };
    expect(frontendsOf({ frontendIPConfigurations: [internal] }, chosen, "IPv4", none)).toEqual([]);
  });

  test("the frontend of a Service that names its own public IP is one, not two", () => {
    expect(owned({ name: "other", annotations: { "azure-pip-name": "pip" } })).toBe(true);
  });

  test("secondary internal by private IP", () => {
    const subnet: FrontendTarget = { kind: "private", subnet: {} };
    const annotations = { "azure-load-balancer-internal": "true", "azure-load-balancer-ipv4": "10.0.0.1" };
    expect(owned({ annotations }, subnet)).toBe(true);
    expect(owned({ annotations: { ...annotations, "azure-load-balancer-ipv4": "10.0.0.2" } }, subnet)).toBe(false);
  });
});

describe("the subnet annotation", () => {
  const subnetOf = (annotations: Readonly<Record<string, string>>) => subjectOf({ annotations }).subnet;

  test.each([
    ["no annotation: nil", {}, undefined],
    ["subnet without internal: nil", { "azure-load-balancer-internal-subnet": "subnet" }, undefined],
    ["internal `false`: nil", { ...internalOn("subnet"), "azure-load-balancer-internal": "false" }, undefined],
    ["internal with empty subnet: nil", internalOn(" "), undefined],
    ["internal with `subnet`: `subnet`", internalOn("subnet"), "subnet"],
  ])("%s", (_title, annotations, expected) => {
    expect(subnetOf({ ...annotations })).toBe(expected);
  });
});

describe("names by family", () => {
  const all = { "azure-pip-name": "v4", "azure-pip-name-ipv6": "v6" };

  test.each([
    [["IPv4", "IPv6"], "v4", "v6"],
    [["IPv4"], "v4", ""],
    [["IPv6"], "", "v6"],
  ] as const)("public IPs of %p", (ipFamilies, v4, v6) => {
    const subject = subjectOf({ annotations: all, spec: { ipFamilies: [...ipFamilies] } });
    expect([wantedPublicIP(subject, "IPv4"), wantedPublicIP(subject, "IPv6")]).toEqual([v4, v6]);
  });

  test("an IPv6-only Service may use the annotation without suffix", () => {
    const id = "/subscriptions/s/resourceGroups/r/providers/Microsoft.Network/publicIPPrefixes/p";
    const subject = subjectOf({ annotations: { "azure-pip-prefix-id": id }, spec: { ipFamilies: ["IPv6"] } });
    expect(wantedPrefix(subject, "IPv6")).toBe(id);
  });
});

describe("a frontend that others use", () => {
  const ours =
    "/subscriptions/sub0/resourceGroups/rg0/providers/Microsoft.Network/loadBalancers/kubernetes/frontendIPConfigurations/aweb";
  const uses = { frontendIPConfiguration: { id: ours } };
  const named = { name: "x" };

  test.each([
    [
      "rule of another service: unsafe",
      { loadBalancingRules: [{ ...named, protocol: "Tcp", frontendPort: 1, ...uses }] },
    ],
    [
      "outbound rule: unsafe",
      { outboundRules: [{ ...named, protocol: "All", frontendIPConfigurations: [{ id: ours }] }] },
    ],
    ["inbound NAT rule: unsafe", { inboundNatRules: [{ ...named, ...uses }] }],
    [
      "NAT pool: unsafe",
      {
        inboundNatPools: [
          { ...named, protocol: "Tcp", frontendPortRangeStart: 1, frontendPortRangeEnd: 9, backendPort: 1, ...uses },
        ],
      },
    ],
  ])("%s", (_title, more) => {
    const created = converge([intentOf({ nodes })], world({ nodes }), config).observed;
    const loadBalancers = created.loadBalancers.map((one) => ({
      ...one,
      ...more,
      loadBalancingRules: [
        ...(one.loadBalancingRules ?? []),
        ...("loadBalancingRules" in more ? more.loadBalancingRules : []),
      ],
    }));
    const { observed, last } = converge([intentOf({ nodes, action: "delete" })], { ...created, loadBalancers }, config);
    expect(observed.loadBalancers[0]?.frontendIPConfigurations?.map(({ name }) => name)).toEqual(["aweb"]);
    expect(observed.publicIPs.map(({ name }) => name)).toContain("kubernetes-aweb");
    expect(last.results.get("default/web")?.events.map(({ reason }) => reason)).toEqual([
      "DeletingFrontendIPConfiguration",
    ]);
  });

  test("the rule of another Service on its own frontend is an event for the one that shared it", () => {
    const ofPort = (name: string, port: number, action: "ensure" | "delete" = "ensure") =>
      intentOf({
        nodes,
        name,
        action,
        annotations: { "azure-pip-name": "users-ip" },
        spec: { ports: [{ protocol: "TCP", port, nodePort: 30_000 + port }] },
      });
    const shared = converge([ofPort("a", 80), ofPort("b", 443)], world({ nodes }), config).observed;
    const { results } = plan([ofPort("b", 443, "delete")], shared, config);
    expect(results.get("default/b")?.events).toEqual([
      {
        type: "Warning",
        reason: "DeletingFrontendIPConfiguration",
        message: expect.stringContaining("is kept: it is used by aa-TCP-80"),
      },
    ]);
  });

  test("a frontend with only the Service's own rules is safe to delete", () => {
    const created = converge([intentOf({ nodes })], world({ nodes }), config).observed;
    expect(converge([intentOf({ nodes, action: "delete" })], created, config).observed.loadBalancers).toEqual([]);
  });
});

describe("conflicts on a shared frontend", () => {
  const frontend = {
    frontendIPConfiguration: { id: `${usersBalancer("kubernetes").id}/frontendIPConfigurations/users-frontend` },
  };
  const on = (more: object) =>
    plan(
      [intentOf({ nodes, annotations: { "azure-pip-name": "users-ip" } })],
      world({ nodes, loadBalancers: [{ ...usersBalancer("kubernetes"), ...more }] }),
      config,
    ).results.get("default/web")?.problem?.code;

  test.each([
    [
      "existing rule with same FIP, protocol and port: error",
      { loadBalancingRules: [{ name: "x", protocol: "Tcp", frontendPort: 80, ...frontend }] },
      "PortConflict",
    ],
    [
      "another protocol: ok",
      { loadBalancingRules: [{ name: "x", protocol: "Udp", frontendPort: 80, ...frontend }] },
      undefined,
    ],
    [
      "inbound NAT rule same port: error",
      { inboundNatRules: [{ name: "x", protocol: "Tcp", frontendPort: 80, ...frontend }] },
      "PortConflict",
    ],
    [
      "NAT pool range containing the port: error",
      {
        inboundNatPools: [
          { name: "x", protocol: "Tcp", frontendPortRangeStart: 79, frontendPortRangeEnd: 81, ...frontend },
        ],
      },
      "PortConflict",
    ],
    [
      "range not containing: ok",
      {
        inboundNatPools: [
          { name: "x", protocol: "Tcp", frontendPortRangeStart: 81, frontendPortRangeEnd: 90, ...frontend },
        ],
      },
      undefined,
    ],
    [
      "different FIP: ok",
      {
        loadBalancingRules: [
          { name: "x", protocol: "Tcp", frontendPort: 80, frontendIPConfiguration: { id: "/other" } },
        ],
      },
      undefined,
    ],
  ])("%s", (_title, more, expected) => {
    expect<string | undefined>(on(more)).toBe(expected);
  });
});

describe("internal frontends", () => {
  const internal = { "azure-load-balancer-internal": "true" };
  const created = (shape: ServiceShape) => converge([intentOf({ nodes, ...shape })], world({ nodes }), config);
  const frontendIn = (shape: ServiceShape) => created(shape).observed.loadBalancers[0]?.frontendIPConfigurations?.[0];

  test("a new internal frontend has zones 1, 2 and 3", () => {
    expect(frontendIn({ annotations: internal })?.zones).toEqual(["1", "2", "3"]);
  });

  test("a new external frontend has no zones", () => {
    expect(frontendIn({})).not.toHaveProperty("zones");
  });

  test("replaced FIP keeps nil or `1` zones of the old one", () => {
    const { observed } = created({ annotations: internal });
    const old = observed.loadBalancers.map((one) => ({
      ...one,
      frontendIPConfigurations: (one.frontendIPConfigurations ?? []).map((each) => ({ ...each, zones: ["1"] })),
    }));
    const annotations = { ...internal, "azure-load-balancer-ipv4": "10.240.7.7" };
    const { observed: end } = converge([intentOf({ nodes, annotations })], { ...observed, loadBalancers: old }, config);
    expect(end.loadBalancers[0]?.frontendIPConfigurations).toMatchObject([
      { zones: ["1"], privateIPAddress: "10.240.7.7" },
    ]);
  });

  test.each([
    ["old ingress IP inside the subnet: reused as Static", ["10.240.7.8"], "Static"],
    ["subnet prefix changed: IP not reused", ["10.99.7.8"], "Dynamic"],
  ])("%s", (_title, ingress, method) => {
    expect(frontendIn({ annotations: internal, ingress })?.privateIPAllocationMethod).toBe(method);
  });

  test("an address outside of the subnet is refused with the subnet's prefix", () => {
    const { last } = created({ annotations: { ...internal, "azure-load-balancer-ipv4": "10.250.0.1" } });
    expect(last.results.get("default/web")?.problem?.messages).toEqual([
      "address 10.250.0.1 is not in subnet subnet0 (10.240.0.0/16)",
    ]);
  });

  test("a changed subnet replaces the old frontend, rules and probes", () => {
    const { observed } = created({ annotations: internal });
    const { observed: end } = converge([intentOf({ nodes, annotations: internalOn("lb-subnet") })], observed, config);
    const [balancer] = end.loadBalancers;
    expect(
      [balancer?.frontendIPConfigurations, balancer?.loadBalancingRules, balancer?.probes].map((list) =>
        list?.map(({ name }) => name),
      ),
    ).toEqual([["aweb-lb-subnet"], ["aweb-lb-subnet-TCP-80"], ["aweb-lb-subnet-TCP-80"]]);
  });
});

test("an address that a Service asks for is refused where the subnet has other prefixes, and not where none are known", () => {
  const subject = subjectOf({ annotations: { ...internalOn("inside"), "azure-load-balancer-ipv4": "10.1.0.4" } });
  const problemIn = (prefixes: object) => subnetProblem(subject, "IPv4", { name: "inside", ...prefixes });
  expect(problemIn({ addressPrefix: "10.0.0.0/16" })).toBe("address 10.1.0.4 is not in subnet inside (10.0.0.0/16)");
  expect(problemIn({ addressPrefixes: ["10.0.0.0/16", "10.1.0.0/24"] })).toBeUndefined();
  expect(problemIn({})).toBeUndefined();
});

import { describe, expect, test } from "bun:test";

import { annotations as marks, type Node, type Service } from "cloud-controller-host/sdk";

import type { Observed, ServiceIntent } from "../../../../../plugins/azure-cloud/load-balancer/model/model.ts";
import { frontendName } from "../../../../../plugins/azure-cloud/load-balancer/model/names.ts";
import type { PlannerConfig } from "../../../../../plugins/azure-cloud/load-balancer/model/planner-config.ts";
import { causesOf } from "../../../../../plugins/azure-cloud/load-balancer/removals/causes.ts";
import { readSubject } from "../../../../../plugins/azure-cloud/load-balancer/service/subject.ts";
import type { Cause } from "../../../../../plugins/azure-cloud/removal-guard/guard.ts";
import type { Item, Owner, Part } from "../../../../../plugins/azure-cloud/removal-guard/items.ts";
import { intentOf, plannerConfigOf, type ServiceShape } from "../fixtures.ts";
import { nodesNamed, publicIP, world } from "../world.ts";

const group = "/subscriptions/sub0/resourceGroups/rg0/providers/Microsoft.Network";
const uid = "0123456789abcdef0123456789abcdef";
const internal = { "azure-load-balancer-internal": "true" };

interface Case {
  readonly shape?: ServiceShape;
  readonly config?: PlannerConfig;
  readonly observed?: Partial<Observed>;
  readonly balancer?: string;
  /** True if the frontend of the item stays. */
  readonly stays?: boolean;
  readonly batch?: readonly ServiceIntent[];
  /** Of the Service as the API server has it. */
  readonly deletionTimestamp?: string;
}

type NamedPart = Extract<Part, { readonly name: string }>;

const part = (kind: NamedPart["kind"], name: string): Part => ({ kind, name });
const addressed = (address: string, frontend = "F"): Part => ({ kind: "frontend addresses", frontend, address });
const opening = (address: string, protocol: string, port: number): Part => ({
  kind: "security rules",
  address,
  protocol,
  port: `${port}`,
});

/** The part with other names. */
function renamed(one: Part, rename: (name: string) => string): Part {
  if ("name" in one) return { ...one, name: rename(one.name) };
  if (one.kind !== "frontend addresses") return one;
  return { ...one, frontend: rename(one.frontend), address: rename(one.address) };
}

/** The cause of the removal of a part of the Service, whose frontend's name replaces F, and base name B. */
function causeOf(
  removed: Part,
  {
    shape = {},
    config = plannerConfigOf(),
    observed = {},
    balancer = "kubernetes",
    stays = true,
    batch = [],
    ...stored
  }: Case = {},
): Cause {
  const { service } = intentOf({ ...shape, name: "web", uid });
  const { subject } = readSubject(service, config);
  const frontend = frontendName(subject, "IPv4");
  const services = ["default/web"];
  const owned = { owners: [{ kind: "Service" as const, name: "default/web" }], services };
  const item: Item = {
    ...renamed(removed, (name) => name.replace("F", frontend).replace("B", subject.base)),
    ...owned,
  };
  const after = stays ? [{ kind: "frontends" as const, name: frontend, ...owned }] : [];
  const change = { id: `${group}/loadBalancers/${balancer}`, title: "", before: [item], after, writers: services };
  const cause = causesOf({
    batch,
    observed: { ...world({}), ...observed },
    config,
    current: () => ({ ...service, metadata: { ...service.metadata, ...stored } }),
    settled: () => undefined,
    joining: new Set(),
  });
  return cause(item, change);
}

const annotated = (annotations: Readonly<Record<string, string>>): Case => ({ shape: { annotations } });
const chosen = annotated({ "azure-pip-name": "mine" });
const wanted = {
  ...annotated({ "azure-load-balancer-ipv4": "20.0.0.1" }),
  observed: { publicIPs: [publicIP("one", "20.0.0.1"), publicIP("two", "20.0.0.2")] },
};
const inside: Case = { shape: { annotations: internal }, balancer: "kubernetes-internal" };
const several = plannerConfigOf({
  loadBalancerBackendPoolConfigurationType: "nodeIP",
  multipleStandardLoadBalancerConfigurations: [{ name: "lb1", primaryVMSet: "a" }],
});
const basic = plannerConfigOf({
  loadBalancerSku: "basic",
  vmType: "standard",
  primaryAvailabilitySetName: "a",
  excludeMasterFromStandardLB: false,
});

describe("a frontend's address that would change has for a cause", () => {
  for (const [what, removed, given, cause] of [
    ["nothing, if it is the Service's own", addressed("kubernetes-B"), {}, "none"],
    ["the config, if it has the name of another cluster", addressed("other-B"), {}, "placement"],
    ["its frontend, if that goes as well", addressed("other-B"), { stays: false }, "known"],
    ["the annotation that has gone, if it is a user's", addressed("mine"), {}, "known"],
    ["nothing, if an annotation chooses it", addressed("mine"), chosen, "none"],
    ["the annotation, if that chooses another one", addressed("kubernetes-B"), chosen, "known"],
    [
      "the annotation, if it has a prefix now",
      addressed("kubernetes-B"),
      annotated({ "azure-pip-prefix-id": `${group}/publicIPPrefixes/prefix` }),
      "known",
    ],
    ["nothing, if an annotation has its address", addressed("one"), wanted, "none"],
    ["the annotation, if that has another address", addressed("two"), wanted, "known"],
    ["the Service, if it is internal now", addressed("kubernetes-B"), annotated(internal), "known"],
    ["nothing, if it is a private address that Azure chose", addressed("10.0.0.4"), inside, "none"],
    [
      "the annotation, if the Service names a subnet",
      addressed("10.0.0.4"),
      { ...inside, shape: { annotations: { ...internal, "azure-load-balancer-internal-subnet": "own" } } },
      "known",
    ],
    ["the Service, if the frontend is of a family that it has no more", addressed("20.0.0.1", "other"), {}, "known"],
  ] as const satisfies readonly (readonly [string, Part, Case, Cause])[])
    test(what, () => {
      expect(causeOf(removed, given)).toBe(cause);
    });
});

describe("a frontend on another load balancer than the config's", () => {
  test("is moved by the config where there is one load balancer, and by labels or VMs where there are several or basic ones", () => {
    expect(causeOf(part("frontends", "F"), { balancer: "other" })).toBe("placement");
    expect(causeOf(part("frontends", "F"))).toBe("none");
    expect(causeOf(part("frontends", "F"), { balancer: "other", config: several })).toBe("none");
    expect(causeOf(part("frontends", "F"), { balancer: "other", config: basic })).toBe("none");
    expect(
      causeOf(part("frontends", "F"), { balancer: "other", config: { ...plannerConfigOf(), shardSuffix: "" } }),
    ).toBe("none");
  });
});

describe("what is left on a shard's load balancer has for a cause", () => {
  const { metadata, ...rest } = intentOf({ name: "others", uid }).service;
  const marked = { ...rest, metadata: { ...metadata, annotations: { [marks.servedBy]: "lease-of-blue" } } };
  const shared: Case = { observed: { services: [marked] }, balancer: "kubernetes-blue" };
  for (const [what, removed, given, cause] of [
    ["the hand-over of the Service", part("frontends", "F"), shared, "known"],
    ["the hand-over of the Service, for each rule", part("rules", "F-TCP-80"), shared, "known"],
    ["the config, where no Service is marked", part("frontends", "F"), { balancer: "kubernetes-blue" }, "placement"],
    ["nothing, if load balancers are basic", part("frontends", "F"), { ...shared, config: basic }, "none"],
  ] as const satisfies readonly (readonly [string, Part, Case, Cause])[])
    test(what, () => {
      expect(causeOf(removed, given)).toBe(cause);
    });

  test("the hand-over of the Service, for its private link service", () => {
    const id = `${group}/loadBalancers/kubernetes-blue-internal/frontendIPConfigurations/f`;
    const link = { name: "pls", location: "", loadBalancerFrontendIpConfigurations: [{ id }], ipConfigurations: [] };
    const shape = { annotations: { ...internal, "azure-pls-create": "true" } };
    const observed = { services: [marked], privateLinkServices: [link] };
    expect(causeOf(part("private link services", "pls"), { shape, observed })).toBe("known");
  });
});

describe("a private link service that would go", () => {
  const linkTo = (balancer: string): Case => ({
    observed: {
      privateLinkServices: [
        {
          name: "pls",
          location: "eastus",
          loadBalancerFrontendIpConfigurations: [
            { id: `${group}/loadBalancers/${balancer}/frontendIPConfigurations/f` },
          ],
          ipConfigurations: [],
        },
      ],
    },
  });
  const created = { shape: { annotations: { ...internal, "azure-pls-create": "true" } } };

  test("has no cause while the Service asks for it, and the config if its load balancer has another name", () => {
    expect(causeOf(part("private link services", "pls"), { ...created, ...linkTo("kubernetes-internal") })).toBe(
      "none",
    );
    expect(causeOf(part("private link services", "pls"), { ...created, ...linkTo("other-internal") })).toBe(
      "placement",
    );
  });

  test("goes with the annotation, and with a Service that is external now", () => {
    expect(causeOf(part("private link services", "pls"), { ...inside, ...linkTo("kubernetes-internal") })).toBe(
      "known",
    );
    expect(causeOf(part("private link services", "pls"), { ...created, ...linkTo("kubernetes") })).toBe("known");
  });
});

describe("a public IP that would go", () => {
  test("has no cause while the Service wants one of that name, and any setting that chooses another one", () => {
    expect(causeOf(part("public IPs", "kubernetes-B"))).toBe("none");
    for (const name of ["other-B", "kubernetes-other"]) expect(causeOf(part("public IPs", name))).toBe("known");
    for (const given of [chosen, wanted, inside])
      expect(causeOf(part("public IPs", "kubernetes-B"), given)).toBe("known");
  });
});

describe("a probe that would go", () => {
  test("has no cause while the Service uses it, and the mode of probes if that is shared now", () => {
    expect(causeOf(part("probes", "B-TCP-80"))).toBe("none");
    const config = plannerConfigOf({ clusterServiceLoadBalancerHealthProbeMode: "shared" });
    expect(causeOf(part("probes", "B-TCP-80"), { config })).toBe("known");
    expect(causeOf(part("rules", "B-TCP-80"), { config })).toBe("none");
  });
});

describe("an item may go when", () => {
  test("its Service has another type now, or is being deleted", () => {
    expect(causeOf(part("frontends", "F"), { deletionTimestamp: "2026-01-02T00:00:00Z" })).toBe("known");
    expect(causeOf(part("frontends", "F"), { shape: { spec: { type: "ClusterIP" } } })).toBe("known");
  });

  test("its load balancer is being deleted, although the Service stays", () => {
    const leaving = intentOf({ name: "web", uid, action: "delete" });
    expect(causeOf(part("frontends", "F"), { batch: [leaving] })).toBe("known");
    expect(causeOf(part("frontends", "F"), { batch: [{ ...leaving, action: "ensure" }] })).toBe("none");
  });
});

describe("a public IP that would go", () => {
  test("has no cause while the Service uses it, and the Service if that is internal or names another one", () => {
    expect(causeOf(part("public IPs", "kubernetes-B"))).toBe("none");
    expect(causeOf(part("public IPs", "kubernetes-B"), inside)).toBe("known");
    expect(causeOf(part("public IPs", "kubernetes-B"), chosen)).toBe("known");
    expect(causeOf(part("public IPs", "kubernetes-B"), wanted)).toBe("known");
  });
});

describe("an opening that would go", () => {
  const observed = { publicIPs: [publicIP("one", "20.0.0.1"), publicIP("mine", "20.0.0.2")] };

  test("has no cause while the Service has such an address, and the port", () => {
    expect(causeOf(opening("20.0.0.1", "tcp", 80), { observed })).toBe("none");
    expect(causeOf(opening("20.0.0.1", "tcp", 81), { observed })).toBe("known");
    expect(causeOf(opening("20.0.0.1", "udp", 80), { observed })).toBe("known");
    expect(causeOf(opening("20.0.0.1", "icmp", 80), { observed })).toBe("known");
    expect(causeOf(opening("2603:1030::1", "tcp", 80), { observed })).toBe("known");
    const fromNodes = annotated({ ...internal, "azure-allowed-ip-ranges": "10.0.0.0/8" });
    expect(causeOf(opening("10.0.0.4", "tcp", 80), fromNodes)).toBe("none");
    expect(causeOf(opening("fd00::4", "tcp", 80), fromNodes)).toBe("known");
  });

  test("goes with the last source of its family", () => {
    expect(causeOf(opening("10.0.0.4", "tcp", 80), inside)).toBe("known");
    const dual = { ipFamilies: ["IPv4", "IPv6"] };
    const causesWith = (...loadBalancerSourceRanges: string[]) =>
      ["10.0.0.4", "fd00::4"].map((address) =>
        causeOf(opening(address, "tcp", 80), {
          shape: { annotations: internal, spec: { ...dual, loadBalancerSourceRanges } },
        }),
      );
    expect(causesWith("10.0.0.0/8", "fd00::/8")).toEqual(["none", "none"]);
    expect(causesWith("10.0.0.0/8")).toEqual(["none", "known"]);
    expect(causesWith("fd00::/8")).toEqual(["known", "none"]);
  });

  test("goes with the annotation by which a Service has no rules of its own, or is reached at its node ports", () => {
    for (const key of ["azure-disable-load-balancer-nsg-rule", "azure-disable-load-balancer-floating-ip"])
      expect(causeOf(opening("20.0.0.1", "tcp", 80), { ...annotated({ [key]: "true" }), observed })).toBe("known");
  });

  test("goes from the address of a node once all Services that use the port there have changed", () => {
    const [node] = nodesNamed("node-0");
    const causeWith = (...changed: readonly string[]): Cause => {
      const services = ["default/one", "default/two"];
      const owners = [{ kind: "Node" as const, name: "node-0" }];
      const item = { ...opening("10.240.0.4", "tcp", 30_080), owners, services };
      const stored = (key: string) => intentOf({ name: key.slice("default/".length) }).service;
      const former = (key: string) => ({ ...stored(key), spec: { type: "LoadBalancer", ports: [] } });
      return causesOf({
        batch: [],
        observed: world({ nodes: node === undefined ? [] : [node] }),
        config: plannerConfigOf(),
        current: stored,
        settled: (key) => (changed.includes(key) ? former(key) : stored(key)),
        joining: new Set(),
      })(item, { id: "", title: "", before: [item], after: [], writers: services });
    };
    expect(causeWith()).toBe("none");
    expect(causeWith("default/one")).toBe("none");
    expect(causeWith("default/one", "default/two")).toBe("known");
  });

  test("has its Service compared with the former version once, however many go with it", () => {
    const { service } = intentOf({ name: "web" });
    const { spec = {} } = service;
    let reads = 0;
    const former = {
      ...service,
      get spec() {
        reads += 1;
        return spec;
      },
    };
    const [stored, settled] = [() => service, (): Service => former];
    const config = plannerConfigOf();
    const cause = causesOf({ batch: [], observed: world({}), config, current: stored, settled, joining: new Set() });
    const owners = [{ kind: "Node" as const, name: "node-0" }];
    for (let port = 30_000; port < 30_100; port += 1) {
      const item = { ...opening("10.240.0.4", "tcp", port), owners, services: ["default/web"] };
      expect(cause(item, { id: "", title: "", before: [item], after: [], writers: [] })).toBe("none");
    }
    expect(reads).toBe(1);
  });

  test("goes with the public IP that another one has replaced by name", () => {
    expect(causeOf(opening("20.0.0.2", "tcp", 80), { ...chosen, observed })).toBe("none");
    expect(causeOf(opening("20.0.0.1", "tcp", 80), { ...chosen, observed })).toBe("known");
  });
});

describe("a node's address that would leave a pool", () => {
  const [node] = nodesNamed("node-0");
  const address = node?.status?.addresses?.[0]?.address ?? "";
  const causeOfNode = (nodes: readonly Node[], name = address, ...joining: readonly string[]): Cause =>
    causeOfMember({ kind: "Node", name: "node-0" }, { nodes }, { name, joining });
  const causeOfMember = (
    owner: Owner,
    about: Partial<Observed>,
    {
      name = address,
      joining = [],
      config = plannerConfigOf(),
    }: { readonly name?: string; readonly joining?: readonly string[]; readonly config?: PlannerConfig } = {},
  ): Cause => {
    const member = { kind: "members of backend pool", pool: "kubernetes", address: name } as const;
    const item = { ...member, owners: [owner], services: [] };
    const observed = { ...world({}), ...about };
    const unset = (): undefined => undefined;
    const input = { batch: [], observed, config, current: unset, settled: unset };
    const change = { id: "", title: "", before: [item], after: [], writers: [] };
    return causesOf({ ...input, joining: new Set(joining) })(item, change);
  };
  const excluded: Node = {
    ...node,
    metadata: { ...node?.metadata, labels: { "node.kubernetes.io/exclude-from-external-load-balancers": "" } },
  };
  const present: readonly Node[] = node === undefined ? [] : [node];

  test("has no cause while the node is listed with it, unless the node is excluded or joins another pool", () => {
    expect(causeOfNode(present)).toBe("none");
    expect(causeOfNode([excluded])).toBe("known");
    expect(causeOfNode(present, address, "node-0")).toBe("known");
  });

  test("goes with the address of the node, and is unconfirmed where the node itself is missing", () => {
    expect(causeOfNode(present, "10.9.9.9")).toBe("known");
    expect(causeOfNode([])).toBe("unconfirmed");
  });

  test("goes where the node has it beside another one of its family, unless network interfaces are the members", () => {
    const second = "10.250.0.0";
    const addresses = [...(node?.status?.addresses ?? []), { type: "InternalIP", address: second }];
    const multiHomed = [{ ...node, status: { addresses } }];
    const causes = (config: PlannerConfig): readonly Cause[] =>
      [address, "fd00::4", second].map((name) =>
        causeOfMember({ kind: "Node", name: "node-0" }, { nodes: multiHomed }, { name, config }),
      );
    const nodeIP = plannerConfigOf({ loadBalancerBackendPoolConfigurationType: "nodeIP" });
    expect(causes(nodeIP)).toEqual(["none", "none", "known"]);
    expect(causes(plannerConfigOf())).toEqual(["none", "none", "none"]);
  });

  test("is unconfirmed where its node has no endpoint of the Service, and else has the cause of the node", () => {
    const endpoint = { kind: "endpoint", service: "default/web", node: "node-0" } as const;
    const ready = { endpointNodes: new Map([["default/web", ["node-0"]]]) };
    expect(causeOfMember(endpoint, { ...ready, nodes: present })).toBe("none");
    expect(causeOfMember(endpoint, { ...ready, nodes: [excluded] })).toBe("known");
    for (const gone of [new Map<string, string[]>(), new Map([["default/web", ["node-1"]]])])
      expect(causeOfMember(endpoint, { endpointNodes: gone, nodes: present })).toBe("unconfirmed");
  });
});

import { describe, expect, test } from "bun:test";

import type { PublicIPAddress } from "@azure/arm-network";
import type { Service } from "cloud-controller-host/sdk";

import { plan } from "../../../../../../plugins/azure-cloud/load-balancer/plan/plan.ts";
import {
  desiredPublicIP,
  indexPublicIPs,
} from "../../../../../../plugins/azure-cloud/load-balancer/plan/public-ip/desired.ts";
import { ensurePublicIP } from "../../../../../../plugins/azure-cloud/load-balancer/plan/public-ip/ensure.ts";
import { parseIPTags, sameIPTags } from "../../../../../../plugins/azure-cloud/load-balancer/plan/public-ip/ip-tags.ts";
import {
  servicesIn,
  withoutOwner,
  withOwner,
} from "../../../../../../plugins/azure-cloud/load-balancer/plan/public-ip/owners.ts";
import { ownership } from "../../../../../../plugins/azure-cloud/load-balancer/plan/public-ip/ownership.ts";
import {
  isReleased,
  releaseFromDeleted,
} from "../../../../../../plugins/azure-cloud/load-balancer/plan/public-ip/plan.ts";
import { readSubject } from "../../../../../../plugins/azure-cloud/load-balancer/service/subject.ts";
import { intentOf, plannerConfigOf, type ServiceShape } from "../../fixtures.ts";
import { converge, nodesNamed, publicIP, world } from "../../world.ts";

const config = plannerConfigOf();
const mutating = plannerConfigOf({ enableIPTagMutationForExistingPublicIP: true });
const zones = ["1", "2", "3"];

const subjectOf = (shape: ServiceShape = {}) => readSubject(intentOf(shape).service, config).subject;

const tagged = (service: string, cluster = "kubernetes"): PublicIPAddress =>
  publicIP("pip", "1.2.3.4", { tags: { "k8s-azure-service": service, "k8s-azure-cluster-name": cluster } });

describe("the owner of a public IP", () => {
  const by = (annotations: Readonly<Record<string, string>> = {}) => subjectOf({ annotations });
  const noAddress = ({ ipAddress: _address, ...rest }: PublicIPAddress): PublicIPAddress => rest;

  test.each([
    ["service tag names another service: no", tagged("default/other"), by(), false, false],
    [
      "service tag matches, cluster tag absent: yes",
      publicIP("pip", "1.2.3.4", { tags: { "k8s-azure-service": "default/web" } }),
      by(),
      true,
      false,
    ],
    [
      "legacy service tag matches: yes",
      publicIP("pip", "1.2.3.4", { tags: { service: "default/web" } }),
      by(),
      true,
      false,
    ],
    ["cluster tag differs: no", tagged("default/web", "other"), by(), false, false],
    ["cluster tag equal, service not listed: no", tagged("default/nginx"), by(), false, false],
    ["cluster and service match: yes", tagged("default/web"), by(), true, false],
    [
      "empty service tag and IP differs: no (user-assigned)",
      publicIP("pip", "1.2.3.4", { tags: { "k8s-azure-service": "" } }),
      by({ "azure-load-balancer-ipv4": "1.2.3.5" }),
      false,
      true,
    ],
    ["service listed in `default/nginx1,default/web`: yes", tagged("default/nginx1,default/web"), by(), true, false],
    [
      "service tag empty, wanted IP equals pip IP: yes (and user-assigned)",
      publicIP("pip", "1.2.3.4", { tags: { "k8s-azure-service": "" } }),
      by({ "azure-load-balancer-ipv4": "1.2.3.4" }),
      true,
      true,
    ],
    [
      "IP differs but service listed: yes",
      tagged("default/web"),
      by({ "azure-load-balancer-ipv4": "1.2.3.5" }),
      true,
      false,
    ],
    ["no tags at all: user-assigned", publicIP("pip", "1.2.3.4"), by(), false, true],
    [
      "pip name annotation equals pip name: yes",
      publicIP("PIP", "1.2.3.4"),
      by({ "azure-pip-name": "pip" }),
      true,
      true,
    ],
    [
      "pip name annotation equals pip name when the tag names another service: yes",
      tagged("default/other"),
      by({ "azure-pip-name": "pip" }),
      true,
      false,
    ],
    ["failed pip (empty address) with matching tag: yes", noAddress(tagged("default/web")), by(), true, false],
    ["failed pip with non-matching tag: no", noAddress(tagged("default/other")), by(), false, false],
    [
      "user-assigned without address and without tags: no",
      noAddress(publicIP("pip", "")),
      by({ "azure-load-balancer-ipv4": "1.2.3.4" }),
      false,
      true,
    ],
  ] as const)("%s", (_title, one, subject, owned, userAssigned) => {
    expect(ownership(one, subject, "kubernetes")).toEqual({ owned, userAssigned });
  });
});

describe("releasing an owned public IP", () => {
  const withTags = { ...tagged("default/web"), ipTags: [{ ipTagType: "a", tag: "b" }] };
  const asks = (tags: string) => subjectOf({ annotations: { "azure-pip-ip-tags": tags } });

  test.each([
    ["wanted, external, name and tags equal: keep", withTags, asks("a=b"), "pip", config, false],
    ["annotation absent although pip has IP tags: keep", withTags, subjectOf(), "pip", config, false],
    ["now internal: release", tagged("default/web"), subjectOf(), undefined, config, true],
    ["other desired name: release", tagged("default/web"), subjectOf(), "other", config, true],
    ["only `-IPv6` suffix differs: release", tagged("default/web"), subjectOf(), "pip-IPv6", config, true],
    ["IP tag mismatch, mutation enabled: keep", withTags, asks("a=c"), "pip", mutating, false],
    ["IP tag mismatch, mutation disabled: release", withTags, asks("a=c"), "pip", config, true],
    [
      "shared pip (≥2 references), mismatch, mutation disabled: keep",
      { ...withTags, tags: { "k8s-azure-service": "default/web,default/b" } },
      asks("a=c"),
      "pip",
      config,
      false,
    ],
    [
      "a pip that only another service is listed on is never released: keep",
      tagged("default/other"),
      subjectOf({ annotations: { "azure-load-balancer-ipv4": "1.2.3.4" } }),
      "mine",
      config,
      false,
    ],
  ] as const)("%s", (_title, one, subject, desired, used, expected) => {
    expect(isReleased(one, subject, desired, used)).toBe(expected);
  });

  test.each([
    ["not wanted and orphaned managed pip: release", tagged("default/web"), "delete"],
    ["not wanted; still referenced by another service: keep", tagged("default/web,default/b"), "default/b"],
    ["of another cluster: keep", tagged("default/web", "other"), "default/web"],
  ] as const)("%s", (_title, one, expected) => {
    const release = releaseFromDeleted(one, subjectOf(), config);
    expect(release === "delete" ? release : release.keep.tags?.["k8s-azure-service"]).toBe(expected);
  });

  test("an orphaned public IP of a user is kept", () => {
    const one = publicIP("my-pip", "1.2.3.4");
    expect(releaseFromDeleted(one, subjectOf({ annotations: { "azure-pip-name": "my-pip" } }), config)).toEqual({
      keep: one,
    });
  });
});

describe("parsing IP tags", () => {
  test.each([
    ["blank: empty", "", []],
    ["`tag1=tagvalue1`: one", "tag1=tagvalue1", [["tag1", "tagvalue1"]]],
    ["spaces around trimmed", " tag1 = tagvalue1 ", [["tag1", "tagvalue1"]]],
    ["same key twice: last value", "tag1=a,tag1=b", [["tag1", "b"]]],
    [
      "two pairs: two",
      "tag1=a,tag2=b",
      [
        ["tag1", "a"],
        ["tag2", "b"],
      ],
    ],
    ["malformed entry ignored", "tag1=a,tag2,c=d=e", [["tag1", "a"]]],
    ["`k=` kept with blank value", "k=", [["k", ""]]],
    ["`=v` kept with blank key", "=v", [["", "v"]]],
  ] as const)("%s", (_title, text, expected) => {
    expect(parseIPTags(text).map(({ ipTagType, tag }) => [ipTagType, tag])).toEqual(expected.map((pair) => [...pair]));
  });
});

describe("equivalent IP tags", () => {
  const a = { ipTagType: "a", tag: "1" };
  const b = { ipTagType: "b", tag: "2" };

  test.each([
    ["nil vs nil", undefined, undefined, true],
    ["nil vs empty equal", undefined, [], true],
    ["nil vs one tag unequal", undefined, [a], false],
    ["identical", [a, b], [a, b], true],
    ["reordered", [a, b], [b, a], true],
    ["same type with crossed values: sorted compare", [a, { ...a, tag: "2" }], [{ ...a, tag: "2" }, a], true],
  ])("%s", (_title, left, right, expected) => {
    expect([sameIPTags(left, right), sameIPTags(right, left)]).toEqual([expected, expected]);
  });
});

describe("parsing the tag of Services", () => {
  test.each([
    ["two names", "ns1/svc1,ns2/svc2", ["ns1/svc1", "ns2/svc2"]],
    ["spaces around names are trimmed", " ns1/svc1, ns2/svc2 ", ["ns1/svc1", "ns2/svc2"]],
    ["a comma at the end adds none", "ns1/svc1,", ["ns1/svc1"]],
    ["empty and nil: empty list", "", []],
  ])("%s", (_title, tag, expected) => {
    expect(servicesIn({ "k8s-azure-service": tag })).toEqual(expected);
    expect(servicesIn(undefined)).toEqual([]);
  });
});

describe("adding Services to the tags of a public IP", () => {
  const bind = (tag: string | undefined) =>
    withOwner(withOwner(tag === undefined ? undefined : { "k8s-azure-service": tag }, "ns2/svc2"), "ns3/svc3")[
      "k8s-azure-service"
    ];

  test.each([
    ["nil tags: both", undefined, "ns2/svc2,ns3/svc3"],
    ["empty tag: both", "", "ns2/svc2,ns3/svc3"],
    ["`ns1/svc1`: all three", "ns1/svc1", "ns1/svc1,ns2/svc2,ns3/svc3"],
    ["`ns1/svc1,ns2/svc2`: ns3 appended", "ns1/svc1,ns2/svc2", "ns1/svc1,ns2/svc2,ns3/svc3"],
    ["both already present: unchanged", "ns2/svc2,ns3/svc3", "ns2/svc2,ns3/svc3"],
  ])("%s", (_title, tag, expected) => {
    expect(bind(tag)).toBe(expected);
  });

  test("returns the same tags when the Service is listed", () => {
    const tags = { "k8s-azure-service": "ns2/SVC2" };
    expect(withOwner(tags, "ns2/svc2")).toBe(tags);
  });
});

describe("removing a Service from the tags of a public IP", () => {
  test.each([
    ["tag `ns1/svc1`: unchanged", "ns1/svc1", "ns1/svc1"],
    ["`ns1/svc1,ns2/svc2`: `ns1/svc1`", "ns1/svc1,ns2/svc2", "ns1/svc1"],
    ["three services: the other two", "ns1/svc1,ns2/svc2,ns3/svc3", "ns1/svc1,ns3/svc3"],
  ])("%s", (_title, tag, expected) => {
    expect(withoutOwner({ "k8s-azure-service": tag }, "ns2/svc2")?.["k8s-azure-service"]).toBe(expected);
  });

  test("drops a DNS owner tag that names the service, and only that", () => {
    const tags = { "k8s-azure-service": "ns1/svc1,ns2/svc2", "k8s-azure-dns-label-service": "ns2/svc2" };
    expect(withoutOwner(tags, "ns2/svc2")).toEqual({ "k8s-azure-service": "ns1/svc1" });
    expect(withoutOwner(tags, "ns1/svc1")).toEqual({
      "k8s-azure-service": "ns2/svc2",
      "k8s-azure-dns-label-service": "ns2/svc2",
    });
  });
});

describe("the name of a public IP", () => {
  const known = indexPublicIPs([publicIP("found", "1.2.3.4"), publicIP("v6", "2603:1030::7")]);
  const choose = (shape: ServiceShape, family: "IPv4" | "IPv6" = "IPv4") => {
    const choice = desiredPublicIP(subjectOf({ name: "test1", ...shape }), family, known, config);
    return "problem" in choice ? choice.problem.code : choice.name;
  };

  test.each([
    ["no wanted IP: `kubernetes-atest1`", {}, "kubernetes-atest1"],
    [
      "wanted 1.2.3.5 not in the rg: error",
      { annotations: { "azure-load-balancer-ipv4": "1.2.3.5" } },
      "PublicIPNotFound",
    ],
    [
      "private wanted IP: invalid-IP error",
      { annotations: { "azure-load-balancer-ipv4": "10.0.0.1" } },
      "NonPublicAddress",
    ],
    ["wanted 1.2.3.4 found: that pip's name", { annotations: { "azure-load-balancer-ipv4": "1.2.3.4" } }, "found"],
    ["spec.loadBalancerIP found: that pip's name", { spec: { loadBalancerIP: "1.2.3.4" } }, "found"],
    [
      "wanted address in another resource group: error",
      { annotations: { "azure-load-balancer-ipv4": "1.2.3.4", "azure-load-balancer-resource-group": "rg2" } },
      "PublicIPNotFound",
    ],
  ])("%s", (_title, shape, expected) => {
    expect(choose(shape)).toBe(expected);
  });

  test("a single-stack IPv6 Service with `azure-pip-name-ipv6` uses that name, which must exist", () => {
    const spec = { ipFamilies: ["IPv6"] };
    expect(choose({ annotations: { "azure-pip-name-ipv6": "v6" }, spec }, "IPv6")).toBe("v6");
    expect(choose({ annotations: { "azure-pip-name-ipv6": "nowhere" }, spec }, "IPv6")).toBe("PublicIPNotFound");
    expect(choose({ annotations: { "azure-pip-name": "v6" }, spec }, "IPv6")).toBe("v6");
  });
});

describe("a public IP that a Service needs", () => {
  const ensure = (shape: ServiceShape, current: PublicIPAddress | undefined, used = config) => {
    const desired = { id: "/pip", name: current?.name ?? "pip", group: "rg0", current };
    const ensured = ensurePublicIP(subjectOf(shape), "IPv4", desired, { config: used, zones });
    return "problem" in ensured ? ensured.problem.code : ensured.publicIP;
  };

  test("a missing public IP is created as Standard and Static, with zones", () => {
    expect(ensure({}, undefined)).toEqual({
      name: "pip",
      location: "eastus",
      publicIPAllocationMethod: "Static",
      publicIPAddressVersion: "IPv4",
      sku: { name: "Standard" },
      zones,
      tags: { "k8s-azure-service": "default/web", "k8s-azure-cluster-name": "kubernetes" },
    });
  });

  test("a public IP in an edge zone has no zones", () => {
    const edge = plannerConfigOf({ extendedLocationName: "microsoftlosangeles1", extendedLocationType: "edgezone" });
    const created = ensure({}, undefined, edge);
    expect(created).toMatchObject({ extendedLocation: { name: "microsoftlosangeles1" } });
    expect(created).not.toHaveProperty("zones");
  });

  test("a public IP with the right tags is returned without a PUT", () => {
    const current = tagged("default/web");
    expect(ensure({}, current)).toBe(current);
  });

  test("adds the Service to the owner tag, and updates configured tags", () => {
    const current = { ...tagged("default/other"), tags: { ...tagged("default/other").tags, ENV: "old" } };
    const used = plannerConfigOf({ tags: "env=test" });
    const annotations = { "azure-load-balancer-ipv4": "1.2.3.4", "azure-pip-tags": "a=b" };
    expect(ensure({ annotations }, current, used)).toMatchObject({
      tags: {
        "k8s-azure-service": "default/other,default/web",
        "k8s-azure-cluster-name": "kubernetes",
        ENV: "test",
        a: "b",
      },
    });
  });

  test("keeps owner tags, whatever systemTags names", () => {
    const used = plannerConfigOf({ tags: "env=test", systemTags: "keep" });
    const current = { ...tagged("default/web"), tags: { ...tagged("default/web").tags, old: "x", keepMe: "y" } };
    expect(ensure({}, current, used)).toMatchObject({
      tags: { "k8s-azure-service": "default/web", "k8s-azure-cluster-name": "kubernetes", env: "test", keepMe: "y" },
    });
    expect(ensure({}, current, used)).not.toHaveProperty(["tags", "old"]);
  });

  const label = (text: string) => ({ annotations: { "azure-dns-label-name": text } });

  test("sets the DNS label of the Service", () => {
    expect(ensure(label("web"), tagged("default/web"))).toMatchObject({
      dnsSettings: { domainNameLabel: "web" },
      tags: { "k8s-azure-dns-label-service": "default/web" },
    });
  });

  test("an empty label removes dnsSettings", () => {
    const current = { ...tagged("default/web"), dnsSettings: { domainNameLabel: "web" } };
    expect(ensure(label(""), current)).not.toHaveProperty("dnsSettings");
    expect(ensure({}, current)).toBe(current);
  });

  test("a label of another Service is an error", () => {
    const current = {
      ...tagged("default/web"),
      tags: { ...tagged("default/web").tags, "k8s-azure-dns-label-service": "default/other" },
    };
    expect(ensure(label("web"), current)).toBe("DNSLabelTaken");
  });

  test("a public IP of a user is not tagged", () => {
    const current = publicIP("my-pip", "1.2.3.4");
    expect(ensure({ annotations: { "azure-pip-name": "my-pip" } }, current, plannerConfigOf({ tags: "a=b" }))).toBe(
      current,
    );
  });

  test("a user's pip of the wrong family or SKU is refused, not changed", () => {
    const annotations = { "azure-pip-name": "my-pip" };
    expect(ensure({ annotations }, publicIP("my-pip", "2603::1"))).toBe("PublicIPUnfit");
    expect(ensure({ annotations }, publicIP("my-pip", "1.2.3.4", { sku: { name: "Basic" } }))).toBe("PublicIPUnfit");
  });

  test("IP tags are changed in place when mutation is enabled, and not with the annotation absent or disabled", () => {
    const current = { ...tagged("default/web"), ipTags: [{ ipTagType: "a", tag: "b" }] };
    const asks = { annotations: { "azure-pip-ip-tags": "a=c" } };
    expect(ensure(asks, current, mutating)).toMatchObject({ ipTags: [{ ipTagType: "a", tag: "c" }] });
    expect(ensure({ annotations: { "azure-pip-ip-tags": "" } }, current, mutating)).toMatchObject({ ipTags: [] });
    expect(ensure({}, current, mutating)).toBe(current);
    expect(ensure(asks, current)).toBe(current);
  });
});

describe("the life of public IPs", () => {
  const nodes = nodesNamed("node-0");
  const intent = (annotations: Readonly<Record<string, string>>, ingress?: readonly string[]) =>
    intentOf({ nodes, annotations, ...(ingress && { ingress }) });

  test("a public IP whose tag names its Service twice is deleted once", () => {
    const { observed } = converge([intent({})], world({ nodes }), config);
    const publicIPs = observed.publicIPs.map((one) => {
      const owner = one.tags?.["k8s-azure-service"];
      return owner === undefined ? one : { ...one, tags: { ...one.tags, "k8s-azure-service": `${owner},${owner}` } };
    });
    const { stages } = plan([{ ...intent({}), action: "delete" }], { ...observed, publicIPs }, config);
    const deleted = stages.flatMap(({ writes }) => writes.filter(({ kind }) => kind === "delete-public-ip"));
    expect(deleted.map(({ name }) => name)).toEqual(["kubernetes-aweb"]);
  });

  test("a Service that is deleted leaves the public IP of another one that has its name now, which no frontend has yet", () => {
    const { observed } = converge([intent({})], world({ nodes }), config);
    const { service } = intentOf({ nodes, uid: "successor" });
    const own = observed.publicIPs.find(({ name }) => name === "kubernetes-aweb");
    const { ipConfiguration: _frontend, ...free } = own ?? {};
    const idOf = (name: string): string => (own?.id ?? "").replace("kubernetes-aweb", name);
    const named = (name: string): PublicIPAddress => ({ ...free, name, id: idOf(name) });
    const publicIPs = [...observed.publicIPs, ...["kubernetes-asuccessor", "kubernetes-asuccessor-IPv6"].map(named)];
    const deletedBeside = (services: readonly Service[]): readonly (string | undefined)[] =>
      plan([{ ...intent({}), action: "delete" }], { ...observed, publicIPs, services }, config)
        .stages.flatMap(({ writes }) => writes.filter(({ kind }) => kind === "delete-public-ip"))
        .map(({ name }) => name);
    expect(deletedBeside([service])).toEqual(["kubernetes-aweb"]);
    // Without the other Service they are what former ones have left.
    const all = ["kubernetes-aweb", "kubernetes-asuccessor", "kubernetes-asuccessor-IPv6"];
    expect(deletedBeside([])).toEqual(all);
    expect(deletedBeside([intent({}).service])).toEqual(all);
  });

  test("another IP tag without mutation creates the public IP again, with the load balancer that had no other frontend", () => {
    const first = converge([intent({ "azure-pip-ip-tags": "a=b" })], world({ nodes }), config).observed;
    const writes = plan([intent({ "azure-pip-ip-tags": "a=c" })], first, config).stages.flatMap(
      (stage) => stage.writes,
    );
    expect(writes.map(({ kind }) => kind)).toEqual(["release-pools", "delete-load-balancer", "delete-public-ip"]);
    const { observed, rounds } = converge([intent({ "azure-pip-ip-tags": "a=c" })], first, config);
    expect(rounds).toBeLessThanOrEqual(3);
    expect(observed.publicIPs.find(({ name }) => name === "kubernetes-aweb")?.ipTags).toEqual([
      { ipTagType: "a", tag: "c" },
    ]);
    expect(observed.loadBalancers[0]?.frontendIPConfigurations?.length).toBe(1);
  });

  test("replacing the Service's own IP by azure-pip-name leaves no public IP and no rule of ours for the old address", () => {
    const first = converge([intent({})], world({ nodes }), config);
    const old = first.observed.publicIPs.find(({ name }) => name === "kubernetes-aweb")?.ipAddress ?? "";
    const { observed } = converge([intent({ "azure-pip-name": "my-pip" }, [old])], first.observed, config);
    expect(observed.publicIPs.map(({ name = "" }) => name).toSorted()).toEqual(["my-pip", "users-ip"]);
    expect(JSON.stringify(observed.securityGroup)).not.toContain(`"${old}"`);
    expect(JSON.stringify(observed.securityGroup)).toContain("20.9.9.9");
  });

  test("replacing a user's IP by another leaves no rule of ours for the first", () => {
    const start = world({ nodes, publicIPs: [publicIP("my-pip", "20.9.9.9"), publicIP("second", "20.9.9.11")] });
    const first = converge([intent({ "azure-pip-name": "my-pip" })], start, config).observed;
    const { observed } = converge([intent({ "azure-pip-name": "second" }, ["20.9.9.9"])], first, config);
    expect(JSON.stringify(observed.securityGroup)).not.toContain("20.9.9.9");
    expect(observed.publicIPs.map(({ name, tags }) => [name, tags])).toEqual([
      ["my-pip", undefined],
      ["second", undefined],
    ]);
  });

  test("a Service's own IP goes with it although Azure still names its frontend on a load balancer that is gone", () => {
    const goes = (balancer: string, group = "rg0"): boolean => {
      const id = `/subscriptions/sub0/resourceGroups/${group}/providers/Microsoft.Network/${balancer}/frontendIPConfigurations/aweb`;
      const tags = { "k8s-azure-service": "default/web" };
      const own = publicIP("kubernetes-aweb", "20.1.1.1", { tags, ipConfiguration: { id } });
      const intents = [intentOf({ action: "delete" })];
      const { stages } = plan(intents, world({ nodes, publicIPs: [own] }), config);
      return stages.some(({ name }) => name === "public-ip-deletions");
    };
    expect([goes("loadBalancers/kubernetes"), goes("loadBalancers/theirs", "rg1")]).toEqual([true, false]);
  });

  test("a prefix comes before an address", () => {
    const id = "/subscriptions/sub0/resourceGroups/rg0/providers/Microsoft.Network/publicIPPrefixes/pool";
    const annotations = { "azure-pip-prefix-id": id, "azure-load-balancer-ipv4": "20.9.9.9" };
    const publicIPs = indexPublicIPs([publicIP("my-pip", "20.9.9.9")]);
    expect(desiredPublicIP(subjectOf({ annotations }), "IPv4", publicIPs, config)).toMatchObject({
      name: "kubernetes-aweb-pool",
    });
  });

  test("a Service's own IP that something else uses is not reported as a problem of the Service's annotations", () => {
    const own = publicIP("kubernetes-aweb", "20.9.9.9", {
      tags: { "k8s-azure-service": "default/web" },
      ipConfiguration: { id: "/subscriptions/sub0/resourceGroups/rg0/providers/Microsoft.Network/natGateways/nat" },
    });
    const { results } = plan([intent({})], world({ nodes, publicIPs: [own] }), config);
    expect(results.get("default/web")?.problem).toBeUndefined();
  });

  test("a user's IP that something else uses is refused", () => {
    const used = {
      id: "/subscriptions/sub0/resourceGroups/rg0/providers/Microsoft.Network/networkInterfaces/nic/ipConfigurations/a",
    };
    const start = world({ nodes, publicIPs: [publicIP("my-pip", "20.9.9.9", { ipConfiguration: used })] });
    const { last } = converge([intent({ "azure-pip-name": "my-pip" })], start, config);
    expect(last.results.get("default/web")?.problem?.messages).toEqual([
      expect.stringContaining("networkInterfaces/nic"),
    ]);
  });
});

test("a Service whose DNS label another one has is refused by each plan of what it was refused for", () => {
  const own = publicIP("kubernetes-aweb", "20.1.1.1", {
    tags: {
      "k8s-azure-service": "default/web",
      "k8s-azure-cluster-name": "kubernetes",
      "k8s-azure-dns-label-service": "default/other",
    },
  });
  const observed = world({ publicIPs: [own] });
  const intent = intentOf({ annotations: { "azure-dns-label-name": "web" } });
  for (let plans = 0; plans < 2; plans += 1)
    expect(plan([intent], observed, config).results.get("default/web")?.problem?.code).toBe("DNSLabelTaken");
});

test("a public IP is deleted when its Service names another resource group, although the new one has its name", () => {
  const former = publicIP("kubernetes-aweb", "20.1.1.1", {
    id: "/subscriptions/sub0/resourceGroups/former/providers/Microsoft.Network/publicIPAddresses/kubernetes-aweb",
    tags: { "k8s-azure-service": "default/web", "k8s-azure-cluster-name": "kubernetes" },
  });
  const web = intentOf({ annotations: { "azure-load-balancer-resource-group": "rg2" } });
  const { stages } = plan([web], { ...world(), publicIPs: [former] }, config);
  const writes = stages.flatMap((stage) => stage.writes.map(({ kind, id }) => [kind, id.split("/")[4]]));
  expect(writes).toContainEqual(["put-public-ip", "rg2"]);
  expect(writes).toContainEqual(["delete-public-ip", "former"]);
});

test("a public IP whose last operation failed is written again for its Service, and no other one is", () => {
  const web = intentOf({ name: "web" });
  const settled = converge([web], world({ services: [web.service] }), config).observed;
  const publicIPs = settled.publicIPs.map((one) => ({
    ...one,
    ...(one.name?.startsWith("kubernetes-") && { provisioningState: "Failed" }),
  }));
  const { stages } = plan([web], { ...settled, publicIPs }, config);
  const writes = stages.flatMap((stage) => stage.writes);
  expect(writes.map(({ kind, services }) => [kind, services])).toEqual([["put-public-ip", ["default/web"]]]);
});

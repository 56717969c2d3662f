import { describe, expect, test } from "bun:test";

import type { PublicIPAddress } from "@azure/arm-network";

import type { Family } from "../../../../../../plugins/azure-cloud/load-balancer/model/model.ts";
import { ensurePublicIP } from "../../../../../../plugins/azure-cloud/load-balancer/plan/public-ip/ensure.ts";
import { parseIPTags } from "../../../../../../plugins/azure-cloud/load-balancer/plan/public-ip/ip-tags.ts";
import {
  clusterIn,
  dnsOwnerIn,
  servicesIn,
  withoutOwner,
} from "../../../../../../plugins/azure-cloud/load-balancer/plan/public-ip/owners.ts";
import { ownership } from "../../../../../../plugins/azure-cloud/load-balancer/plan/public-ip/ownership.ts";
import { isReleased } from "../../../../../../plugins/azure-cloud/load-balancer/plan/public-ip/plan.ts";
import { readSubject } from "../../../../../../plugins/azure-cloud/load-balancer/service/subject.ts";
import { intentOf, plannerConfigOf, type ServiceShape } from "../../fixtures.ts";
import { publicIP } from "../../world.ts";

const standard = plannerConfigOf();
const basic = plannerConfigOf({ loadBalancerSku: "basic" });
const mutating = plannerConfigOf({ enableIPTagMutationForExistingPublicIP: true });
const zones = ["1", "2", "3"];
type Config = typeof standard;
type Tags = Readonly<Record<string, string>>;

const subjectOf = (shape: ServiceShape = {}) => readSubject(intentOf(shape).service, standard).subject;
const ownTags = { "k8s-azure-service": "default/web", "k8s-azure-cluster-name": "kubernetes" };
const own = (tags: Tags = {}, more: Partial<PublicIPAddress> = {}, address = "1.2.3.4") =>
  publicIP("pip", address, { tags: { ...ownTags, ...tags }, ...more });
const label = (text: string) => ({ annotations: { "azure-dns-label-name": text } });
const asks = (text: string) => ({ annotations: { "azure-pip-ip-tags": text } });

interface Ensure {
  readonly config?: Config;
  readonly family?: Family;
}

function ensure(shape: ServiceShape, current: PublicIPAddress | undefined, { config, family }: Ensure = {}) {
  const desired = { id: "/pip", name: "pip", group: "rg0", current };
  const ensured = ensurePublicIP(subjectOf(shape), family ?? "IPv4", desired, { config: config ?? standard, zones });
  return "problem" in ensured ? ensured.problem.code : ensured.publicIP;
}

describe("the owner of a public IP", () => {
  test("a Service that is not listed in `default/nginx1,default/nginx2` is not the owner", () => {
    const one = publicIP("pip", "1.2.3.4", { tags: { ...ownTags, "k8s-azure-service": "default/web1,default/web2" } });
    expect(ownership(one, subjectOf(), "kubernetes")).toEqual({ owned: false, userAssigned: false });
  });

  test("nil properties with a matching tag make the Service the owner", () => {
    expect(ownership({ name: "pip", tags: ownTags }, subjectOf(), "kubernetes").owned).toBe(true);
  });

  test("a cluster tag in another case makes the Service the owner", () => {
    const one = own({ "k8s-azure-cluster-name": "KUBERNETES" });
    expect(ownership(one, subjectOf(), "kubernetes").owned).toBe(true);
  });
});

describe("the resource group of a public IP", () => {
  test.each([
    ["none: `rg0`", {}, "rg0"],
    ["empty string: `rg0`", { "azure-load-balancer-resource-group": " " }, "rg0"],
    ["`rg2`: `rg2`", { "azure-load-balancer-resource-group": "rg2" }, "rg2"],
  ])("%s", (_title, annotations, expected) => {
    expect(subjectOf({ annotations: { ...annotations } }).publicIPGroup).toBe(expected);
  });
});

describe("releasing an owned public IP", () => {
  test("nil properties do not release a public IP because of its IP tags", () => {
    const one = { name: "pip", tags: ownTags };
    expect(isReleased(one, subjectOf(), "pip", standard)).toBe(false);
  });
});

describe("IP tags as a list", () => {
  test.each([
    ["empty: empty slice", "", []],
    ["one entry", "a=1", [{ ipTagType: "a", tag: "1" }]],
    [
      "two entries",
      "a=1,b=2",
      [
        { ipTagType: "a", tag: "1" },
        { ipTagType: "b", tag: "2" },
      ],
    ],
  ])("%s", (_title, text, expected) => {
    expect(parseIPTags(text)).toEqual(expected);
  });
});

describe("the IP tags that a Service requests", () => {
  const current = own({}, { ipTags: [{ ipTagType: "a", tag: "b" }] });
  const tagsAfter = (shape: ServiceShape) => {
    const ensured = ensure(shape, current, { config: mutating });
    return typeof ensured === "string" ? ensured : ensured.ipTags;
  };

  test.each([
    ["no annotation: not requested", {}, current.ipTags],
    ["blank: requested with no tags", asks(""), []],
    [
      "two good pairs and one malformed: two",
      asks("a=1,b=2,c"),
      [
        { ipTagType: "a", tag: "1" },
        { ipTagType: "b", tag: "2" },
      ],
    ],
  ])("%s", (_title, shape, expected) => {
    const tags: unknown = tagsAfter(shape);
    expect(tags).toEqual(expected ?? "");
  });
});

describe("removing a Service from the tags of a public IP", () => {
  test.each([
    ["nil tags: unchanged", undefined],
    ["user-assigned with empty tags: unchanged, no references", { "k8s-azure-service": "" }],
  ])("%s", (_title, tags) => {
    expect(withoutOwner(tags, "ns2/svc2")).toBe(tags);
  });
});

test("an owner leaves a legacy tag in the spelling of today", () => {
  expect(withoutOwner({ service: "ns1/svc1,ns2/svc2" }, "ns2/svc2")).toEqual({ "k8s-azure-service": "ns1/svc1" });
});

describe("a public IP that a Service needs", () => {
  const six: Ensure = { family: "IPv6" };

  test("an IPv6 public IP with the right tags is returned without a PUT", () => {
    const current = own({}, {}, "2603::1");
    expect(ensure({}, current, six)).toBe(current);
  });

  test("a missing IPv6 public IP is created as Standard and Static, with zones", () => {
    expect(ensure({}, undefined, six)).toMatchObject({
      publicIPAddressVersion: "IPv6",
      publicIPAllocationMethod: "Static",
      sku: { name: "Standard" },
      zones,
    });
  });

  test.each([
    ["v6 label set", undefined, "v6-web"],
    ["v6 label changed", "old", "v6-web"],
  ])("%s", (_title, before, expected) => {
    const settings = before === undefined ? {} : { dnsSettings: { domainNameLabel: before } };
    const owner = before === undefined ? {} : { "k8s-azure-dns-label-service": "default/web" };
    expect(ensure(label(expected), own(owner, settings, "2603::1"), six)).toMatchObject({
      dnsSettings: { domainNameLabel: expected },
      tags: { "k8s-azure-dns-label-service": "default/web" },
    });
  });

  test("v4 label changed", () => {
    const current = own(
      { "k8s-azure-dns-label-service": "default/web" },
      { dnsSettings: { domainNameLabel: "old", fqdn: "old.eastus.example" } },
    );
    expect(ensure(label("fresh"), current)).toMatchObject({ dnsSettings: { domainNameLabel: "fresh" } });
  });

  test("a label that differs in case only causes no PUT", () => {
    const current = own(
      { "k8s-azure-dns-label-service": "default/web" },
      { dnsSettings: { domainNameLabel: "Web", fqdn: "web.eastus.example" } },
    );
    expect(ensure(label("web"), current)).toBe(current);
  });

  test("the label is kept without the annotation", () => {
    const current = own({}, { dnsSettings: { domainNameLabel: "web" } });
    expect(ensure({}, current)).toBe(current);
  });

  test("IP tags updated even if the label already matches", () => {
    const current = own(
      { "k8s-azure-dns-label-service": "default/web" },
      { dnsSettings: { domainNameLabel: "web" }, ipTags: [{ ipTagType: "FirstPartyUsage", tag: "/a" }] },
    );
    const shape = { annotations: { ...label("web").annotations, ...asks("FirstPartyUsage=/b").annotations } };
    expect(ensure(shape, current, { config: mutating })).toMatchObject({
      dnsSettings: { domainNameLabel: "web" },
      ipTags: [{ ipTagType: "FirstPartyUsage", tag: "/b" }],
    });
  });

  test("user-assigned pip gets a label without an owner tag", () => {
    const shape = { annotations: { ...label("web").annotations, "azure-pip-name": "pip" } };
    expect(ensure(shape, publicIP("pip", "1.2.3.4"))).toEqual(
      publicIP("pip", "1.2.3.4", { dnsSettings: { domainNameLabel: "web" } }),
    );
  });

  test("a legacy tag of another owner of the label is an error", () => {
    expect(ensure(label("web"), own({ "kubernetes-dns-label-service": "default/other" }))).toBe("DNSLabelTaken");
  });

  test("a tag of the label's owner in another case is the Service's own", () => {
    const current = own({ "k8s-azure-dns-label-service": "Default/Web" });
    expect(ensure(label("web"), current)).toMatchObject({
      dnsSettings: { domainNameLabel: "web" },
      tags: current.tags,
    });
  });

  test("created from a prefix with the IP tags of the annotation", () => {
    const id = "/subscriptions/s/resourceGroups/r/providers/Microsoft.Network/publicIPPrefixes/p";
    const annotations = { "azure-pip-prefix-id": id, "azure-pip-ip-tags": "a=b" };
    expect(ensure({ annotations }, undefined)).toMatchObject({
      publicIPPrefix: { id },
      ipTags: [{ ipTagType: "a", tag: "b" }],
    });
  });
});

describe("a public IP in an edge zone", () => {
  const edge = plannerConfigOf({ extendedLocationName: "edge", extendedLocationType: "EdgeZone" });

  test.each([
    ["v4 pip carries the edge zone, no zones", "IPv4"],
    ["v6 pip carries the edge zone, no zones", "IPv6"],
  ] as const)("%s", (_title, family) => {
    const created = ensure({}, undefined, { config: edge, family });
    expect(created).toMatchObject({ extendedLocation: { name: "edge", type: "EdgeZone" } });
    expect(created).not.toHaveProperty("zones");
  });
});

describe("the DNS label of a public IP that another Service asks for, too", () => {
  const asking = readSubject(intentOf({ name: "other", ...label("web") }).service, standard).subject;
  const labelAfter = (text: string, current: PublicIPAddress) => {
    const desired = { id: "/pip", name: "pip", group: "rg0", current };
    const subject = subjectOf({ annotations: { ...label(text).annotations, "azure-pip-name": "pip" } });
    return ensurePublicIP(subject, "IPv4", desired, { config: standard, zones, sharers: [asking] });
  };
  const present = (text: string) => ({ dnsSettings: { domainNameLabel: text } });

  test("stays on a user's public IP, and gives way to no empty one", () => {
    const current = publicIP("pip", "1.2.3.4", present("web"));
    expect(labelAfter("mine", current)).toEqual({ publicIP: current });
    expect(labelAfter("", current)).toEqual({ publicIP: current });
  });

  test("changes on a user's public IP when it is another one", () => {
    const current = publicIP("pip", "1.2.3.4", present("old"));
    expect(labelAfter("mine", current)).toMatchObject({ publicIP: present("mine") });
    expect(labelAfter("", current)).not.toHaveProperty(["publicIP", "dnsSettings"]);
  });

  test("gets an owner on a public IP of Services", () => {
    const owner = { "k8s-azure-dns-label-service": "default/web" };
    expect(labelAfter("web", own({}, present("web")))).toMatchObject({ publicIP: { tags: owner } });
  });
});

describe("the tags of a public IP", () => {
  const tagsAfter = (keys: Readonly<Record<string, unknown>>, tags: Tags, annotations = {}) => {
    const ensured = ensure({ annotations }, own(tags), { config: plannerConfigOf(keys) });
    return typeof ensured === "string" ? ensured : ensured.tags;
  };

  test("configured tags added and service tags kept", () => {
    expect(tagsAfter({ tags: "a=x,y=z" }, { old: "1" }, { "azure-pip-tags": "a=b,c=d" })).toEqual({
      ...ownTags,
      old: "1",
      a: "b",
      y: "z",
      c: "d",
    });
  });

  test("old tags are removed when systemTags is set", () => {
    expect(tagsAfter({ tags: "a=x", systemTags: "sys,foo" }, { old: "1", sys: "2" })).toEqual({
      ...ownTags,
      sys: "2",
      a: "x",
    });
  });

  test("an owner tag without a value is removed like the others when systemTags is set", () => {
    const tags = tagsAfter({ tags: "a=x", systemTags: "sys" }, { "k8s-azure-dns-label-service": "" });
    expect(tags).toEqual({ ...ownTags, a: "x" });
  });

  test("tags of an annotation that is gone are removed when systemTags is set, also without tags of the config", () => {
    expect(tagsAfter({ systemTags: "sys" }, { a: "b", sys: "2" })).toEqual({ ...ownTags, sys: "2" });
    expect(tagsAfter({}, { a: "b" })).toEqual({ ...ownTags, a: "b" });
  });

  test("owner tags in the spelling of older releases are replaced by those of today when systemTags is set", () => {
    const legacy = { service: "default/web", "kubernetes-cluster-name": "kubernetes" };
    const current = publicIP("pip", "1.2.3.4", { tags: legacy });
    for (const keys of [{ tags: "a=x", systemTags: "sys" }, { systemTags: "sys" }]) {
      const ensured = ensure({}, current, { config: plannerConfigOf(keys) });
      expect(ensured).toMatchObject({ tags: ownTags });
      expect(ensured).not.toHaveProperty(["tags", "service"]);
    }
    expect(ensure({}, current)).toBe(current);
  });

  test("owner tags that an annotation names in another case are left as they are, and written once", () => {
    const asked = { "azure-pip-tags": "K8S-Azure-Service=other/one,K8S-azure-cluster-name=b" };
    for (const keys of [{}, { systemTags: "sys" }, { tags: "K8S-AZURE-SERVICE=other/two" }])
      expect(tagsAfter(keys, {}, asked)).toEqual(ownTags);
    const current = own();
    expect(ensure({ annotations: asked }, current)).toBe(current);
  });

  test.each([
    ["K8s-Azure-Service=evil,a=b", { a: "b" }],
    ["K8S-AZURE-CLUSTER-NAME=other", {}],
    ["k8s-azure-service=evil,k8s-azure-cluster-name=other", {}],
    ["k8s-azure-dns-label-service=default/other", {}],
    ["Kubernetes-DNS-Label-Service=default/other", {}],
    ["service=payments", { service: "payments" }],
  ])("owners cannot be set by an annotation or the config, in whatever case: %s", (text, left) => {
    const current = own(left);
    expect(ensure({ annotations: { "azure-pip-tags": text } }, current)).toBe(current);
    expect(ensure({}, current, { config: plannerConfigOf({ tags: text }) })).toBe(current);
  });

  test("tagsMap supported", () => {
    expect(tagsAfter({ tags: "a=x", tagsMap: { a: "m", b: "n" } }, {})).toEqual({ ...ownTags, a: "m", b: "n" });
  });
});

describe("the IP tags of a public IP", () => {
  const usage = (tag: string) => ({ ipTagType: "FirstPartyUsage", tag });
  const routing = (tag: string) => ({ ipTagType: "RoutingPreference", tag });

  test.each([
    ["mutation disabled: no-op", asks("FirstPartyUsage=/b"), [usage("/a")], standard, [usage("/a")]],
    ["annotation absent: no-op", {}, [usage("/a")], mutating, [usage("/a")]],
    ["FirstPartyUsage equal: no-op", asks("FirstPartyUsage=/a"), [usage("/a")], mutating, [usage("/a")]],
    ["FirstPartyUsage different: set", asks("FirstPartyUsage=/b"), [usage("/a")], mutating, [usage("/b")]],
    [
      "other type dropped: passed through",
      asks("FirstPartyUsage=/a"),
      [usage("/a"), routing("x")],
      mutating,
      [usage("/a")],
    ],
    ["other type changed: passed through", asks("RoutingPreference=y"), [routing("x")], mutating, [routing("y")]],
    [
      "other type new: passed through",
      asks("FirstPartyUsage=/a,RoutingPreference=x"),
      [usage("/a")],
      mutating,
      [usage("/a"), routing("x")],
    ],
    ["empty annotation: cleared", asks(""), [usage("/a")], mutating, []],
    ["nil properties: tags set", asks("FirstPartyUsage=/a"), undefined, mutating, [usage("/a")]],
    ["equal other tags: no-op", asks("RoutingPreference=x"), [routing("x")], mutating, [routing("x")]],
    ["new FirstPartyUsage: added", asks("FirstPartyUsage=/a"), [], mutating, [usage("/a")]],
  ] as const)("%s", (title, shape, present, config, expected) => {
    const current = own({}, present === undefined ? {} : { ipTags: [...present] });
    const ensured = ensure(shape, current, { config });
    if (title.endsWith("no-op")) expect(ensured).toBe(current);
    expect(typeof ensured === "string" ? ensured : ensured.ipTags).toEqual([...expected]);
  });
});

describe("the settings of a public IP", () => {
  const settings = (current: PublicIPAddress, about: Ensure) => {
    const ensured = ensure({}, current, about);
    if (typeof ensured === "string") return ensured;
    return [ensured.publicIPAddressVersion ?? "", ensured.publicIPAllocationMethod ?? "", ensured === current];
  };

  test.each([
    ["correct v4: unchanged", own(), {}, ["IPv4", "Static", true]],
    ["v4 pip marked IPv6: fixed", own({}, { publicIPAddressVersion: "IPv6" }), {}, ["IPv4", "Static", false]],
    [
      "v6 standard Dynamic: Static",
      own({}, { publicIPAllocationMethod: "Dynamic" }, "2603::1"),
      { family: "IPv6" },
      ["IPv6", "Static", false],
    ],
    [
      "v6 basic Static: Dynamic",
      own({}, { sku: { name: "Basic" } }, "2603::1"),
      { family: "IPv6", config: basic },
      ["IPv6", "Dynamic", false],
    ],
  ] as const)("%s", (_title, current, about, expected) => {
    expect(settings(current, about)).toEqual([...expected]);
  });
});

const tagCases = (key: string, legacy: string) =>
  [
    ["nil: none", undefined, ""],
    ["unrelated tag: none", { other: "x" }, ""],
    ["new key: value", { [key]: "value" }, "value"],
    ["legacy key: value", { [legacy]: "value" }, "value"],
    ["new key before legacy key", { [key]: "value", [legacy]: "old" }, "value"],
  ] as const;

describe("the DNS owner in the tags of a public IP", () => {
  test.each(tagCases("k8s-azure-dns-label-service", "kubernetes-dns-label-service"))("%s", (_title, tags, expected) => {
    expect(dnsOwnerIn(tags)).toBe(expected);
  });
});

describe("the Services in the tags of a public IP", () => {
  test.each(tagCases("k8s-azure-service", "service"))("%s", (_title, tags, expected) => {
    expect(servicesIn(tags).join()).toBe(expected);
  });
});

describe("the cluster in the tags of a public IP", () => {
  test.each(tagCases("k8s-azure-cluster-name", "kubernetes-cluster-name"))("%s", (_title, tags, expected) => {
    expect(clusterIn(tags)).toBe(expected);
  });
});

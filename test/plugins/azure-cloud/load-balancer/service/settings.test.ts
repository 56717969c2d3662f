import { describe, expect, test } from "bun:test";

import type { PrivateLinkService } from "@azure/arm-network";

import type { Observed } from "../../../../../plugins/azure-cloud/load-balancer/model/model.ts";
import { plan } from "../../../../../plugins/azure-cloud/load-balancer/plan/plan.ts";
import { annotations as rows } from "../../../../../plugins/azure-cloud/load-balancer/service/annotations.ts";
import { readSettings } from "../../../../../plugins/azure-cloud/load-balancer/service/settings.ts";
import { readSubject } from "../../../../../plugins/azure-cloud/load-balancer/service/subject.ts";
import { intentOf, plannerConfigOf } from "../fixtures.ts";
import { converge, nodesNamed, world } from "../world.ts";

type Annotations = Readonly<Record<string, string>>;

const config = plannerConfigOf();
type Config = typeof config;

const nodes = nodesNamed("node-0");
const linked = { "azure-load-balancer-internal": "true", "azure-pls-create": "true" };
const pls = (more: Annotations): Annotations => ({
  ...linked,
  ...Object.fromEntries(Object.entries(more).map(([key, value]) => [`azure-pls-${key}`, value])),
});
const intent = (annotations: Annotations) => intentOf({ nodes, annotations });
const created = (annotations: Annotations = linked, used: Config = config): Observed =>
  converge([intent(annotations)], world({ nodes }), used).observed;
const linkOf = (annotations: Annotations, used: Config = config) => created(annotations, used).privateLinkServices[0];
const writes = (annotations: Annotations, from: Observed, used: Config = config): readonly string[] =>
  plan([intent(annotations)], from, used).stages.flatMap((stage) => stage.writes.map(({ kind }) => kind));
const problemOf = (annotations: Annotations): string | undefined =>
  plan([intent(annotations)], world({ nodes }), config)
    .results.get("default/web")
    ?.problem?.messages.join();
const put = ["put-private-link-service"];

describe("a Service that asks for a private link service", () => {
  test.each([
    ["nil: no", undefined, 0],
    ["empty: no", "", 0],
    ["`false`: no", "false", 0],
    ["`true`: yes", "true", 1],
    ["`True`, with spaces: yes", " True ", 1],
  ])("%s", (_title, value, expected) => {
    const annotations = { ...linked, ...(value !== undefined && { "azure-pls-create": value }) };
    const { "azure-pls-create": _create, ...without } = annotations;
    expect(created(value === undefined ? without : annotations).privateLinkServices).toHaveLength(expected);
  });
});

test("a Service without annotations has no settings and no problems", () => {
  const { settings, problems } = readSettings({ metadata: { name: "web" } });
  expect([settings.get(rows.internal), problems]).toEqual([undefined, []]);
});

describe("the network policies of the subnet", () => {
  test("enabled policies are disabled by a PUT of the subnet", () => {
    const from = converge([intent({ "azure-load-balancer-internal": "true" })], world({ nodes }), config).observed;
    expect(writes(linked, from)).toEqual(["put-subnet", ...put]);
  });

  test("disabled policies cause no PUT of the subnet", () => {
    const from = converge([intent({ "azure-load-balancer-internal": "true" })], world({ nodes }), config).observed;
    const subnets = new Map(
      [...from.subnets].map(([name, one]) => [name, { ...one, privateLinkServiceNetworkPolicies: "Disabled" }]),
    );
    expect(writes(linked, { ...from, subnets })).toEqual(put);
  });
});

describe("the expected private link service", () => {
  test("all fields applied at once", () => {
    const annotations = pls({
      name: "mine",
      "ip-configuration-subnet": "lb-subnet",
      "ip-configuration-ip-address-count": "2",
      "ip-configuration-ip-address": "10.241.0.9",
      fqdns: "a.example b.example",
      "proxy-protocol": "true",
      visibility: "sub1 sub2",
      "auto-approval": "sub1",
    });
    expect(linkOf(annotations)).toMatchObject({
      name: "mine",
      ipConfigurations: [
        { name: "lb-subnet-mine-static-10.241.0.9", primary: true, privateIPAllocationMethod: "Static" },
        { name: "lb-subnet-mine-dynamic-0", primary: false, privateIPAllocationMethod: "Dynamic" },
      ],
      fqdns: ["a.example", "b.example"],
      enableProxyProtocol: true,
      visibility: { subscriptions: ["sub1", "sub2"] },
      autoApproval: { subscriptions: ["sub1"] },
      tags: { "k8s-azure-cluster-name": "kubernetes", "k8s-azure-owner-service": "default/web" },
    });
    expect(writes(annotations, created(annotations))).toEqual([]);
  });
});

const withLink = (observed: Observed, more: Partial<PrivateLinkService>): Observed => ({
  ...observed,
  privateLinkServices: observed.privateLinkServices.map((one) => ({ ...one, ...more })),
});

describe("the proxy protocol of a private link service", () => {
  test.each([
    ["nil and absent: unchanged", undefined, {}, []],
    ["false and absent: unchanged", false, {}, []],
    ["nil and `false`: unchanged", undefined, { "proxy-protocol": "false" }, []],
    ["true and `true`: unchanged", true, { "proxy-protocol": "true" }, []],
    ["true and absent: changed", true, {}, put],
    ["nil and `true`: changed", undefined, { "proxy-protocol": "true" }, put],
    ["false and `true`: changed", false, { "proxy-protocol": "true" }, put],
  ])("%s", (_title, present, annotations, expected) => {
    const from = withLink(created(), present === undefined ? {} : { enableProxyProtocol: present });
    expect(writes(pls({ ...annotations }), from)).toEqual(expected);
  });
});

describe("the names of a private link service", () => {
  test.each([
    ["same: unchanged", ["a", "b"], "a b", []],
    ["one more: changed", ["a"], "a b", put],
    ["one less: changed", ["a", "b"], "a", put],
    ["none any more: changed", ["a"], "", put],
  ])("%s", (_title, fqdns, text, expected) => {
    expect(writes(pls({ fqdns: text }), withLink(created(), { fqdns }))).toEqual(expected);
  });
});

describe("the visibility of a private link service", () => {
  test.each([
    ["`*` same: unchanged", ["*"], [], { visibility: "*" }, []],
    ["`*` to a list: changed", ["*"], [], { visibility: "a" }, put],
    ["a list to `*`: changed", ["a"], [], { visibility: "*" }, put],
    ["auto-approval differs: changed", ["a"], ["b"], { visibility: "a", "auto-approval": "a" }, put],
    ["auto-approval gone: changed", ["a"], ["a"], { visibility: "a" }, put],
  ])("%s", (_title, visible, approved, annotations, expected) => {
    const from = withLink(created(), {
      visibility: { subscriptions: [...visible] },
      autoApproval: { subscriptions: [...approved] },
    });
    expect(writes(pls({ ...annotations }), from)).toEqual(expected);
  });
});

describe("the tags of a private link service", () => {
  const owner = { "k8s-azure-cluster-name": "kubernetes", "k8s-azure-owner-service": "default/web" };
  const tagsAfter = (keys: Readonly<Record<string, unknown>>) => {
    const from = withLink(created(), { tags: { ...owner, old: "1", sys: "2" } });
    return converge([intent(linked)], from, plannerConfigOf(keys)).observed.privateLinkServices[0]?.tags;
  };

  test.each([
    ["same: unchanged, owner and cluster tags kept", {}, { ...owner, old: "1", sys: "2" }],
    ["configured tags added", { tags: "a=b" }, { ...owner, old: "1", sys: "2", a: "b" }],
    ["systemTags honoured", { tags: "a=b", systemTags: "sys" }, { ...owner, sys: "2", a: "b" }],
    ["tagsMap honoured", { tags: "a=b", tagsMap: { a: "c" } }, { ...owner, old: "1", sys: "2", a: "c" }],
  ])("%s", (_title, keys, expected) => {
    expect(tagsAfter({ ...keys })).toEqual({ ...expected });
  });
});

describe("the subnet of a private link service", () => {
  const subnetOf = (annotations: Annotations) =>
    linkOf(annotations)?.ipConfigurations?.[0]?.subnet?.id?.split("/").at(-1);
  const frontend = { "azure-load-balancer-internal-subnet": "lb-subnet" };

  test.each([
    ["PLS subnet", { "azure-pls-ip-configuration-subnet": "lb-subnet" }, "lb-subnet"],
    [
      "PLS subnet before that of the frontend",
      { ...frontend, "azure-pls-ip-configuration-subnet": "subnet0" },
      "subnet0",
    ],
    ["empty, then LB subnet when internal", { ...frontend, "azure-pls-ip-configuration-subnet": "" }, "lb-subnet"],
    ["neither: that of the config", {}, "subnet0"],
  ])("%s", (_title, annotations, expected) => {
    expect(subnetOf({ ...linked, ...annotations })).toBe(expected);
  });

  test("an external Service without floating IP uses the subnet of the config, whatever the internal subnet is", () => {
    const external = { "azure-pls-create": "true", "azure-disable-load-balancer-floating-ip": "true", ...frontend };
    expect(subnetOf(external)).toBe("subnet0");
  });
});

describe("the number of IP configurations", () => {
  const count = (value: string) =>
    linkOf(pls({ "ip-configuration-ip-address-count": value }))?.ipConfigurations?.length;

  test.each([
    ["none: 1", undefined, 1],
    ["valid: value", "8", 8],
    ["spaces ok", " 2 ", 2],
  ])("%s", (_title, value, expected) => {
    expect(value === undefined ? linkOf(linked)?.ipConfigurations?.length : count(value)).toBe(expected);
  });

  test.each([
    ["below 1: error", "0"],
    ["above 8: error", "9"],
    ["non-number: error", "two"],
    ["empty: error", ""],
  ])("%s", (_title, value) => {
    expect(problemOf(pls({ "ip-configuration-ip-address-count": value }))).toContain("ip-address-count");
  });
});

describe.each([
  ["TestGetPLSFqdns", "fqdns", (link: PrivateLinkService) => link.fqdns],
  ["TestGetPLSVisibility", "visibility", (link: PrivateLinkService) => link.visibility?.subscriptions],
  ["TestGetPLSAutoApproval", "auto-approval", (link: PrivateLinkService) => link.autoApproval?.subscriptions],
] as const)("%s", (name, key, listOf) => {
  test.each([
    ["none", undefined, []],
    ["one", "a", ["a"]],
    ["several", "a b", ["a", "b"]],
    ["spaces", "  a   b ", ["a", "b"]],
  ])("%s", (_title, value, expected) => {
    const link = linkOf(value === undefined ? linked : pls({ [key]: value }));
    expect([...((link && listOf(link)) ?? [])]).toEqual(expected);
  });

  test("`*` with others", () => {
    const link = linkOf(pls({ [key]: "a *" }));
    expect([...((link && listOf(link)) ?? [])]).toEqual(name === "TestGetPLSVisibility" ? ["*"] : ["a", "*"]);
  });
});

describe("static addresses of a private link service", () => {
  const addresses = (value: string) =>
    linkOf(pls({ "ip-configuration-ip-address": value, "ip-configuration-ip-address-count": "8" }))
      ?.ipConfigurations?.filter(({ privateIPAddress }) => privateIPAddress !== undefined)
      .map(({ privateIPAddress, primary }) => [privateIPAddress, primary]);

  test.each([
    ["none", "", []],
    ["one", "10.240.0.9", [["10.240.0.9", true]]],
    [
      "several, the first is primary",
      " 10.240.0.9   10.240.0.8 ",
      [
        ["10.240.0.9", true],
        ["10.240.0.8", false],
      ],
    ],
  ])("%s", (_title, value, expected) => {
    expect(addresses(value)).toEqual(expected);
  });

  test.each([
    ["bad address: error", "10.240.0"],
    ["IPv6 address: error", "fd00::1"],
  ])("%s", (_title, value) => {
    expect(problemOf(pls({ "ip-configuration-ip-address": value }))).toContain("IPv4");
  });
});

describe("managed private link services", () => {
  test.each([
    ["nil tags: no", undefined, false],
    ["empty tags: no", {}, false],
    ["other cluster: no", { "k8s-azure-cluster-name": "other" }, false],
    ["same cluster: yes", { "k8s-azure-cluster-name": "KUBERNETES", "k8s-azure-owner-service": "default/web" }, true],
  ])("%s", (_title, tags, expected) => {
    const [link] = created().privateLinkServices.map(({ tags: _tags, ...rest }) => rest);
    const from = { ...created(), privateLinkServices: [{ ...link, ...(tags && { tags }) }] };
    expect(plan([intent(linked)], from, config).results.get("default/web")?.problem === undefined).toBe(expected);
  });
});

describe("the owner of a private link service", () => {
  test.each([
    ["no owner tag: another's, and shared", {}],
    ["another service: shared, nothing written", { "k8s-azure-owner-service": "default/other" }],
  ])("%s", (_title, owner) => {
    const tags = { "k8s-azure-cluster-name": "kubernetes", ...owner };
    expect(writes(linked, withLink(created(), { tags }))).toEqual([]);
  });
});

describe("settings beyond the creation of a private link service", () => {
  const others = { tags: { "k8s-azure-cluster-name": "kubernetes", "k8s-azure-owner-service": "default/other" } };
  const isRefused = (annotations: Annotations): boolean =>
    plan([intent(annotations)], withLink(created(), others), config).results.get("default/web")?.problem !== undefined;

  test("a Service that only asks for a link has none", () => expect(isRefused(linked)).toBe(false));

  test.each([
    ["name", "x"],
    ["ip-configuration-subnet", "subnet0"],
    ["ip-configuration-ip-address-count", "2"],
    ["ip-configuration-ip-address", "10.240.0.9"],
    ["fqdns", "a"],
    ["proxy-protocol", "true"],
    ["visibility", "*"],
    ["auto-approval", "a"],
  ])("a Service with %s has some", (key, value) => {
    expect(isRefused(pls({ [key]: value }))).toBe(true);
  });
});

describe("the private link service of a Service", () => {
  test("an IPv6 frontend of a dual-stack Service with a link is skipped", () => {
    const { subject } = readSubject(intentOf({ spec: { ipFamilies: ["IPv6", "IPv4"] } }).service, config);
    const shape = intentOf({ nodes, annotations: linked, spec: { ipFamilies: [...subject.families] } });
    const { observed } = converge([shape], world({ nodes }), config);
    expect(observed.privateLinkServices.map(({ name }) => name)).toEqual(["pls-aweb"]);
  });

  test("a deletion without a link changes nothing", () => {
    const plain = converge([intent({ "azure-load-balancer-internal": "true" })], world({ nodes }), config).observed;
    const gone = plan([{ ...intent(linked), action: "delete" }], plain, config);
    expect(gone.stages.map(({ name }) => name)).not.toContain("private-link-deletions");
  });

  test("one in another resource group is removed with its service", () => {
    const first = created(pls({ "resource-group": "links" }));
    expect(converge([{ ...intent(linked), action: "delete" }], first, config).observed.privateLinkServices).toEqual([]);
  });
});

test("the only annotation of a Service is read with its prefix in another case where its key is", () => {
  const given = { "Service.Beta.Kubernetes.io/azure-load-balancer-configurations": "lb2" };
  const { settings } = readSettings({ metadata: { name: "web", namespace: "default", annotations: given } });
  expect(settings.get(rows.configurations)).toEqual(["lb2"]);
});

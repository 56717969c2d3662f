import { describe, expect, setDefaultTimeout, test } from "bun:test";

import type { FrontendIPConfiguration, LoadBalancer } from "@azure/arm-network";

import { sameId } from "../../../../../plugins/azure-cloud/load-balancer/model/ids.ts";
import type { Observed, ServiceIntent } from "../../../../../plugins/azure-cloud/load-balancer/model/model.ts";
import { frontendsOf } from "../../../../../plugins/azure-cloud/load-balancer/plan/draft/frontends.ts";
import { plan } from "../../../../../plugins/azure-cloud/load-balancer/plan/plan.ts";
import { readSubject } from "../../../../../plugins/azure-cloud/load-balancer/service/subject.ts";
import { intentOf, plannerConfigOf, type ServiceShape } from "../fixtures.ts";
import { converge, nodesNamed, publicIP, usersBalancer, world } from "../world.ts";

setDefaultTimeout(120_000);

const standard = plannerConfigOf();
const basic = plannerConfigOf({ loadBalancerSku: "basic" });
type Config = typeof standard;

const nodes = nodesNamed("node-0", "node-1");
const vmSets = new Map(nodes.map(({ metadata }) => [metadata?.name ?? "", "vmss0"]));
const start = (about: Partial<Observed> = {}) => world({ nodes, vmSets, ...about });
const internal = { "azure-load-balancer-internal": "true" };
const dual = { ipFamilies: ["IPv4", "IPv6"] };
const udp = { name: "dns", protocol: "UDP", port: 53, nodePort: 30_053 };
const tcp = (port: number) => ({ name: `tcp-${port}`, protocol: "TCP", port, nodePort: 30_000 + port });

const created = (shape: ServiceShape = {}, from = start(), config: Config = standard): Observed =>
  converge([intentOf({ nodes, ...shape })], from, config).observed;
const planned = (shape: ServiceShape, from: Observed, config: Config = standard) =>
  plan([intentOf({ nodes, ...shape })], from, config);
const deleted = (shape: ServiceShape, from: Observed, config: Config = standard): Observed =>
  converge([intentOf({ nodes, ...shape, action: "delete" })], from, config).observed;
const kinds = ({ stages }: ReturnType<typeof plan>) => stages.flatMap(({ writes }) => writes.map(({ kind }) => kind));
const resultOf = ({ results }: ReturnType<typeof plan>, key = "default/web") => results.get(key);
const namesIn = (list: readonly { name?: string }[] | undefined): readonly string[] =>
  (list ?? []).map(({ name = "" }) => name).toSorted();
const publicIPsIn = ({ publicIPs }: Observed): readonly string[] => namesIn(publicIPs);

/** Names of everything in the first load balancer. */
const partsOf = ({ loadBalancers: [one] }: Observed) => ({
  frontends: namesIn(one?.frontendIPConfigurations),
  rules: namesIn(one?.loadBalancingRules),
  probes: namesIn(one?.probes),
});

const changed = (observed: Observed, change: (one: LoadBalancer) => Partial<LoadBalancer>): Observed => ({
  ...observed,
  loadBalancers: observed.loadBalancers.map((one) => ({ ...one, ...change(one) })),
});

describe("the load balancer of a Service", () => {
  test.each([
    ["unchanged external LB: no PUT", {}],
    ["unchanged internal LB: no PUT", { annotations: internal }],
  ])("%s", (_title, shape) => {
    expect(planned(shape, created(shape)).stages).toEqual([]);
  });

  test.each([
    ["stale FIP, rule, probe replaced on basic", basic],
    ["stale FIP, rule, probe replaced on standard", standard],
  ])("%s", (_title, config) => {
    const shape = { annotations: internal };
    const stale = changed(created(shape, start(), config), (one) => ({
      frontendIPConfigurations: [{ ...one.frontendIPConfigurations?.[0], name: "aweb-old", id: `${one.id}/old` }],
      loadBalancingRules: (one.loadBalancingRules ?? []).map((rule) => ({
        ...rule,
        name: "aweb-TCP-81",
        frontendIPConfiguration: { id: `${one.id}/old` },
      })),
      probes: (one.probes ?? []).map((probe) => ({ ...probe, name: "aweb-TCP-81" })),
    }));
    expect(partsOf(created(shape, stale, config))).toEqual({
      frontends: ["aweb"],
      rules: ["aweb-TCP-80"],
      probes: ["aweb-TCP-80"],
    });
  });

  test("deleting a Service on an absent load balancer succeeds", () => {
    const gone = plan([intentOf({ action: "delete" })], start(), standard);
    expect([gone.stages, resultOf(gone)?.problem]).toEqual([[], undefined]);
  });

  test.each([
    ["enableTcpReset added: PUT", undefined],
    ["enableTcpReset false to true flipped: PUT", false],
  ])("%s", (_title, present) => {
    const before = changed(created(), ({ loadBalancingRules = [] }) => ({
      loadBalancingRules: loadBalancingRules.map(({ enableTcpReset: _reset, ...rule }) => ({
        ...rule,
        ...(present !== undefined && { enableTcpReset: present }),
      })),
    }));
    expect(kinds(planned({}, before))).toEqual(["put-load-balancer"]);
    expect(created({}, before).loadBalancers[0]?.loadBalancingRules?.[0]?.enableTcpReset).toBe(true);
  });

  test("UDP service of two families reconciled", () => {
    const { loadBalancers } = created({ spec: { ...dual, ports: [udp] } });
    expect(loadBalancers[0]?.loadBalancingRules?.map(({ name, protocol }) => [name, protocol])).toEqual([
      ["aweb-UDP-53", "Udp"],
      ["aweb-UDP-53-IPv6", "Udp"],
    ]);
    expect(loadBalancers[0]?.probes ?? []).toEqual([]);
  });

  test("a rule of local UDP traffic uses the HTTP health probe", () => {
    const spec = { externalTrafficPolicy: "Local", healthCheckNodePort: 32_000, ports: [udp] };
    const [one] = created({ spec }).loadBalancers;
    expect(one?.probes).toMatchObject([{ name: "aweb-TCP-32000", protocol: "Http", requestPath: "/healthz" }]);
    expect(one?.loadBalancingRules?.[0]?.probe?.id).toEndWith("/probes/aweb-TCP-32000");
  });

  test("a load balancer in `loadBalancerResourceGroup` gets the same result", () => {
    const config = plannerConfigOf({ loadBalancerResourceGroup: "lbs" });
    const put = planned({}, start(), config)
      .stages.flatMap(({ writes }) => writes)
      .find(({ kind }) => kind === "put-load-balancer");
    expect([put?.resourceGroup, put?.id]).toEqual([
      "lbs",
      "/subscriptions/sub0/resourceGroups/lbs/providers/Microsoft.Network/loadBalancers/kubernetes",
    ]);
    const end = created({}, start(), config);
    expect([partsOf(end), planned({}, end, config).stages]).toEqual([partsOf(created()), []]);
  });
});

describe("the status of a Service", () => {
  const statusIn = (shape: ServiceShape, from: Observed) => resultOf(planned(shape, from))?.status?.ingress;

  test("an internal Service reports its private IP", () => {
    const shape = { annotations: { ...internal, "azure-load-balancer-ipv4": "10.240.9.9" } };
    expect(statusIn(shape, created(shape))).toEqual([{ ip: "10.240.9.9" }]);
  });

  test("an external Service reports the address of its public IP and the additional IPs", () => {
    const shape = { annotations: { "azure-pip-name": "my-pip", "azure-additional-public-ips": "198.51.100.8" } };
    expect(statusIn(shape, created(shape))).toEqual([{ ip: "20.9.9.9" }, { ip: "198.51.100.8" }]);
  });

  test("one address per family, IPv4 first", () => {
    const shape = { spec: { ipFamilies: ["IPv6", "IPv4"] } };
    expect(statusIn(shape, created(shape))?.map(({ ip = "" }) => ip.includes(":"))).toEqual([false, true]);
  });

  test.each([
    ["external", {}],
    ["internal", internal],
  ])("the %s frontend for IPv4 is created first, whatever the order of the Service", (_title, annotations) => {
    const [balancer] = created({ annotations, spec: { ipFamilies: ["IPv6", "IPv4"] } }).loadBalancers;
    expect(balancer?.frontendIPConfigurations?.map(({ name }) => name)).toEqual(["aweb", "aweb-IPv6"]);
  });

  test("a frontend that was created again comes last, as it does on the load balancer", () => {
    const shape = { spec: { ipFamilies: ["IPv4", "IPv6"] } };
    const again = changed(created(shape), ({ frontendIPConfigurations = [] }) => ({
      frontendIPConfigurations: frontendIPConfigurations.toReversed(),
    }));
    expect(statusIn(shape, again)?.map(({ ip = "" }) => ip.includes(":"))).toEqual([true, false]);
  });

  test.each([
    ["no LB: nil", start()],
    ["FIP not owned: nil", start({ loadBalancers: [usersBalancer("kubernetes")] })],
    ["no FIP: nil", changed(created(), () => ({ frontendIPConfigurations: [], loadBalancingRules: [] }))],
  ])("%s", (_title, from) => {
    const unfinished = { ...from, publicIPs: from.publicIPs.filter(({ name }) => name !== "kubernetes-aweb") };
    expect(statusIn({}, unfinished)).toBeUndefined();
  });

  test("a public IP without an address is not reported until it has one", () => {
    const done = created();
    const publicIPs = done.publicIPs.map(({ ipAddress: _address, ...one }) => one);
    const waiting = planned({}, { ...done, publicIPs });
    expect([resultOf(waiting)?.status, resultOf(waiting)?.settled]).toEqual([undefined, false]);
  });
});

const owned = (name: string, services: string, more = {}) =>
  publicIP(name, `20.1.1.${name.length}`, {
    tags: { "k8s-azure-service": services, "k8s-azure-cluster-name": "kubernetes" },
    ...more,
  });

describe("the existence of a public IP", () => {
  // A Service exists in Azure as long as its deletion has something to write.
  const exists = (shape: ServiceShape, ...publicIPs: readonly ReturnType<typeof publicIP>[]): boolean =>
    plan([intentOf({ ...shape, action: "delete" })], start({ publicIPs }), standard).stages.length > 0;

  test.each([
    ["PIPs of every enabled family exist: true", {}, [owned("kubernetes-aweb", "default/web")], true],
    ["missing PIP: false", {}, [owned("theirs", "default/other")], false],
    [
      "non-public wanted IP: false",
      { annotations: { "azure-load-balancer-ipv4": "10.0.0.1" } },
      [publicIP("x", "20.1.1.1")],
      false,
    ],
  ])("%s", (_title, shape, publicIPs, expected) => {
    expect(exists(shape, ...publicIPs)).toBe(expected);
  });
});

describe("the public IPs of a Service", () => {
  const after = (shape: ServiceShape, config: Config, ...publicIPs: readonly ReturnType<typeof publicIP>[]) =>
    created(shape, start({ publicIPs }), config);
  const mutating = plannerConfigOf({ enableIPTagMutationForExistingPublicIP: true });
  const ipTags = [{ ipTagType: "FirstPartyUsage", tag: "/a" }];
  const asks = (text: string) => ({ annotations: { "azure-pip-ip-tags": text } });

  test("an internal Service without a public IP gets none", () => {
    expect(after({ annotations: internal }, standard).publicIPs).toEqual([]);
  });

  test("a public IP of another Service is untouched", () => {
    const theirs = owned("theirs", "default/other");
    expect(after({ annotations: internal }, standard, theirs).publicIPs).toEqual([theirs]);
  });

  test("two unwanted public IPs are deleted, and the missing one is created", () => {
    const end = after({}, standard, owned("one", "default/web"), owned("second", "default/web"));
    expect(publicIPsIn(end)).toEqual(["kubernetes-aweb"]);
  });

  test("a missing public IP with the name `testPIP` is an error, and nothing is deleted", () => {
    const annotations = { "azure-pip-name": "testPIP" };
    const refused = planned({ annotations }, start({ publicIPs: [owned("one", "default/web")] }));
    expect([refused.stages, resultOf(refused)?.problem?.code]).toEqual([[], "PublicIPNotFound"]);
  });

  test("another owned public IP is deleted when the named one is present", () => {
    const annotations = { "azure-pip-name": "testPIP" };
    const end = after({ annotations }, standard, publicIP("testPIP", "20.9.9.1"), owned("one", "default/web"));
    expect(publicIPsIn(end)).toEqual(["testPIP"]);
  });

  test("an unwanted public IP that another Service refers to is kept", () => {
    const end = after({}, standard, owned("one", "default/web,default/other"));
    expect(publicIPsIn(end)).toEqual(["kubernetes-aweb", "one"]);
  });

  test("unwanted pips deleted and IP tags of the wanted one updated in place", () => {
    const wanted = owned("kubernetes-aweb", "default/web", { ipTags });
    const end = after(asks("FirstPartyUsage=/b"), mutating, wanted, owned("one", "default/web"));
    expect(end.publicIPs).toMatchObject([
      { name: "kubernetes-aweb", ipAddress: wanted.ipAddress, ipTags: [{ ipTagType: "FirstPartyUsage", tag: "/b" }] },
    ]);
  });

  test("a public IP with matching IP tags is untouched", () => {
    const first = created(asks("FirstPartyUsage=/a"));
    expect(planned(asks("FirstPartyUsage=/a"), first).stages).toEqual([]);
  });

  test("a named public IP of another owner has only its tag changed, and is not deleted", () => {
    const theirs = owned("theirs", "default/other");
    const end = after({ annotations: { "azure-pip-name": "theirs" } }, standard, theirs);
    expect(end.publicIPs).toMatchObject([
      { name: "theirs", tags: { ...theirs.tags, "k8s-azure-service": "default/other,default/web" } },
    ]);
  });

  test("a public IP shared by two Services is kept without the deleted Service in its tag", () => {
    const shared = start({ publicIPs: [owned("shared", "default/web,default/other")] });
    expect(deleted({}, shared).publicIPs.map(({ tags }) => tags?.["k8s-azure-service"])).toEqual(["default/other"]);
  });

  test("a missing public IP is created", () => {
    expect(publicIPsIn(after({}, standard))).toEqual(["kubernetes-aweb"]);
  });

  test("another FirstPartyUsage is changed in place, without a deletion, when mutation is enabled", () => {
    const first = created(asks("FirstPartyUsage=/a"), start(), mutating);
    expect(kinds(planned(asks("FirstPartyUsage=/b"), first, mutating))).toEqual(["put-public-ip"]);
  });

  test("other IP tags delete and create the public IP when mutation is disabled", () => {
    const first = created(asks("FirstPartyUsage=/a"));
    expect(kinds(planned(asks("FirstPartyUsage=/b"), first))).toEqual([
      "release-pools",
      "delete-load-balancer",
      "delete-public-ip",
    ]);
    const again = created(asks("FirstPartyUsage=/b"), first).publicIPs.find(({ name }) => name === "kubernetes-aweb");
    expect(again?.ipTags).toEqual([{ ipTagType: "FirstPartyUsage", tag: "/b" }]);
  });

  const single6 = { spec: { ipFamilies: ["IPv6"] } };
  const dual6 = { spec: { ipFamilies: ["IPv6", "IPv4"] } };

  test.each([
    ["IPv6 becomes dual-stack", single6, dual6, { "kubernetes-aweb": "IPv4", "kubernetes-aweb-IPv6": "IPv6" }],
    ["dual-stack becomes IPv6", dual6, single6, { "kubernetes-aweb": "IPv6" }],
  ])("%s: the public IP that both have by name is created again in the other family", (_what, from, to, expected) => {
    const end = created(to, created(from));
    const families = end.publicIPs
      .filter(({ name = "" }) => name.startsWith("kubernetes-"))
      .map(({ name, ipAddress }) => [name, ipAddress?.includes(":") === true ? "IPv6" : "IPv4"]);
    expect(Object.fromEntries(families)).toEqual({ ...expected });
    const frontends = end.loadBalancers.flatMap(({ frontendIPConfigurations = [] }) => frontendIPConfigurations);
    expect(new Set(frontends.map(({ publicIPAddress }) => publicIPAddress?.id?.split("/").at(-1)))).toEqual(
      new Set(Object.keys(expected)),
    );
    expect(planned(to, end).stages).toEqual([]);
  });

  test.each([
    ["IPv6 becomes dual-stack", single6, dual6, { aweb: "IPv4", "aweb-IPv6": "IPv6" }],
    ["dual-stack becomes IPv6", dual6, single6, { aweb: "IPv6" }],
  ])("%s: so is the internal frontend that both have by name", (_what, from, to, expected) => {
    const inside = (shape: typeof from) => ({ ...shape, annotations: internal });
    const first = planned(inside(to), created(inside(from)));
    const left = first.stages.flatMap(({ writes }) =>
      writes.flatMap((write) =>
        write.kind === "put-load-balancer" ? (write.body.frontendIPConfigurations ?? []) : [],
      ),
    );
    expect(namesIn(left)).not.toContain("aweb");
    const end = created(inside(to), created(inside(from)));
    const versions = end.loadBalancers
      .flatMap(({ frontendIPConfigurations = [] }) => frontendIPConfigurations)
      .map(({ name, privateIPAddressVersion = "IPv4" }) => [name, privateIPAddressVersion]);
    expect(Object.fromEntries(versions)).toEqual({ ...expected });
    expect(planned(inside(to), end).stages).toEqual([]);
  });

  test("a public IP of the other family that another Service has, too, is not created again", () => {
    const shared = owned("kubernetes-aweb", "default/web,default/other", { publicIPAddressVersion: "IPv6" });
    expect(kinds(planned({}, start({ publicIPs: [shared] })))).not.toContain("delete-public-ip");
  });

  test("no load balancer is created for tags alone while a public IP is created again", () => {
    const tagged = plannerConfigOf({ tags: "a=x" });
    const first = created(asks("FirstPartyUsage=/a"));
    const left = {
      ...first,
      loadBalancers: [],
      publicIPs: first.publicIPs.map(({ ipConfiguration: _user, ...one }) => one),
    };
    expect(kinds(planned(asks("FirstPartyUsage=/b"), left, tagged))).not.toContain("put-load-balancer");
  });

  test("another RoutingPreference is tried with a PUT when mutation is enabled", () => {
    const first = created(asks("RoutingPreference=a"), start(), mutating);
    expect(kinds(planned(asks("RoutingPreference=b"), first, mutating))).toEqual(["put-public-ip"]);
  });
});

test("a user's public IP in another resource group replaces the managed one of the cluster's", () => {
  const id = "/subscriptions/sub0/resourceGroups/rg1/providers/Microsoft.Network/publicIPAddresses/theirs";
  const from = start({ publicIPs: [publicIP("theirs", "20.9.9.1", { id }), owned("kubernetes-aweb", "default/web")] });
  const annotations = { "azure-pip-name": "theirs", "azure-load-balancer-resource-group": "rg1" };
  expect(publicIPsIn(created({ annotations }, from))).toEqual(["theirs"]);
});

describe("the tags of a load balancer", () => {
  const tagged = (systemTags: string) => {
    const config = plannerConfigOf({ tags: "a=x,y=z", systemTags });
    const before = changed(created(), () => ({ tags: { old: "1", system: "2" } }));
    return created({ spec: { ports: [tcp(81)] } }, before, config).loadBalancers[0]?.tags;
  };

  test.each([
    ["without systemTags old tags stay", "", { old: "1", system: "2", a: "x", y: "z" }],
    ["with systemTags they go", "system", { system: "2", a: "x", y: "z" }],
  ])("%s", (_title, systemTags, expected) => {
    expect(tagged(systemTags)).toEqual({ ...expected });
  });
});

describe("the last frontend of a load balancer", () => {
  test("the load balancer is deleted with its last frontend, after its pools are released", () => {
    const first = created();
    expect(kinds(plan([intentOf({ action: "delete" })], first, standard))).toEqual([
      "release-pools",
      "put-security-group",
      "delete-load-balancer",
      "delete-public-ip",
    ]);
    expect(deleted({}, first).loadBalancers).toEqual([]);
  });
});

describe("one of several frontends of a load balancer", () => {
  test("the load balancer is written while other frontends remain", () => {
    const two = created({ name: "other" }, created());
    expect(kinds(plan([intentOf({ action: "delete" })], two, standard))).toContain("put-load-balancer");
    expect(partsOf(deleted({}, two))).toEqual({
      frontends: ["aother"],
      rules: ["aother-TCP-80"],
      probes: ["aother-TCP-80"],
    });
  });
});

describe("the zones of frontends", () => {
  const frontendIn = (shape: ServiceShape, from = start(), config = standard) =>
    created(shape, from, config).loadBalancers[0]?.frontendIPConfigurations?.[0];

  test("a region without zones has internal frontends without zones", () => {
    expect(frontendIn({ annotations: internal }, start({ zones: [] }))).not.toHaveProperty("zones");
  });

  test("an edge zone has internal frontends without zones", () => {
    const edge = plannerConfigOf({ extendedLocationName: "edge", extendedLocationType: "EdgeZone" });
    expect(frontendIn({ annotations: internal }, start(), edge)).not.toHaveProperty("zones");
  });

  test.each([
    ["replaced FIP keeps nil zones of the old one", undefined],
    ["replaced FIP keeps zone 1 of the old one", ["1"]],
  ])("%s", (_title, zones) => {
    const before = changed(created({ annotations: internal }), ({ frontendIPConfigurations = [] }) => ({
      frontendIPConfigurations: frontendIPConfigurations.map(({ zones: _zones, ...one }) => ({
        ...one,
        ...(zones && { zones }),
      })),
    }));
    const shape = { annotations: { ...internal, "azure-load-balancer-ipv4": "10.240.7.7" } };
    expect(frontendIn(shape, before)?.zones).toEqual(zones);
  });

  test("an old IPv6 ingress address inside the subnet is used again as Static", () => {
    const subnet = { id: "/subnet0", name: "subnet0", addressPrefixes: ["10.240.0.0/16", "2001::/64"] };
    const from = start({ subnets: new Map([["subnet0", subnet]]) });
    const shape = { annotations: internal, spec: { ipFamilies: ["IPv6"] }, ingress: ["2001::1"] };
    expect(frontendIn(shape, from)).toMatchObject({
      privateIPAllocationMethod: "Static",
      privateIPAddress: "2001::1",
      privateIPAddressVersion: "IPv6",
    });
  });
});

describe("the frontends of a Service", () => {
  test("a dual-stack Service with its own frontends changes nothing", () => {
    expect(planned({ spec: dual }, created({ spec: dual })).stages).toEqual([]);
  });

  test("a frontend without an id is removed for a deleted Service", () => {
    const before = changed(created(), ({ frontendIPConfigurations = [] }) => ({
      frontendIPConfigurations: frontendIPConfigurations.map(({ id: _id, ...one }) => one),
    }));
    expect(deleted({}, before).loadBalancers).toEqual([]);
  });

  test("a single-stack IPv6 Service keeps the IPv4 frontend beside its own", () => {
    const end = created({ name: "six", spec: { ipFamilies: ["IPv6"] } }, created());
    expect(partsOf(end).frontends).toEqual(["asix", "aweb"]);
    expect(namesIn(end.loadBalancers[0]?.backendAddressPools)).toEqual(["kubernetes", "kubernetes-IPv6"]);
  });
});

describe("deleting a load balancer with its pools", () => {
  test("standard delete releases both pools first", () => {
    const { stages } = plan([intentOf({ action: "delete", spec: dual })], created({ spec: dual }), standard);
    const [release] = stages.flatMap(({ writes }) => writes).filter((write) => write.kind === "release-pools");
    expect(release?.poolIds.map((id) => id.split("/").at(-1)?.toLowerCase()).toSorted()).toEqual([
      "kubernetes",
      "kubernetes-ipv6",
    ]);
  });
});

describe("references to resources", () => {
  test.each([
    ["both nil: equal", undefined, undefined, true],
    ["one nil: not equal", "/a", undefined, false],
    ["ids equal ignoring case: equal", "/A/b", "/a/B", true],
  ])("%s", (_title, left, right, expected) => {
    expect([sameId(left, right), sameId(right, left)]).toEqual([expected, expected]);
  });
});

describe("the owner of a frontend", () => {
  const target = { kind: "public", publicIPId: "/pip" } as const;
  const subjectOf = (shape: ServiceShape) => readSubject(intentOf(shape).service, standard).subject;
  const ownedOf = (shape: ServiceShape, family: "IPv4" | "IPv6", ...list: readonly FrontendIPConfiguration[]) =>
    namesIn(frontendsOf({ frontendIPConfigurations: [...list] }, subjectOf(shape), family, target));
  const pinned = { "azure-load-balancer-ipv4": "20.1.1.1" };

  test("the base name is compared in its case", () => {
    expect(ownedOf({}, "IPv4", { name: "AWEB" })).toEqual([]);
  });

  test("correct FIP version returned", () => {
    const both = [{ name: "aweb" }, { name: "aweb-IPv6" }];
    expect(ownedOf({ spec: dual }, "IPv4", ...both)).toEqual(["aweb"]);
    expect(ownedOf({ spec: dual }, "IPv6", ...both)).toEqual(["aweb-IPv6"]);
  });

  test("a frontend without a public IP is not the Service's", () => {
    expect(ownedOf({ annotations: pinned }, "IPv4", { name: "aother" })).toEqual([]);
  });

  test("a wanted IP without a public IP is an error, and the frontend is not owned", () => {
    const refused = planned({ annotations: pinned }, created({ name: "other" }));
    expect([refused.stages, resultOf(refused)?.problem?.code]).toEqual([[], "PublicIPNotFound"]);
  });

  test("a public IP of another name than the annotation's does not own the frontend", () => {
    const annotations = { "azure-pip-name": "pip" };
    expect(ownedOf({ annotations }, "IPv4", { name: "aother", publicIPAddress: { id: "/another" } })).toEqual([]);
  });

  test("secondary external and dual-stack by IP", () => {
    const publicIPs = [publicIP("v4", "20.1.1.1"), publicIP("v6", "2603:1030::1")];
    const annotations = { ...pinned, "azure-load-balancer-ipv6": "2603:1030::1" };
    const first = created({ name: "other", spec: dual, annotations }, start({ publicIPs }));
    const end = created({ spec: { ...dual, ports: [tcp(81)] }, annotations }, first);
    expect(partsOf(end).frontends).toEqual(["aother", "aother-IPv6"]);
    expect(partsOf(end).rules).toContain("aweb-TCP-81-IPv6");
  });

  test("secondary internal and dual-stack by private IP", () => {
    const subnet = { id: "/subnet0", name: "subnet0", addressPrefixes: ["10.240.0.0/16", "fd00::/64"] };
    const from = start({ subnets: new Map([["subnet0", subnet]]) });
    const annotations = {
      ...internal,
      "azure-load-balancer-ipv4": "10.240.9.9",
      "azure-load-balancer-ipv6": "fd00::9",
    };
    const first = created({ name: "other", spec: dual, annotations }, from);
    const end = created({ spec: { ...dual, ports: [tcp(81)] }, annotations }, first);
    expect(partsOf(end).frontends).toEqual(["aother", "aother-IPv6"]);
  });
});

describe("finding the frontends of a Service", () => {
  test.each([
    ["finds the FIP of a v4 service", ["IPv4"]],
    ["finds the FIP of a v6 service", ["IPv6"]],
  ])("%s", (_title, ipFamilies) => {
    const shape = { spec: { ipFamilies } };
    expect(planned(shape, created(shape, created({ name: "other" }))).stages).toEqual([]);
  });
});

describe("finding the load balancer of a Service", () => {
  test("an existing load balancer is returned with its status", () => {
    const done = planned({}, created());
    expect([done.stages, resultOf(done)?.status?.ingress?.length]).toEqual([[], 1]);
  });

  test("a new load balancer has the SKU of the config where none is suitable", () => {
    expect(created().loadBalancers.map(({ name, sku }) => [name, sku?.name])).toEqual([["kubernetes", "Standard"]]);
  });

  test("a standard load balancer whose name differs in case only is not changed", () => {
    const id = "/subscriptions/sub0/resourceGroups/rg0/providers/Microsoft.Network/loadBalancers/KUBERNETES";
    const upper = created({}, start({ loadBalancers: [{ name: "KUBERNETES", id, sku: { name: "Standard" } }] }));
    expect([upper.loadBalancers.map(({ name }) => name), planned({}, upper).stages]).toEqual([["KUBERNETES"], []]);
  });
});

describe("a load balancer in an edge zone", () => {
  test("new LB has edge zone name/type", () => {
    const edge = plannerConfigOf({ extendedLocationName: "edge", extendedLocationType: "EdgeZone" });
    expect(created({}, start(), edge).loadBalancers[0]?.extendedLocation).toEqual({ name: "edge", type: "EdgeZone" });
  });
});

describe("resources of a Service on a load balancer", () => {
  const rule = (name: string) => ({ name, protocol: "Tcp", frontendPort: 1 });
  const has = (more: Partial<LoadBalancer>): boolean => {
    const id = "/subscriptions/sub0/resourceGroups/rg0/providers/Microsoft.Network/loadBalancers/kubernetes";
    const from = start({ loadBalancers: [{ name: "kubernetes", id, sku: { name: "Standard" }, ...more }] });
    return kinds(plan([intentOf({ action: "delete" })], from, standard)).includes("put-load-balancer");
  };
  const users = { outboundRules: [{ name: "users", protocol: "All" as const }] };

  test.each([
    ["nil properties: no", {}, false],
    ["empty: no", { loadBalancingRules: [], probes: [] }, false],
    ["other service: no", { loadBalancingRules: [rule("aother-TCP-80")] }, false],
    ["own rule on a shared LB: yes", { loadBalancingRules: [rule("aother-TCP-80"), rule("aweb-TCP-80")] }, true],
    ["own probe only: yes", { probes: [{ name: "aweb-TCP-80" }] }, true],
    ["only the shared probe: no", { probes: [{ name: "cluster-service-shared-health-probe" }] }, false],
  ])("%s", (_title, more, expected) => {
    expect(has({ ...users, ...more })).toBe(expected);
  });
});

describe("stale resources of a Service", () => {
  const shared = plannerConfigOf({ clusterServiceLoadBalancerHealthProbeMode: "shared" });
  const sharedProbe = "cluster-service-shared-health-probe";
  const local = { externalTrafficPolicy: "Local", healthCheckNodePort: 32_000 };
  const pinned = (port: number): ServiceShape => ({
    annotations: { "azure-pip-name": "my-pip" },
    spec: { ports: [tcp(port)] },
  });

  test("nothing is written where nothing has to be removed", () => {
    expect(plan([intentOf({ name: "never", action: "delete" })], created(), standard).stages).toEqual([]);
  });

  test("a frontend that is still used keeps the load balancer, whose rules are written", () => {
    const two = created({ name: "zother", ...pinned(81) }, created(pinned(80)));
    expect(partsOf(deleted(pinned(80), two))).toEqual({
      frontends: ["aweb"],
      rules: ["azother-TCP-81"],
      probes: ["azother-TCP-81"],
    });
  });

  // Only names with a whole UID are known to be the provider's.
  const first = { uid: "257b9655-5137-4ad2-b091-ef3f07043ad3", ...pinned(80) };
  const second = { name: "zother", ...pinned(81) };
  const sharing = (): Observed => deleted(first, created(second, created(first)));

  test("an unused frontend is removed while others are left", () => {
    const end = deleted(second, created({ name: "own" }, sharing()));
    expect(partsOf(end).frontends).toEqual(["aown"]);
  });

  test("the load balancer is deleted with its last frontend, also when another Service created it", () => {
    const end = deleted(second, sharing());
    expect([end.loadBalancers, publicIPsIn(end)]).toEqual([[], ["my-pip", "users-ip"]]);
  });

  test("shared probe kept while others use it, removed when the last user leaves", () => {
    const two = created({ name: "other" }, created({}, start(), shared), shared);
    const one = deleted({}, two, shared);
    expect(partsOf(one).probes).toEqual([sharedProbe]);
    expect(deleted({ name: "other" }, one, shared).loadBalancers).toEqual([]);
    const kept = created({}, created({ name: "udp", spec: { ports: [udp] } }, start(), standard), shared);
    expect(partsOf(kept).probes).toEqual([sharedProbe]);
    expect(partsOf(deleted({}, kept, shared)).probes).toEqual([]);
  });

  test("shared probe untouched without own rules", () => {
    const before = created({}, start(), shared);
    expect(plan([intentOf({ name: "never", action: "delete" })], before, shared).stages).toEqual([]);
  });

  test("shared probe untouched by the deletion of a Local service", () => {
    const both = created({ name: "local", spec: local }, created({}, start(), shared), shared);
    expect(partsOf(both).probes).toEqual(["alocal-TCP-32000", sharedProbe]);
    expect(partsOf(deleted({ name: "local", spec: local }, both, shared)).probes).toEqual([sharedProbe]);
  });

  test("the shared probe is removed when its last user turns from Cluster to Local", () => {
    const end = created({ spec: local }, created({}, start(), shared), shared);
    expect(partsOf(end).probes).toEqual(["aweb-TCP-32000"]);
  });

  test("the shared probe is kept when one of two users turns from Cluster to Local", () => {
    const two = created({ name: "other" }, created({}, start(), shared), shared);
    expect(partsOf(created({ spec: local }, two, shared)).probes).toEqual(["aweb-TCP-32000", sharedProbe]);
  });
});

describe("a deletion of a Service beside resources whose last operation failed", () => {
  const failed = { provisioningState: "Failed" } as const;
  const from = created({ uid: "0123456789abcdef0123456789abcdef" });
  const broken: Observed = {
    ...from,
    loadBalancers: [...from.loadBalancers, usersBalancer("of-a-user")].map((one) => ({ ...one, ...failed })),
    ...(from.securityGroup !== undefined && { securityGroup: { ...from.securityGroup, ...failed } }),
  };
  const writesFor = (shape: ServiceShape & Pick<ServiceIntent, "failed">): readonly string[] =>
    plan(
      [intentOf({ nodes, name: "other", uid: "other", action: "delete", ...shape })],
      broken,
      standard,
    ).stages.flatMap(({ writes }) => writes.map(({ kind, name }) => `${kind} ${name}`));

  test("writes those that it may have left so, and not the user's, while it shows an address", () => {
    expect(writesFor({ ingress: ["20.0.0.200"] })).toEqual(["put-load-balancer kubernetes", "put-security-group nsg0"]);
  });

  test("writes those of which a write for it has failed, although it shows no address", () => {
    const ids = { balancer: from.loadBalancers[0]?.id, group: from.securityGroup?.id };
    const failedAt = ({ balancer, group }: Partial<typeof ids>): ReadonlySet<string> =>
      new Set([balancer, group].flatMap((id) => id?.toLowerCase() ?? []));
    const { balancer, group } = ids;
    expect(writesFor({ failed: failedAt({ balancer }) })).toEqual(["put-load-balancer kubernetes"]);
    expect(writesFor({ failed: failedAt({ group }) })).toEqual(["put-security-group nsg0"]);
    expect(writesFor({ failed: failedAt(ids) })).toEqual(["put-load-balancer kubernetes", "put-security-group nsg0"]);
  });

  test("writes a load balancer that only a user's frontends are left on, if the write that removed its own has failed", () => {
    const balancer = usersBalancer("kubernetes");
    const only: Observed = {
      ...broken,
      loadBalancers: [
        { ...balancer, ...failed },
        { ...usersBalancer("of-a-user"), ...failed },
      ],
    };
    const writesOf = (shape: ServiceShape & Pick<ServiceIntent, "failed">): readonly string[] =>
      plan([intentOf({ nodes, action: "delete", ...shape })], only, standard)
        .stages.flatMap(({ writes }) => writes.map(({ kind, name }) => `${kind} ${name}`))
        .filter((write) => write.includes("balancer"));
    expect(writesOf({ failed: new Set([balancer.id?.toLowerCase() ?? ""]) })).toEqual(["put-load-balancer kubernetes"]);
    // Any Service may be deleted beside a load balancer that nothing tells to be the cluster's.
    expect(writesOf({ ingress: ["20.0.0.200"] })).toEqual([]);
  });

  test("writes nothing when it shows no address: its deletion does not wait for others", () => {
    expect(writesFor({})).toEqual([]);
  });

  test("is not alone: the ensure of one that moves writes the load balancer of others that it has left so, as long as it shows another address than it gets", () => {
    const moving = { action: "ensure", annotations: { "azure-load-balancer-internal": "true" } } as const;
    const left = "put-load-balancer kubernetes";
    expect(writesFor({ ...moving, ingress: ["20.0.0.200"] })).toContain(left);
    expect(writesFor(moving)).not.toContain(left);
    const fixed = { ...moving, annotations: { ...moving.annotations, "azure-load-balancer-ipv4": "10.240.0.100" } };
    expect(writesFor({ ...fixed, ingress: ["10.240.0.100"] })).not.toContain(left);
    const more = { ...fixed, annotations: { ...fixed.annotations, "azure-additional-public-ips": "198.51.100.8" } };
    expect(writesFor({ ...more, ingress: ["10.240.0.100", "198.51.100.8"] })).not.toContain(left);
  });
});

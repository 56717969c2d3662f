import { describe, expect, test } from "bun:test";

import type { PrivateLinkService } from "@azure/arm-network";

import type { Observed, ServiceIntent } from "../../../../../../plugins/azure-cloud/load-balancer/model/model.ts";
import { plan } from "../../../../../../plugins/azure-cloud/load-balancer/plan/plan.ts";
import { sameIPConfigurations } from "../../../../../../plugins/azure-cloud/load-balancer/plan/private-link/ip-configurations.ts";
import { intentOf, plannerConfigOf } from "../../fixtures.ts";
import { converge, nodesNamed, world } from "../../world.ts";

const config = plannerConfigOf();
const nodes = nodesNamed("node-0");
const internal = { "azure-load-balancer-internal": "true" };
const linked = { ...internal, "azure-pls-create": "true" };

const intent = (annotations: Readonly<Record<string, string>>, more = {}) => intentOf({ nodes, annotations, ...more });
const created = (annotations: Readonly<Record<string, string>> = linked) =>
  converge([intent(annotations)], world({ nodes }), config).observed;
const problemOf = (annotations: Readonly<Record<string, string>>, from: Observed = world({ nodes }), more = {}) =>
  plan([intent(annotations, more)], from, config)
    .results.get("default/web")
    ?.problem?.messages.join();
const changed = (annotations: Readonly<Record<string, string>>) =>
  converge([intent({ ...linked, ...annotations })], created(), config).observed.privateLinkServices[0];
const withLink = (observed: Observed, more: Partial<PrivateLinkService>): Observed => ({
  ...observed,
  privateLinkServices: observed.privateLinkServices.map((one) => ({ ...one, ...more })),
});

describe("the private link service of a Service", () => {
  test("a link that is not requested is not created", () => expect(created(internal).privateLinkServices).toEqual([]));

  test("a changed link is written with the properties that it has", () => {
    const observed = withLink(created(), { tags: { ...created().privateLinkServices[0]?.tags, more: "kept" } });
    const { stages } = plan([intent({ ...linked, "azure-pls-fqdns": "a.example" })], observed, config);
    const [write] = stages.flatMap(({ writes }) => writes);
    const body = { fqdns: ["a.example"], tags: { more: "kept" } };
    expect(write).toMatchObject({ kind: "put-private-link-service", body });
  });

  test("a link is in the subnet of its frontend unless the Service names another one", () => {
    const subnetsOf = (annotations: Readonly<Record<string, string>>) =>
      created({ ...linked, ...annotations }).privateLinkServices.flatMap(({ ipConfigurations = [] }) =>
        ipConfigurations.map(({ subnet }) => subnet?.id?.split("/").at(-1)),
      );
    const inside = { "azure-load-balancer-internal-subnet": "lb-subnet" };
    expect(subnetsOf({})).toEqual(["subnet0"]);
    expect(subnetsOf(inside)).toEqual(["lb-subnet"]);
    expect(subnetsOf({ ...inside, "azure-pls-ip-configuration-subnet": "subnet0" })).toEqual(["subnet0"]);
  });

  test("two links in one subnet disable its policies for both Services in one write", () => {
    const intents = ["a", "b"].map((name) => intent(linked, { name }));
    const stages = plan(intents, world({ nodes }), config).stages.flatMap(({ writes }) => writes);
    const subnets = stages.filter(({ kind }) => kind === "put-subnet");
    expect(subnets.map(({ services }) => services)).toEqual([["default/a", "default/b"]]);
  });

  describe("a private link service whose name two Services give", () => {
    const named = (name: string, more = {}) => intent({ ...linked, "azure-pls-name": "mine" }, { name, ...more });
    const [a, b] = [named("a"), named("b")];
    const refused = [expect.stringContaining("private link service mine is that of frontend aa")];
    const planned = (intents: readonly ServiceIntent[], observed: Observed) => {
      const { stages, results } = plan(intents, observed, config);
      const writes = stages.flatMap((stage) => stage.writes);
      return {
        links: writes.filter(({ kind }) => kind === "put-private-link-service"),
        problem: results.get("default/b")?.problem?.messages,
      };
    };

    test("goes to the older one, and the newer one is refused", () => {
      const { links, problem } = planned([a, b], world({ nodes }));
      expect(links.map(({ services }) => services)).toEqual([["default/a"]]);
      expect(problem).toEqual(refused);
    });

    test("stays with the one that has it, whose changes are written", () => {
      const { observed } = converge([a], world({ nodes }), config);
      const { links, problem } = planned([a, b], withLink(observed, { fqdns: ["former.example"] }));
      expect(links).toMatchObject([{ services: ["default/a"], body: { fqdns: [] } }]);
      expect(problem).toEqual(refused);
      expect(planned([b], observed).problem).toEqual(refused);
      expect(planned([intent(linked, { name: "b" })], observed).problem).toBeUndefined();
    });

    test("is free once its frontend is removed, even in the same plan", () => {
      const { observed } = converge([a], world({ nodes }), config);
      const { last, observed: end } = converge([named("a", { action: "delete" }), b], observed, config);
      expect(last.results.get("default/b")?.problem).toBeUndefined();
      const tags = { "k8s-azure-owner-service": "default/b" };
      expect(end.privateLinkServices).toMatchObject([{ name: "mine", tags }]);
    });

    test("is free while reads still show it with a frontend that is gone", () => {
      const { observed } = converge([a], world({ nodes }), config);
      expect(planned([b], { ...observed, loadBalancers: [] }).problem).toBeUndefined();
    });
  });

  test("an external Service with floating IP is an error", () => {
    expect(problemOf({ "azure-pls-create": "true" })).toContain("must be internal or disable floating IP");
  });

  test("an external Service without floating IP gets a link", () => {
    const annotations = { "azure-pls-create": "true", "azure-disable-load-balancer-floating-ip": "true" };
    expect(created(annotations).privateLinkServices.length).toBe(1);
  });

  test("a missing link is created after its subnet's policies are disabled", () => {
    const { privateLinkServices, subnets } = created();
    expect(privateLinkServices).toEqual([
      {
        id: "/subscriptions/sub0/resourceGroups/rg0/providers/Microsoft.Network/privateLinkServices/pls-aweb",
        name: "pls-aweb",
        location: "eastus",
        loadBalancerFrontendIpConfigurations: [
          {
            id: "/subscriptions/sub0/resourceGroups/rg0/providers/Microsoft.Network/loadBalancers/kubernetes-internal/frontendIPConfigurations/aweb",
          },
        ],
        ipConfigurations: [
          {
            name: "subnet0-pls-aweb-dynamic-0",
            primary: true,
            privateIPAddressVersion: "IPv4",
            privateIPAllocationMethod: "Dynamic",
            subnet: {
              id: "/subscriptions/sub0/resourceGroups/rg0/providers/Microsoft.Network/virtualNetworks/vnet0/subnets/subnet0",
            },
          },
        ],
        tags: { "k8s-azure-cluster-name": "kubernetes", "k8s-azure-owner-service": "default/web" },
      },
    ]);
    expect(subnets.get("subnet0")?.privateLinkServiceNetworkPolicies).toBe("Disabled");
  });

  test("an unmanaged link that is attached is an error", () => {
    const foreign = withLink(created(), { tags: { "k8s-azure-cluster-name": "other" } });
    expect(problemOf(linked, foreign)).toContain("already has unmanaged private link service pls-aweb");
  });

  test("a frontend with an unmanaged private link service is not taken from it", () => {
    const foreign = withLink(created(), { tags: {} });
    const { stages, results } = plan([{ ...intent(linked), action: "delete" }], foreign, config);
    expect([stages, results.get("default/web")?.problem?.code]).toEqual([[], "UnmanagedPrivateLinkService"]);
  });

  const others = { tags: { "k8s-azure-cluster-name": "kubernetes", "k8s-azure-owner-service": "default/other" } };

  test("a Service that does not own the link and configures it is an error", () => {
    expect(problemOf({ ...linked, "azure-pls-fqdns": "a.example" }, withLink(created(), others))).toContain(
      "remove service.beta.kubernetes.io/azure-pls-fqdns to share it",
    );
  });

  test("a Service that does not own the link and configures nothing shares it", () => {
    expect(plan([intent(linked)], withLink(created(), others), config).stages).toEqual([]);
  });

  test("an unchanged link is not written", () => {
    expect(plan([intent(linked)], created(), config).stages).toEqual([]);
  });

  test("a changed link is written", () => {
    expect(changed({ "azure-pls-proxy-protocol": "true" })).toMatchObject({ enableProxyProtocol: true });
  });

  test("a failed one is written again", () => {
    const failed = withLink(created(), { provisioningState: "Failed" });
    expect(plan([intent(linked)], failed, config).stages.map(({ name }) => name)).toEqual(["private-link-services"]);
  });

  test("a deleted Service loses its link before its frontend, endpoints first", () => {
    const connected = withLink(created(), { privateEndpointConnections: [{ name: "endpoint" }] });
    const { stages } = plan([{ ...intent(linked), action: "delete" }], connected, config);
    expect(stages[0]).toMatchObject({
      name: "private-link-deletions",
      writes: [{ endpointConnections: ["endpoint"] }],
    });
    expect(converge([{ ...intent(linked), action: "delete" }], connected, config).observed.privateLinkServices).toEqual(
      [],
    );
  });

  test("a protected link with one approved connection stays, and its Service with it; one without any goes", () => {
    const approved = { name: "endpoint", privateLinkServiceConnectionState: { status: "Approved" } };
    const pending = { name: "endpoint", privateLinkServiceConnectionState: { status: "Pending" } };
    const leaving = { ...intent({ ...linked, "azure-pls-delete-protection": "true" }), action: "delete" as const };
    const after = (connection: typeof approved) =>
      plan([leaving], withLink(created(), { privateEndpointConnections: [connection] }), config);
    expect(after(approved)).toMatchObject({ stages: [] });
    expect(after(approved).results.get("default/web")?.problem?.code).toBe("PrivateLinkServiceInUse");
    expect(after(pending).stages[0]?.name).toBe("private-link-deletions");
  });

  test("an existing link stays when it is no longer requested", () => {
    expect(plan([intent(internal)], created(), config).stages).toEqual([]);
  });

  test("a single-stack IPv6 Service is an error, and a dual-stack one uses its IPv4 frontend", () => {
    expect(problemOf(linked, world({ nodes }), { spec: { ipFamilies: ["IPv6"] } })).toContain("IPv6 is not supported");
    const dual = converge(
      [intent(linked, { spec: { ipFamilies: ["IPv4", "IPv6"] } })],
      world({ nodes }),
      config,
    ).observed;
    expect(dual.privateLinkServices.map(({ name }) => name)).toEqual(["pls-aweb"]);
  });
});

describe("the name of a private link service", () => {
  test("the name is that of the annotation", () =>
    expect(created({ ...linked, "azure-pls-name": "mine" }).privateLinkServices[0]?.name).toBe("mine"));
  test("another name is an error", () => {
    expect(problemOf({ ...linked, "azure-pls-name": "mine" }, created())).toContain(
      "cannot change existing private link service name",
    );
  });
  test("the same name is kept", () =>
    expect(problemOf({ ...linked, "azure-pls-name": "PLS-aweb" }, created())).toBeUndefined());
});

describe("the resource group of a private link service", () => {
  test("annotation vs config", () => {
    const inGroup = (annotations: Readonly<Record<string, string>>) =>
      created(annotations).privateLinkServices[0]?.id?.split("/")[4];
    expect([inGroup(linked), inGroup({ ...linked, "azure-pls-resource-group": "Links" })]).toEqual(["rg0", "links"]);
  });
});

describe("the IP configurations of a private link service", () => {
  test("an unknown subnet is an error", () => {
    expect(problemOf({ ...linked, "azure-pls-ip-configuration-subnet": "nowhere" })).toContain(
      "failed to get subnet: vnet0/nowhere",
    );
  });

  test("fewer configurations than static IPs are an error", () => {
    expect(problemOf({ ...linked, "azure-pls-ip-configuration-ip-address": "10.0.0.1 10.0.0.2" })).toContain(
      "2 addresses, but",
    );
  });

  test("another number of configurations is a change", () => {
    expect(
      changed({ "azure-pls-ip-configuration-ip-address-count": "2" })?.ipConfigurations?.map(({ name, primary }) => [
        name,
        primary,
      ]),
    ).toEqual([
      ["subnet0-pls-aweb-dynamic-0", true],
      ["subnet0-pls-aweb-dynamic-1", false],
    ]);
  });

  test("first static is primary", () => {
    const annotations = {
      "azure-pls-ip-configuration-ip-address-count": "3",
      "azure-pls-ip-configuration-ip-address": "10.240.0.9 10.240.0.8",
    };
    expect(changed(annotations)?.ipConfigurations?.map(({ name, primary }) => [name, primary])).toEqual([
      ["subnet0-pls-aweb-static-10.240.0.9", true],
      ["subnet0-pls-aweb-static-10.240.0.8", false],
      ["subnet0-pls-aweb-dynamic-0", false],
    ]);
  });

  const subnet = { id: "/subnet" };
  const dynamic = { subnet, privateIPAllocationMethod: "Dynamic", primary: true };
  const fixed = { subnet, privateIPAllocationMethod: "Static", privateIPAddress: "10.0.0.1", primary: true };

  test.each([
    ["nil configs: changed", undefined, [dynamic], false],
    ["subnet differs: changed", [{ ...dynamic, subnet: { id: "/other" } }], [dynamic], false],
    ["dynamic to static: changed", [dynamic], [fixed], false],
    ["static to dynamic: changed", [fixed], [dynamic], false],
    ["static IP differs: changed", [{ ...fixed, privateIPAddress: "10.0.0.2" }], [fixed], false],
    ["dynamic only: unchanged", [{ ...dynamic, name: "any", privateIPAddress: "10.0.0.7" }], [dynamic], true],
    [
      "primary left out where it is false: unchanged",
      [dynamic, { subnet, privateIPAllocationMethod: "Dynamic" }],
      [dynamic, { ...dynamic, primary: false }],
      true,
    ],
    ["same static: unchanged", [fixed], [{ ...fixed, subnet: { id: "/SUBNET" } }], true],
  ])("%s", (_title, present, desired, expected) => {
    expect(sameIPConfigurations(present, desired)).toBe(expected);
  });

  test("long names truncated, second run unchanged", () => {
    const long = { ...linked, "azure-pls-name": "n".repeat(80) };
    const first = created(long);
    expect(first.privateLinkServices[0]?.ipConfigurations?.[0]?.name).toMatch(/^subnet0-n+-dynamic-0$/u);
    expect(first.privateLinkServices[0]?.ipConfigurations?.[0]?.name?.length).toBe(80);
    expect(plan([intent(long)], first, config).stages).toEqual([]);
  });
});

describe("the visibility of a private link service", () => {
  test("`*` with other subscriptions is only `*`, and the same value changes nothing", () => {
    const annotations = {
      ...linked,
      "azure-pls-visibility": "a *",
      "azure-pls-auto-approval": "b a",
      "azure-pls-fqdns": "y.example x.example",
    };
    const first = created(annotations);
    expect(first.privateLinkServices[0]).toMatchObject({
      visibility: { subscriptions: ["*"] },
      autoApproval: { subscriptions: ["b", "a"] },
      fqdns: ["y.example", "x.example"],
    });
    const reordered = { ...annotations, "azure-pls-auto-approval": "a b", "azure-pls-fqdns": "x.example y.example" };
    expect(plan([intent(reordered)], first, config).stages).toEqual([]);
  });
});

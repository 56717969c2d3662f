import { describe, expect, test } from "bun:test";

import type { AccessResult, Logger } from "cloud-controller-host/sdk";

import { systemClock } from "../../../../host/async/clock.ts";
import { decodeConfig } from "../../../../plugins/azure-cloud/config/decode.ts";
import { isGranted, requiredActions } from "../../../../plugins/azure-cloud/config/required-actions.ts";
import azure from "../../../../plugins/azure-cloud/plugin.ts";
import { errorOf } from "../../../kit/rejection.ts";
import { openWorld, type World } from "../world.ts";

const silent: Logger = {
  info: () => undefined,
  warn: () => undefined,
  error: () => undefined,
  debug: () => undefined,
  with: () => silent,
};

async function accessOf(
  world: World,
  changes: Readonly<Record<string, unknown>> = {},
): Promise<readonly AccessResult[]> {
  const document: unknown = JSON.parse(world.simulator.configWith(changes));
  if (typeof document !== "object" || document === null) throw new Error("the config is not a mapping");
  const bound = azure.bindAccessCheck({ ...document }, {});
  if (!bound.ok || bound.value === undefined) throw new Error("missing: check");
  return bound.value({ clock: systemClock, log: silent, signal: new AbortController().signal });
}

const subjectsOf = (results: readonly AccessResult[], outcome: AccessResult["outcome"]): readonly string[] =>
  results.filter((result) => result.outcome === outcome).map(({ subject }) => subject);

describe("the check of access at start", () => {
  test("allows everything to an owner, reads what controllers read, and writes nothing", async () => {
    await using world = await openWorld();
    const results = await accessOf(world);
    expect(results.filter(({ outcome }) => outcome !== "allowed")).toEqual([]);
    const subjects = results.map(({ subject }) => subject);
    expect(subjects).toContain("token from the login service");
    expect(subjects).toContain("list scale sets in rg0");
    expect(subjects).toContain("read route table rt0");
    expect(subjects).toContain("Microsoft.Network/loadBalancers/write on resource group rg0");
    const methods = world.simulator.log
      .filter(({ path }) => path.startsWith("/subscriptions"))
      .map(({ method }) => method);
    expect(new Set(methods)).toEqual(new Set(["GET"]));
  });

  test("denies exactly the actions that no role grants", async () => {
    const grants = [
      { actions: ["*/read", "Microsoft.Compute/*"], notActions: ["Microsoft.Compute/virtualMachineScaleSets/write"] },
      { actions: ["microsoft.network/*/WRITE", "Microsoft.Network/*/join/action"], notActions: [] },
    ];
    await using world = await openWorld({ grants });
    expect(subjectsOf(await accessOf(world), "denied")).toEqual([
      "Microsoft.Compute/virtualMachineScaleSets/write on resource group rg0",
      "Microsoft.Network/loadBalancers/delete on resource group rg0",
      "Microsoft.Network/loadBalancers/backendAddressPools/delete on resource group rg0",
      "Microsoft.Network/publicIPAddresses/delete on resource group rg0",
      "Microsoft.Network/privateLinkServices/delete on resource group rg0",
      "Microsoft.Network/privateLinkServices/privateEndpointConnections/delete on resource group rg0",
    ]);
  });

  test("reports a refused read as denied and a resource that does not exist as missing, with ARM's message", async () => {
    await using world = await openWorld();
    world.simulator.failNext({ path: "/virtualMachineScaleSets" }, { status: 403, code: "AuthorizationFailed" });
    const results = await accessOf(world, { routeTableName: "none" });
    const byOutcome = (subject: string): AccessResult | undefined =>
      results.find((result) => result.subject === subject);
    expect(byOutcome("list scale sets in rg0")).toMatchObject({
      outcome: "denied",
      detail: expect.stringContaining("AuthorizationFailed"),
    });
    expect(byOutcome("read route table none")).toMatchObject({
      outcome: "missing",
      detail: expect.stringContaining("ResourceNotFound"),
    });
  });

  test("reads public IPs where those of Services are, whatever the resource group of load balancers is", async () => {
    await using world = await openWorld();
    const results = await accessOf(world, { loadBalancerResourceGroup: "balancers" });
    expect(subjectsOf(results, "missing")).toContain("list load balancers in balancers");
    expect(subjectsOf(results, "allowed")).toContain("list public IP addresses in rg0");
  });

  test.each([
    ["ResourceGroupNotFound", "It is not there. check resourceGroup and the other keys that end in ResourceGroup"],
    ["SubscriptionNotFound", "It is not there. check subscriptionId and networkResourceSubscriptionID"],
    ["ResourceNotFound", "It is not there."],
  ])("names the config keys to check with ARM's %s", async (code, cause) => {
    await using world = await openWorld();
    const failure = { status: 404, code, message: "It is not there.", times: 9 };
    world.simulator.failNext({ path: "/virtualMachineScaleSets" }, failure);
    const results = await accessOf(world, {});
    const found = results.find(({ subject }) => subject === "list scale sets in rg0");
    expect(found).toMatchObject({ outcome: "missing", cause: expect.stringMatching(new RegExp(`${cause}$`, "u")) });
  });

  test("reports actions as unknown where the permissions cannot be read", async () => {
    await using world = await openWorld();
    world.simulator.failNext({ path: "/Microsoft.Authorization/permissions" }, { status: 403, times: 9 });
    const results = await accessOf(world);
    expect(subjectsOf(results, "unknown")).toContain("Microsoft.Network/routeTables/write on resource group rg0");
    expect(subjectsOf(results, "denied")).toEqual([]);
  });

  test("rejects without a token, also when the login service does not answer", async () => {
    await using world = await openWorld();
    expect(String(await errorOf(accessOf(world, { aadClientSecret: "wrong" })))).toContain("AADSTS");
    world.simulator.failNext({ path: "/oauth2/token" }, { status: 501, times: 20 });
    expect(await errorOf(accessOf(world))).toMatchObject({ code: "Credential" });
  });
});

describe("required actions", () => {
  test("are checked in the resource group and the subscription of their resource", () => {
    const decoded = decodeConfig(
      {
        tenantId: "t",
        aadClientId: "c",
        aadClientSecret: "s",
        subscriptionId: "sub0",
        networkResourceSubscriptionID: "sub1",
        resourceGroup: "rg",
        location: "l",
        vnetResourceGroup: "net",
        privateLinkServiceResourceGroup: "links",
      },
      {},
    );
    if (!decoded.ok) throw new Error(decoded.problems.join());
    const scopes = requiredActions(decoded.value);
    expect(scopes.map(({ subscription, resourceGroup, network }) => [subscription, resourceGroup, network])).toEqual([
      ["sub0", "rg", false],
      ["sub1", "rg", true],
      ["sub1", "net", true],
      ["sub0", "links", false],
    ]);
    expect(scopes[2]?.actions).toContain("Microsoft.Network/virtualNetworks/subnets/read");
    expect(scopes[1]?.actions).not.toContain("Microsoft.Network/virtualNetworks/subnets/read");
  });

  test("are checked for public IPs in the resource group of the cluster, not in that of the load balancers", () => {
    const identity = { tenantId: "t", aadClientId: "c", aadClientSecret: "s", subscriptionId: "sub0" };
    const places = { resourceGroup: "rg", location: "l", loadBalancerResourceGroup: "balancers" };
    const decoded = decodeConfig({ ...identity, ...places, networkResourceSubscriptionID: "sub1" }, {});
    if (!decoded.ok) throw new Error(decoded.problems.join());
    const placesOf = (action: string) =>
      requiredActions(decoded.value)
        .filter(({ actions }) => actions.includes(`Microsoft.Network/${action}`))
        .map(({ subscription, resourceGroup }) => `${subscription}/${resourceGroup}`);
    expect(placesOf("publicIPAddresses/write")).toEqual(["sub1/rg"]);
    expect(placesOf("publicIPPrefixes/join/action")).toEqual(["sub1/rg"]);
    expect(placesOf("loadBalancers/write")).toEqual(["sub1/balancers"]);
  });

  test("match patterns as a whole, in any case", () => {
    const grants = [{ actions: ["Microsoft.Network/*/read"], notActions: ["*/secrets/read"] }];
    expect(isGranted(grants, "microsoft.network/loadBalancers/READ")).toBe(true);
    expect(isGranted(grants, "Microsoft.Network/loadBalancers/read/more")).toBe(false);
    expect(isGranted(grants, "Microsoft.Network/secrets/read")).toBe(false);
    expect(isGranted([], "Microsoft.Network/loadBalancers/read")).toBe(false);
  });
});

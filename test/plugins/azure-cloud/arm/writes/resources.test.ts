import { describe, expect, test } from "bun:test";

import type { PublicIPAddress } from "@azure/arm-network";
import type { CloudContext, CloudWrite } from "cloud-controller-host/sdk";
import { manualClock } from "cloud-controller-host/sdk/testing";

import { networkResources } from "../../../../../plugins/azure-cloud/arm/writes/network-resources.ts";
import { withOperationLimit } from "../../../../../plugins/azure-cloud/arm/writes/operation-limit.ts";
import { isLost } from "../../../../../plugins/azure-cloud/arm/writes/write-errors.ts";
import { decodeConfig } from "../../../../../plugins/azure-cloud/config/decode.ts";
import { errorOf } from "../../../../kit/rejection.ts";
import { countOf, openWorld, type World } from "../../world.ts";

const scope = "/subscriptions/sub0/resourceGroups/rg0/providers/Microsoft.Network";
const idOf = (name: string): string => `${scope}/publicIPAddresses/${name}`;
const body: PublicIPAddress = { location: "eastus", sku: { name: "Standard" }, publicIPAllocationMethod: "Static" };

async function openPublicIPs(
  world: World,
  changes: Readonly<Record<string, unknown>> = {},
  context: Partial<CloudContext> = {},
) {
  const document: unknown = JSON.parse(world.simulator.configWith(changes));
  const decoded = decodeConfig({ ...(typeof document === "object" ? document : {}) }, {});
  if (!decoded.ok) throw new Error(decoded.problems.join("; "));
  const clock = manualClock();
  const options = { clock, signal: new AbortController().signal };
  const { publicIPs } = networkResources(await world.clients(changes, { context }), decoded.value, options);
  world.simulator.clearLog();
  return { publicIPs, clock, lists: () => countOf(world.simulator, "/publicIPAddresses") };
}

const always = (): boolean => true;
const names = (items: readonly PublicIPAddress[]): readonly (string | undefined)[] => items.map(({ name }) => name);

describe("reads of network resources", () => {
  test("are shared and cached for upstream's two minutes", async () => {
    await using world = await openWorld();
    const { publicIPs, clock, lists } = await openPublicIPs(world);
    await Promise.all([publicIPs.all("rg0"), publicIPs.all("RG0")]);
    await clock.advance(119_000);
    await publicIPs.all("rg0");
    expect(lists()).toBe(1);
    await clock.advance(1_000);
    await publicIPs.all("rg0");
    expect(lists()).toBe(2);
  });

  test("go to ARM each time with disableAPICallCache", async () => {
    await using world = await openWorld();
    const { publicIPs, lists } = await openPublicIPs(world, { disableAPICallCache: true });
    await publicIPs.all("rg0");
    await publicIPs.all("rg0");
    expect(lists()).toBe(2);
  });

  test("find nothing in a resource group that does not exist", async () => {
    await using world = await openWorld();
    const { publicIPs } = await openPublicIPs(world);
    expect(await publicIPs.all("no-such-group")).toEqual([]);
  });

  test("know a resource group as missing, in whatever case, until a list of it succeeds", async () => {
    await using world = await openWorld();
    const { publicIPs, clock } = await openPublicIPs(world);
    const missing = async () => {
      await Promise.all(["rg0", "late"].map((group) => publicIPs.all(group)));
      return ["rg0", "LATE"].filter((group) => publicIPs.isMissing(group));
    };
    expect(await missing()).toEqual(["LATE"]);
    world.simulator.addResourceGroup("late");
    await clock.advance(120_000);
    expect(await missing()).toEqual([]);
  });

  test("fail where ARM refuses the list, rather than find nothing", async () => {
    await using world = await openWorld();
    const { publicIPs } = await openPublicIPs(world);
    world.simulator.failNext({ path: "/publicIPAddresses" }, { status: 403, code: "AuthorizationFailed" });
    expect(await errorOf(publicIPs.all("rg0"))).toMatchObject({ code: "AuthorizationFailed" });
  });
});

describe("writes of network resources", () => {
  test("are recorded with what they change where they replace the version that was last read, and without where that is not known", async () => {
    await using world = await openWorld({ operationStyle: "none" });
    const changes: CloudWrite["change"][] = [];
    const recordWrite = (write: CloudWrite): void => void changes.push(write.change);
    const { publicIPs } = await openPublicIPs(world, {}, { recordWrite });
    const created = await publicIPs.put(idOf("pip"), body);
    await publicIPs.put(idOf("pip"), { ...created, tags: { a: "1" } });
    const foreign = (await world.clients()).network.publicIPAddresses;
    const newer = await foreign.createOrUpdate("rg0", "pip", { ...body, tags: { a: "2" } });
    await publicIPs.put(idOf("pip"), { ...newer, tags: { a: "3" } });
    expect(changes).toEqual([
      { before: undefined, after: expect.objectContaining({ location: "eastus" }) },
      {
        before: expect.not.objectContaining({ tags: expect.anything() }),
        after: expect.objectContaining({ tags: { a: "1" } }),
      },
      undefined,
    ]);
  });

  test("are seen by the next reader without another read, deletions too", async () => {
    await using world = await openWorld({ operationStyle: "none" });
    const { publicIPs, lists } = await openPublicIPs(world);
    const before = names(await publicIPs.all("rg0"));
    const written = await publicIPs.put(idOf("pip"), body);
    expect(written.ipAddress).toBeString();
    expect(await publicIPs.all("rg0")).toContainEqual(written);
    await publicIPs.put(idOf("pip"), { ...written, tags: { a: "b" } });
    await publicIPs.delete(idOf("PIP"), undefined, always);
    expect(names(await publicIPs.all("rg0"))).toEqual(before);
    expect(lists()).toBe(1);
    // The list, and one read each before the creation and the deletion.
    expect(world.simulator.log.filter(({ method }) => method === "GET")).toHaveLength(3);
  });

  test("are not undone by a list that began before them", async () => {
    await using world = await openWorld();
    const { publicIPs } = await openPublicIPs(world);
    await publicIPs.put(idOf("old"), body);
    world.simulator.setLatency(30);
    const listed = publicIPs.all("rg0");
    while (world.simulator.underway() === 0) await Bun.sleep(1);
    publicIPs.store({ ...body, id: idOf("new"), name: "new" });
    expect(names(await listed)).toContain("new");
    expect(names(await publicIPs.all("rg0"))).toContain("new");
  });

  test("carry the etag of what they replace; after a refusal that resource alone is read again", async () => {
    await using world = await openWorld({ operationStyle: "none" });
    const { publicIPs, lists } = await openPublicIPs(world);
    await publicIPs.all("rg0");
    const first = await publicIPs.put(idOf("pip"), body);
    world.simulator.put("/providers/Microsoft.Network/publicIPAddresses/pip", {
      sku: { name: "Standard" },
      tags: { of: "another writer" },
      properties: { publicIPAllocationMethod: "Static" },
    });
    expect(await errorOf(publicIPs.put(idOf("pip"), { ...first, tags: { a: "b" } }))).toMatchObject({ status: 412 });
    const found = (await publicIPs.all("rg0")).find(({ name }) => name === "pip");
    expect(found?.tags).toEqual({ of: "another writer" });
    expect(countOf(world.simulator, "/publicIPAddresses/pip")).toBe(4);
    expect(lists()).toBe(1);
  });

  test("wait for their long-running operation to end, with either header", async () => {
    await using world = await openWorld({ operationPolls: 2 });
    const { publicIPs } = await openPublicIPs(world);
    await publicIPs.put(idOf("pip"), body);
    const [written] = (await publicIPs.all("rg0")).filter(({ name }) => name === "pip");
    expect(written?.provisioningState).toBe("Succeeded");
    await publicIPs.delete(idOf("pip"), undefined, always);
    expect(world.simulator.get(idOf("pip"))).toBeUndefined();
  });

  test("delete what a lagging read does not show yet", async () => {
    await using world = await openWorld({ operationStyle: "none" });
    const { publicIPs } = await openPublicIPs(world);
    world.simulator.setReadLag(60_000);
    const written = await publicIPs.put(idOf("pip"), body);
    await publicIPs.delete(idOf("pip"), written, always);
    expect(world.simulator.log.at(-1)).toMatchObject({ method: "DELETE", ifMatch: written.etag });
    expect(world.simulator.get(idOf("pip"))).toBeUndefined();
  });

  test("delete a missing resource without an error", async () => {
    await using world = await openWorld();
    const { publicIPs } = await openPublicIPs(world);
    await publicIPs.delete(idOf("never-was"), undefined, always);
    expect(await errorOf(publicIPs.delete("not-an-id", undefined, always))).toMatchObject({
      code: "InvalidResourceID",
    });
  });
});

describe("a long-running operation", () => {
  test("a long-running operation that never ends is given up after its limit, with an error that names it", async () => {
    await using world = await openWorld({ operationPolls: 1_000_000 });
    const { network } = await world.clients();
    const error = await errorOf(
      withOperationLimit(
        "write of pip",
        new AbortController().signal,
        (abortSignal) => network.publicIPAddresses.createOrUpdate("rg0", "pip", body, { abortSignal }),
        200,
      ),
    );
    expect(error).toMatchObject({ code: "OperationTimeout" });
    expect(String(error)).toContain("write of pip: the operation did not end within 0.2 s");
  });
});

describe("a write that was accepted", () => {
  const poll = { method: "GET", path: "/operations/" };

  for (const [what, failure] of [
    ["is refused", { status: 403, code: "AuthorizationFailed" }],
    ["is throttled", { status: 429, headers: { "retry-after": "17" } }],
  ] as const)
    test(`may be carried out later if a poll of its operation ${what}`, async () => {
      await using world = await openWorld({ operationPolls: 2 });
      const { publicIPs } = await openPublicIPs(world);
      world.simulator.failNext(poll, failure);
      expect(isLost(await errorOf(publicIPs.put(idOf("pip"), body)))).toBe(true);
      world.simulator.failNext(poll, failure);
      expect(isLost(await errorOf(publicIPs.delete(idOf("pip"), undefined, always)))).toBe(true);
    });

  test("will not be carried out once its operation has failed", async () => {
    await using world = await openWorld({ operationPolls: 2 });
    const { publicIPs } = await openPublicIPs(world);
    world.simulator.failNext({ method: "PUT" }, { status: 400, code: "InvalidRequest", stage: "operation" });
    expect(isLost(await errorOf(publicIPs.put(idOf("pip"), body)))).toBe(false);
  });

  test("differs from one that is refused, or throttled before it is sent", async () => {
    await using world = await openWorld();
    const { publicIPs } = await openPublicIPs(world);
    for (const failure of [{ status: 403, code: "RequestDisallowedByPolicy" }, { status: 429 }]) {
      world.simulator.failNext({ method: "PUT" }, failure);
      expect(isLost(await errorOf(publicIPs.put(idOf("pip"), body, { isNew: true })))).toBe(false);
    }
  });
});

import { describe, expect, setDefaultTimeout, test } from "bun:test";

import { errorOf } from "../../../../kit/rejection.ts";
import { openCluster, serviceOf } from "../cluster.ts";

setDefaultTimeout(120_000);

const addresses = { loadBalancerBackendPoolConfigurationType: "nodeIP" };

/** What three Services on two nodes would lose with a changed config. */
async function removalsOf(
  changes: Readonly<Record<string, unknown>>,
  from: Readonly<Record<string, unknown>> = {},
): Promise<readonly string[]> {
  await using cluster = await openCluster(2);
  const first = await cluster.start(from);
  for (const name of ["a", "b", "c"]) await cluster.ensure(first, serviceOf(name));
  const before = cluster.writes().length;
  const next = await cluster.start({ ...from, ...changes });
  const found = await next.balancers.unrequestedRemovals([]);
  expect(cluster.writes()).toHaveLength(before);
  return found?.removals ?? [];
}

describe("the check of a changed config", () => {
  test("finds nothing where nothing is placed elsewhere", async () => {
    expect(await removalsOf({})).toEqual([]);
    expect(await removalsOf({ loadBalancerCacheTTLInSeconds: 7, disableOutboundSNAT: true })).toEqual([]);
    expect(await removalsOf({}, addresses)).toEqual([]);
  });

  for (const [key, value, from, lost] of [
    ["loadBalancerName", "other", {}, /^frontends a[0-9a-f]{31} of load balancer kubernetes$/u],
    ["loadBalancerResourceGroup", "rg1", {}, /^addresses \S+ of Service default\/a of resource group rg1/u],
    ["resourceGroup", "rg1", {}, /^addresses \S+ of Service default\/a of resource group rg1/u],
    ["multipleStandardLoadBalancerConfigurations", [{ name: "lb1", primaryVMSet: "vmss0" }], addresses, undefined],
    ["vmType", "standard", addresses, undefined],
    ["loadBalancerBackendPoolConfigurationType", "nodeIPConfiguration", addresses, undefined],
  ] as const)
    test(`names what a changed ${key} would remove${lost === undefined ? ": nothing" : ""}`, async () => {
      const found = await removalsOf({ [key]: value }, from);
      if (lost === undefined) expect(found).toEqual([]);
      else expect(found).toContainEqual(expect.stringMatching(lost));
    });

  test("is passed once exactly these removals are confirmed", async () => {
    await using cluster = await openCluster(1);
    const first = await cluster.start();
    for (const name of ["a", "b", "c"]) await cluster.ensure(first, serviceOf(name));
    const found = await (await cluster.start({ loadBalancerName: "other" })).balancers.unrequestedRemovals([]);
    cluster.confirmed.add(found?.hash ?? "");
    const next = await cluster.start({ loadBalancerName: "other" });
    expect(await next.balancers.unrequestedRemovals([])).toBeUndefined();
    await cluster.ensure(first, serviceOf("d"));
    const more = await (await cluster.start({ loadBalancerName: "other" })).balancers.unrequestedRemovals([]);
    expect(more?.hash).not.toBe(found?.hash);
    expect(more?.removals).toHaveLength((found?.removals.length ?? 0) + 3);
    // The generation carries out what was confirmed, and nothing else.
    const errors = await Promise.all(["a", "b", "c"].map((name) => errorOf(cluster.ensure(next, serviceOf(name)))));
    expect(errors).toEqual([undefined, undefined, undefined]);
    expect(await errorOf(cluster.ensure(next, serviceOf("d")))).toMatchObject({
      message: expect.stringContaining("would be removed"),
    });
  });
});

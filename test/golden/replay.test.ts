import { describe, expect, test } from "bun:test";

import type { Service } from "cloud-controller-host/sdk";
import { eventually } from "cloud-controller-host/sdk/testing";

import { hurriedClock } from "../kit/clocks.ts";
import { addressesOf } from "../kit/services.ts";
import { type GoldenCase, goldenCases, ownCases, type RecordedStep, stepsOf } from "./replay/cases.ts";
import { type Difference, differences } from "./replay/differences.ts";
import { GoldenCluster, kindOf } from "./replay/golden-cluster.ts";
import { compareStep, exact, expected, isUnblocked, replay, same } from "./replay/replay.ts";
import { movesOthers } from "./replay/shared-frontends.ts";
import { type Snapshot, snapshotOf } from "./replay/snapshot.ts";
import { actOf } from "./replay/steps.ts";

/** The last state in which there is something to adopt. */
const endState = (golden: GoldenCase): number =>
  stepsOf(golden).findLastIndex(
    ([step, recorded]) =>
      (recorded.services ?? []).length + (recorded.nodes ?? []).length > 0 &&
      !isUnblocked(step, recorded) &&
      !movesOthers(golden, recorded),
  );

const services = goldenCases.filter((golden) => kindOf(golden) === "services");

describe("the harness", () => {
  test("fails on an unknown kind or step", () => {
    for (const golden of goldenCases) for (const [step] of stepsOf(golden)) actOf(kindOf(golden), step);
    expect(() => actOf("services", "afterLunch")).toThrow('unknown step "afterLunch"');
    expect(() => actOf("volumes", "created")).toThrow('kind "volumes"');
  });

  for (const golden of services)
    for (const [step, recorded] of stepsOf(golden))
      test(`seeds the recorded state ${golden.case}: ${step}`, async () => {
        await using cluster = await GoldenCluster.open(golden, recorded);
        const { arm, services: seeded } = snapshotOf(cluster.observe(recorded));
        const { arm: wanted, services: wantedServices } = snapshotOf(recorded);
        expect(arm).toEqual(wanted);
        expect(seeded).toEqual(wantedServices);
        const uids = (list: readonly Service[]) => new Set(list.map(({ metadata }) => metadata?.uid));
        expect(uids(cluster.services())).toEqual(uids(recorded.services ?? []));
      });
});

/** Waits until the controller has looked at everything that it was started with. */
async function lookedAt(
  { cluster, simulator, golden }: GoldenCluster,
  { services: all = [] }: RecordedStep,
): Promise<void> {
  if (kindOf(golden) === "routes") {
    const reads = (): number => simulator.log.filter(({ path }) => path.toLowerCase().includes("/routetables/")).length;
    await eventually("the routes are looked at", () => reads() > 0);
    return;
  }
  const { length } = all.filter(({ spec }) => spec?.type === "LoadBalancer" && spec.loadBalancerClass === undefined);
  await eventually("every Service is looked at", () => cluster.worked("service", length));
  await eventually("the nodes are looked at", () => cluster.worked("node", 1));
}

describe("a recorded case", () => {
  for (const golden of goldenCases) {
    // Operations are polled here, and end at once where a state is taken over.
    test(`${golden.case}: from an empty group to the same resources and events`, async () => {
      await using cluster = await GoldenCluster.open(golden, undefined, { operationPolls: 1 });
      await cluster.start(hurriedClock(50));
      await replay(cluster, 0);
    }, 120_000);

    const end = endState(golden);
    const adopted = stepsOf(golden)[end]?.[1];
    if (adopted !== undefined)
      test(`${golden.case}: what the Go provider left is taken over without a write, and lives on`, async () => {
        await using cluster = await GoldenCluster.open(golden, adopted);
        await cluster.start();
        await lookedAt(cluster, adopted);
        const [name = ""] = stepsOf(golden)[end] ?? [];
        // A write is right only where ours differs, and leads to what ours is.
        if (cluster.armWrites().length > 0) {
          expect(expected(golden, adopted).arm).not.toEqual(snapshotOf(adopted).arm);
          // Events of steps before the takeover are gone.
          await compareStep(cluster, name, adopted, { ...exact, events: "ignored" });
        }
        await replay(cluster, end + 1);
      }, 120_000);
  }
});

/** Priorities of security rules go by the order in which Services were handled. */
const withoutPriorities = (snapshot: Snapshot): unknown =>
  JSON.parse(JSON.stringify(snapshot.arm, (key, value: unknown) => (key === "priority" ? undefined : value)));

/** The first Service to have an address names its frontend: with a shared one the order shows in more than priorities. */
const sharesAddress = ({ services: all = [] }: RecordedStep): boolean => {
  const addresses = all.flatMap(addressesOf);
  return new Set(addresses).size < addresses.length;
};

describe("Services that are created at once", () => {
  for (const golden of services) {
    const created = golden.steps["created"];
    if (created === undefined || (created.services ?? []).length < 2 || sharesAddress(created)) continue;
    // Nodes are placed on the load balancers that exist at the time.
    if (golden.cloudConfig["multipleStandardLoadBalancerConfigurations"] !== undefined) continue;
    test(`${golden.case}: become the resources that they become one after the other, and leave nothing`, async () => {
      await using cluster = await GoldenCluster.open(golden);
      await cluster.start();
      for (const service of created.services ?? []) cluster.createService(service);
      const wanted = withoutPriorities(expected(golden, created));
      const found = (): unknown => withoutPriorities(snapshotOf(cluster.observe(created)));
      await eventually("all are created", () => same(found(), wanted), exact.withinMs).catch(() => undefined);
      expect(found()).toEqual(wanted);
      for (const { metadata } of cluster.services()) cluster.deleteService(metadata?.name ?? "");
      const last = golden.steps["afterDeletion"];
      if (last !== undefined) await compareStep(cluster, "afterDeletion", last);
    }, 120_000);
  }
});

test("every listed difference occurs", () => {
  const isOne = (difference: Difference): boolean =>
    ownCases.some((golden) =>
      stepsOf(golden).some(([, recorded]) => {
        const snapshot = snapshotOf(recorded);
        return !same(difference.ours(snapshot, golden, recorded), snapshot);
      }),
    );
  expect(differences.filter((difference) => !isOne(difference)).map(({ what }) => what)).toEqual([]);
});

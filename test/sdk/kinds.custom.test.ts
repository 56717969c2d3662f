import { describe, expect, setDefaultTimeout, test } from "bun:test";

import {
  type ControllerPlugin,
  defineController,
  defineKind,
  keyOf,
  type KindRef,
  type KubeObject,
} from "cloud-controller-host/sdk";
import { controllerConformance, eventually, memoryCloud } from "cloud-controller-host/sdk/testing";

import { controllerHarness, TestCluster } from "../../host/sandbox-host.ts";

// As an author runs it: with Bun's limit.
setDefaultTimeout(120_000);

interface Price extends KubeObject {
  readonly spec?: { readonly amount: number };
  readonly status?: { readonly seen: number };
}
const prices = defineKind<Price>({
  group: "pricing.example.com",
  version: "v1",
  kind: "Price",
  plural: "prices",
  namespaced: false,
});

const priceController = (kinds: readonly KindRef[]): ControllerPlugin =>
  defineController({
    name: "price-controller",
    kinds,
    permissions: [
      { apiGroup: "pricing.example.com", resources: ["prices"], verbs: ["list", "watch"] },
      { apiGroup: "pricing.example.com", resources: ["prices/status"], verbs: ["patch"] },
    ],
    construct: () => (context) => {
      const informer = context.informers.of(prices);
      const queue = context.workqueue("prices");
      informer.handle({ added: (price) => queue.add(keyOf(price)) });
      const sync = async (name: string): Promise<void> => {
        const price = informer.store.get(name);
        const seen = price?.spec?.amount;
        if (price === undefined || price.status?.seen === seen) return;
        await context.client.patch(prices, { name }, "merge", { status: { seen } }, { subresource: "status" });
      };
      return { run: (signal) => queue.process({ workers: 1, signal, sync }) };
    },
  });

describe("a controller over a custom kind", () => {
  const suite = controllerConformance(priceController([prices]), controllerHarness(), {
    work: async ({ admin, round }) => {
      await admin.create(prices, { metadata: { name: `price-${round}` }, spec: { amount: round + 1 } });
    },
    skip: { "run resolves only after its calls in flight have ended": "it calls no cloud" },
  });
  for (const { name, run, skip } of suite) test.skipIf(skip !== undefined)(name, run, 30_000);

  test("runs in a TestCluster that serves the kinds that it declares", async () => {
    await using cluster = await TestCluster.start();
    await cluster.run(priceController([prices]), { cloud: memoryCloud().cloud });
    await cluster.admin.create(prices, { metadata: { name: "node" }, spec: { amount: 3 } });
    await eventually("the status is written", () => cluster.api.get(prices, { name: "node" })?.status?.seen === 3);
  });

  test("runs with kinds that the harness names, where the plugin declares none", async () => {
    await using world = await controllerHarness({ kinds: [prices] }).open(priceController([]));
    await world.admin.create(prices, { metadata: { name: "node" }, spec: { amount: 3 } });
    expect(await world.admin.list(prices)).toHaveLength(1);
  });

  test("names the kind that is not served, and how to serve it, within the limit of `bun test`", async () => {
    const message =
      "prices.pricing.example.com is not served: declare it in the plugin's `kinds`, or pass it as " +
      "`controllerHarness({ kinds })` or `TestCluster.start({ kinds })`";
    await using cluster = await TestCluster.start();
    await expect(cluster.run(priceController([]), { cloud: memoryCloud().cloud })).rejects.toThrow(message);
    const [runs] = controllerConformance(priceController([]), controllerHarness()).filter(({ name }) =>
      name.startsWith("runs until"),
    );
    await expect(runs?.run()).rejects.toThrow(message);
  });
});

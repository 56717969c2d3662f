import { describe, expect, test } from "bun:test";

import { kinds, taints } from "cloud-controller-host/sdk";

import lifecycle from "../../../plugins/lifecycle/plugin.ts";
import { warningLines } from "../../kit/warnings.ts";
import { initCounted } from "../counting-handlers.ts";
import { periodMs, Scene } from "./scene.ts";

const always = Number.POSITIVE_INFINITY;
const outOfOrder = new Error("the cloud is out of order");
const gone = { ready: "Unknown" } as const;
/** Passes in more than a minute. */
const lasting = Math.ceil(60_000 / periodMs) + 1;

async function passes(scene: Scene, count: number): Promise<void> {
  for (let pass = 0; pass < count; pass++) await scene.pass();
}

/** Fails every deletion of a node from now on. */
const refuseDeletions = ({ cluster }: Scene) =>
  cluster.api.faults.add({ match: { verb: "delete" }, effect: { status: 403, message: "no" }, times: always });

const failures: readonly (readonly [what: string, begin: (scene: Scene) => void, error: string])[] = [
  [
    "whose existence cannot be checked",
    (scene) => {
      scene.node("node0", gone);
      scene.memory.fail("instanceExists", outOfOrder);
    },
    outOfOrder.message,
  ],
  [
    "whose absence cannot be confirmed",
    (scene) => {
      scene.node("node0", gone, "missing");
      scene.memory.intercept("instanceExists", async ({ args: [, options], proceed }) => {
        if (options?.read === "fresh") throw outOfOrder;
        return await proceed();
      });
    },
    outOfOrder.message,
  ],
  [
    "whose power state cannot be read",
    (scene) => {
      scene.node("node0", gone);
      scene.memory.fail("instanceShutdown", outOfOrder);
    },
    outOfOrder.message,
  ],
  [
    "that keeps the shutdown taint although it is ready",
    (scene) => {
      scene.node("node0", { ready: "True", taints: [{ key: taints.shutdown, effect: "NoSchedule" }] });
      scene.cluster.api.faults.add({ match: { verb: "patch" }, effect: { status: 403, message: "no" }, times: always });
    },
    "no",
  ],
  [
    "whose deletion is refused",
    (scene) => {
      scene.node("node0", gone, "missing");
      refuseDeletions(scene);
    },
    "no",
  ],
];

describe("a node that fails for more than a minute is in /statusz with its error", () => {
  for (const [what, begin, error] of failures)
    test(`a node ${what} is in /statusz once that has lasted for a minute`, async () => {
      await using scene = await Scene.open();
      begin(scene);
      const { controller } = await scene.run();
      await passes(scene, 2);
      expect(warningLines(controller)).toEqual([]);
      await passes(scene, lasting);
      const [count, line, ...further] = warningLines(controller);
      expect([count, further]).toEqual(["failing Nodes: 1", []]);
      expect(line).toStartWith("Node node0 fails since ");
      expect(line).toEndWith(`: ${error}`);
    });

  test("a node is in /statusz no longer when its check succeeds", async () => {
    await using scene = await Scene.open();
    scene.node("node0", gone);
    const fault = scene.memory.intercept("instanceExists", async () => {
      throw outOfOrder;
    });
    const { controller } = await scene.run();
    await passes(scene, lasting);
    expect(warningLines(controller)).toHaveLength(2);
    fault.remove();
    await scene.pass();
    expect(warningLines(controller)).toEqual([]);
  });

  for (const [what, end] of [
    ["becomes ready", (scene: Scene): void => scene.becomesReady("node0")],
    ["is deleted by hand", (scene: Scene): void => scene.cluster.api.delete(kinds.Node, { name: "node0" })],
    ["has an instance again", (scene: Scene): void => void scene.memory.machines.set("node0", {})],
  ] as const)
    test(`a node whose deletion is refused is in /statusz no longer when it ${what}`, async () => {
      await using scene = await Scene.open();
      scene.node("node0", gone, "missing");
      refuseDeletions(scene);
      const { controller } = await scene.run();
      await passes(scene, lasting);
      expect(warningLines(controller)).toHaveLength(2);
      end(scene);
      await passes(scene, 2);
      expect(warningLines(controller)).toEqual([]);
    });
});

test("the node lifecycle controller removes its handler when it stops", async () => {
  await using scene = await Scene.open();
  const { cluster, clock, memory } = scene;
  const { controller, handlers } = await initCounted(cluster, lifecycle, { cloud: memory.cloud, clock });
  expect(handlers()).toBe(1);
  await controller.run(AbortSignal.abort());
  expect(handlers()).toBe(0);
});

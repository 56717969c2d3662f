import { beforeEach, expect, test } from "bun:test";

import { kinds } from "cloud-controller-host/sdk";
import { eventually, manualClock, memoryCloud } from "cloud-controller-host/sdk/testing";

import lifecycle from "../../../plugins/lifecycle/plugin.ts";
import { describeOnRealApiServer } from "../../envtest/shared.ts";
import { realRunner } from "../../kit/real.ts";
import { aNode, periodMs } from "./scene.ts";

const anHourAhead = (): number => Date.now() + 3_600_000;

describeOnRealApiServer("cloud-node-lifecycle-controller on a real API server", (cluster) => {
  beforeEach(() => cluster.cleanSlate());

  test("adds and removes taints and deletes nodes with the permissions that it declares", async () => {
    await using runner = await realRunner(cluster, lifecycle);
    const memory = memoryCloud();
    const clock = manualClock(anHourAhead());
    memory.machines.set("down", { shutdown: true });
    for (const name of ["down", "lost"])
      await cluster.admin.create(kinds.Node, { apiVersion: "v1", kind: "Node", ...aNode(name, { ready: "Unknown" }) });
    await runner.run(lifecycle, { cloud: memory.cloud, clock });
    const taintsOf = async (): Promise<readonly string[]> =>
      ((await cluster.admin.get(kinds.Node, { name: "down" })).spec?.taints ?? []).map(({ key }) => key);
    await eventually("one is tainted and the other deleted", async () => {
      const nodes = await cluster.admin.list(kinds.Node);
      return nodes.length === 1 && (await taintsOf()).join() === "node.cloudprovider.kubernetes.io/shutdown";
    });

    const at = new Date().toISOString();
    const ready = { type: "Ready", status: "True", lastHeartbeatTime: at, lastTransitionTime: at };
    await cluster.admin.patch(
      kinds.Node,
      { name: "down" },
      "strategic",
      { status: { conditions: [ready] } },
      {
        subresource: "status",
      },
    );
    await eventually("the ready node is free of the taint", async () => {
      await clock.advance(periodMs);
      return (await taintsOf()).length === 0;
    });
    await eventually("the last write has its answer", () =>
      runner.writes().every(({ status }) => status !== undefined),
    );
    expect(
      runner
        .writes()
        .map(({ method, status }) => `${method} ${status}`)
        .toSorted(),
    ).toEqual(["DELETE 200", "PATCH 200", "PATCH 200"]);
  });

  test("keeps a node that was recreated during its check", async () => {
    await using runner = await realRunner(cluster, lifecycle);
    const memory = memoryCloud();
    const node = { apiVersion: "v1", kind: "Node", ...aNode("node0", { ready: "Unknown" }) };
    await cluster.admin.create(kinds.Node, node);
    let recreated: string | undefined;
    memory.intercept("instanceExists", async ({ args: [, options], proceed }) => {
      if (options?.read === "fresh" && recreated === undefined) {
        await cluster.admin.delete(kinds.Node, { name: "node0" });
        recreated = (await cluster.admin.create(kinds.Node, node)).metadata?.uid;
        memory.machines.set("node0", {});
        return false;
      }
      return await proceed();
    });
    await runner.run(lifecycle, { cloud: memory.cloud, clock: manualClock(anHourAhead()) });
    await eventually("the deletion is refused", () => runner.sent({ method: "DELETE", status: 409 }).length === 1);
    expect((await cluster.admin.get(kinds.Node, { name: "node0" })).metadata?.uid).toBe(recreated);
  });
});

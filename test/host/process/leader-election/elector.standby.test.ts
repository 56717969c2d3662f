import { expect, setDefaultTimeout, test } from "bun:test";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { kinds } from "cloud-controller-host/sdk";
import { eventually } from "cloud-controller-host/sdk/testing";

import { SandboxApiServer } from "../../../../sdk/testing/api-server/index.ts";
import { startContender } from "./contender.ts";

setDefaultTimeout(120_000);

const main = "cloud-controller-manager";
/** A standby that only polls needs longer than any wait of this test. */
const slow = {
  leaderElectLeaseDuration: 90_000,
  leaderElectRenewDeadline: 60_000,
  leaderElectRetryPeriod: 40_000,
};

async function openWorld() {
  const ending = new AsyncDisposableStack();
  const api = ending.use(await SandboxApiServer.start());
  const folder = await mkdtemp(join(tmpdir(), "standby-"));
  ending.defer(() => rm(folder, { recursive: true, force: true }));
  return { api, folder, ending, [Symbol.asyncDispose]: () => ending.disposeAsync() };
}

test("a standby takes over from a clean stop as soon as the Lease is released, not a retry period later", async () => {
  await using world = await openWorld();
  const { api } = world;
  const leader = await startContender(world, main, [], slow);
  await eventually("the first leads", () => leader.leadership.status.leading);
  const standby = await startContender(world, main, [], slow);
  await eventually("the second stands by", () => standby.leadership.status.leader !== "");
  // Its watch of the Lease stands.
  await eventually("both watch", () => api.requests.count({ verb: "watch", resource: "leases" }) >= 2);
  leader.stop();
  leader.finish();
  await eventually("the second leads", () => standby.leadership.status.leading, 20_000);
  expect(await leader.ended).toBe("released");
  expect([leader.releases, standby.releases]).toEqual([0, 1]);
  // Nothing comes before the write that takes the Lease.
  expect(standby.writesBeforeRelease).toBe(1);
  standby.finish();
});

test("a standby whose first list shows a released Lease takes over at once, not a retry period later", async () => {
  await using world = await openWorld();
  const { api } = world;
  const leader = await startContender(world, main, [], slow);
  await eventually("the first leads", () => leader.leadership.status.leading);
  for (const verb of ["list", "watch"])
    api.faults.add({ match: { verb, resource: "leases" }, effect: { status: 503 }, times: 1_000_000 });
  const standby = await startContender(world, main, [], slow);
  await eventually("the second stands by", () => standby.leadership.status.leader !== "");
  leader.stop();
  leader.finish();
  expect(await leader.ended).toBe("released");
  api.faults.clear();
  await eventually("the second leads", () => standby.leadership.status.leading, 20_000);
  standby.finish();
});

test("a Lease that is deleted is created again by its leader as soon as it observes that, not a retry period later", async () => {
  await using world = await openWorld();
  const { api } = world;
  const leader = await startContender(world, main, [], slow);
  await eventually("it leads", () => leader.leadership.status.leading);
  await eventually("it watches", () => api.requests.count({ verb: "watch", resource: "leases" }) >= 1);
  const lease = { namespace: "kube-system", name: main };
  api.delete(kinds.Lease, lease);
  await eventually("it is there again", () => api.get(kinds.Lease, lease) !== undefined, 20_000);
  leader.finish();
});

test("a Lease that is deleted under its leader is created again by it, and no standby takes it", async () => {
  await using world = await openWorld();
  const { api } = world;
  const leader = await startContender(world, main, []);
  await eventually("the first leads", () => leader.leadership.status.leading);
  const standby = await startContender(world, main, []);
  await eventually("the second stands by", () => standby.leadership.status.leader !== "");
  const { identity } = leader.leadership.status;
  for (let round = 0; round < 3; round++) {
    api.delete(kinds.Lease, { namespace: "kube-system", name: main });
    await eventually("it is there again", () => {
      expect(standby.leadership.status.leading).toBe(false);
      return api.get(kinds.Lease, { namespace: "kube-system", name: main })?.spec?.holderIdentity === identity;
    });
  }
  expect(leader.leadership.status.leading).toBe(true);
  standby.finish();
  leader.finish();
});

import { expect, test } from "bun:test";

import type { CloudContext } from "cloud-controller-host/sdk";
import { manualClock } from "cloud-controller-host/sdk/testing";

import { MemberLooks } from "../../../../../../plugins/azure-cloud/load-balancer/reconcile/later/member-looks.ts";
import { capturedLog } from "../../../../../host/kube/captured-log.ts";

const pool =
  "/subscriptions/sub0/resourcegroups/rg0/providers/microsoft.network/loadbalancers/kubernetes/backendaddresspools/kubernetes";
const ipv6 = `${pool}-ipv6`;

interface LabOptions {
  /** Seconds that plans take: each pool is planned until that has succeeded. */
  readonly planSeconds?: readonly number[];
  readonly planning?: CloudContext["planning"];
}

function open({ planSeconds = [], planning }: LabOptions = {}) {
  const clock = manualClock();
  const stop = new AbortController();
  const { log } = capturedLog();
  const planned: string[] = [];
  const looks = new MemberLooks({
    context: { clock, signal: stop.signal, log, ...(planning && { planning }) },
    planPool: async (id) => {
      const seconds = planSeconds[planned.length] ?? 0;
      planned.push(`${clock.monotonic() / 1000} s: ${id.slice(pool.lastIndexOf("/") + 1)}`);
      await clock.sleep(seconds * 1000);
    },
  });
  const advance = (seconds: number): Promise<void> => clock.advance(seconds * 1000);
  return { looks, planned, advance, stop, clock };
}

test("each pool whose members were written is planned once more, a minute later", async () => {
  const { looks, planned, advance, clock } = open();
  for (const id of [pool.toUpperCase(), pool, ipv6]) looks.written(id);
  await advance(3600);
  expect(planned).toEqual(["60 s: kubernetes", "60 s: kubernetes-ipv6"]);
  expect(clock.sleepers).toBe(0);
  looks.written(pool);
  await advance(3600);
  expect(planned.slice(2)).toEqual(["3660 s: kubernetes"]);
});

test("the members of a pool that are written again meanwhile are looked at a minute after the last time", async () => {
  const { looks, planned, advance, clock } = open();
  for (const seconds of [10, 50]) {
    looks.written(pool);
    await advance(seconds);
  }
  expect([clock.sleepers, planned]).toEqual([1, []]);
  await advance(3600);
  expect(planned).toEqual(["70 s: kubernetes"]);
});

test("the members of a pool that are written while it is planned for the former ones are looked at once more after that", async () => {
  const { looks, planned, advance, clock } = open({ planSeconds: [600] });
  looks.written(pool);
  await advance(100);
  for (let writes = 0; writes < 3; writes += 1) looks.written(pool);
  expect(clock.sleepers).toBe(1);
  await advance(3600);
  expect([planned, clock.sleepers]).toEqual([["60 s: kubernetes", "660 s: kubernetes"], 0]);
});

test("members of pools are looked at neither for a plan nor after the end of the process", async () => {
  const ignore = (): void => undefined;
  const simulated = open({ planning: { record: ignore, unknown: ignore, hold: ignore, inFlight: ignore } });
  simulated.looks.written(pool);
  await simulated.advance(3600);
  const { looks, planned, advance, stop } = open();
  looks.written(pool);
  await advance(59);
  stop.abort();
  await advance(3600);
  expect([simulated.planned, planned]).toEqual([[], []]);
});

import { expect, test } from "bun:test";

import type { CloudContext } from "cloud-controller-host/sdk";
import { manualClock } from "cloud-controller-host/sdk/testing";

import { MemberLooks } from "../../../../../plugins/azure-cloud/load-balancer/reconcile/member-looks.ts";
import { capturedLog } from "../../../../host/kube/captured-log.ts";

const balancer = "/subscriptions/sub0/resourcegroups/rg0/providers/microsoft.network/loadbalancers/kubernetes";
const pool = `${balancer}/backendaddresspools/kubernetes`;
const ipv6 = `${pool}-ipv6`;

interface LabOptions {
  /** Results of the plans. */
  readonly plans?: readonly (Error | undefined)[];
  readonly planning?: CloudContext["planning"];
}

function open({ plans = [], planning }: LabOptions = {}) {
  const clock = manualClock();
  const stop = new AbortController();
  const { log, lines } = capturedLog();
  const steps: string[] = [];
  let planned = 0;
  const at = (what: string): void => void steps.push(`${clock.monotonic() / 1000} s: ${what}`);
  const looks = new MemberLooks({
    context: { clock, signal: stop.signal, log, ...(planning && { planning }) },
    outdate: (id) => at(`reads ${id === balancer ? "the load balancer" : id}`),
    refreshPool: async (id) => {
      at(`plans ${id.slice(pool.length - "kubernetes".length)}`);
      return plans[planned++];
    },
  });
  const advance = (seconds: number): Promise<void> => clock.advance(seconds * 1000);
  return { looks, steps, advance, stop, lines, clock };
}

test("a load balancer is read once more a minute after the members of its pools were written, and each pool planned", async () => {
  const { looks, steps, advance, clock } = open();
  for (const id of [pool.toUpperCase(), pool, ipv6]) looks.written(id);
  await advance(3600);
  expect(steps).toEqual([
    "60 s: reads the load balancer",
    "60 s: plans kubernetes",
    "60 s: reads the load balancer",
    "60 s: plans kubernetes-ipv6",
  ]);
  expect(clock.sleepers).toBe(0);
});

test("the members of a pool that are written again meanwhile are looked at a minute after the last time, at the latest in two", async () => {
  const { looks, steps, advance, clock } = open();
  for (const seconds of [10, 50]) {
    looks.written(pool);
    await advance(seconds);
  }
  expect([clock.sleepers, steps]).toEqual([1, []]);
  await advance(3600);
  expect(steps).toEqual(["120 s: reads the load balancer", "120 s: plans kubernetes"]);
});

test("a pool that cannot be planned after a change of its members is planned again, with the error in the log", async () => {
  const { looks, steps, advance, lines } = open({ plans: [new Error("no reply")] });
  looks.written(pool);
  await advance(3600);
  expect(steps.filter((step) => step.includes("plans"))).toEqual(["60 s: plans kubernetes", "120 s: plans kubernetes"]);
  expect(lines()).toMatchObject([{ level: "warn", pool, err: "no reply" }]);
});

test("members of pools are looked at neither for a plan nor after the end of the process", async () => {
  const ignore = (): void => undefined;
  const planned = open({ planning: { record: ignore, unknown: ignore, hold: ignore, inFlight: ignore } });
  planned.looks.written(pool);
  await planned.advance(3600);
  const { looks, steps, advance, stop } = open();
  looks.written(pool);
  await advance(59);
  stop.abort();
  await advance(3600);
  expect([planned.steps, steps]).toEqual([[], []]);
});

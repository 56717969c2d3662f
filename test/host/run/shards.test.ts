import { expect, test } from "bun:test";

import { manualClock } from "cloud-controller-host/sdk/testing";

import { Shards } from "../../../host/process/leader-election/shards.ts";
import { watchShards } from "../../../host/run/shards.ts";
import { capturedLog } from "../kube/captured-log.ts";

test("the Leases of the shards are read every five seconds until the signal aborts, whether or not they can be read", async () => {
  const clock = manualClock();
  const { log } = capturedLog();
  let reads = 0;
  const list = (): Promise<readonly never[]> => {
    reads += 1;
    return reads === 2 ? Promise.reject(new Error("no answer")) : Promise.resolve([]);
  };
  const served = { shard: "a", services: true, loadBalancerClass: "", serviceSelector: "" };
  const names = { namespace: "kube-system", lease: "ccm-a", mainLease: "ccm" };
  const shards = new Shards({ client: { list }, clock, log, ...names, served, limitMs: 1_000 });
  const stop = new AbortController();
  const watching = watchShards(shards, { clock, log }, stop.signal);
  const seen: number[] = [];
  for (let pause = 0; pause < 3; pause++) {
    await Bun.sleep(1);
    seen.push(reads);
    await clock.advance(5_000);
  }
  expect(seen).toEqual([1, 2, 3]);
  stop.abort();
  await watching;
});

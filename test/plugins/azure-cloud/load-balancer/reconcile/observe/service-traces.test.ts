import { expect, test } from "bun:test";

import { manualClock } from "cloud-controller-host/sdk/testing";

import {
  anywhere,
  ServiceTraces,
} from "../../../../../../plugins/azure-cloud/load-balancer/reconcile/observe/service-traces.ts";

const keptMs = 60_000;
const serviceOf = (uid: string) => ({ metadata: { name: uid, namespace: "ns", uid } });

test("traces of a Service are forgotten after their time, also behind those of one that is written again and again", async () => {
  const clock = manualClock();
  const traces = new ServiceTraces(clock, () => keptMs);
  const [busy, quiet] = [serviceOf("busy"), serviceOf("quiet")];
  for (const service of [busy, quiet]) traces.wrote(service, anywhere);
  await clock.advance(keptMs - 1);
  traces.wrote(busy, anywhere);
  expect(traces.of(quiet).unseen).toHaveLength(1);
  await clock.advance(1);
  traces.wrote(busy, anywhere);
  expect(traces.of(quiet).unseen).toEqual([]);
  expect(traces.of(busy).unseen).toHaveLength(1);
});

test("a write counts as unseen until a read shows the Service in its place, or anywhere where it has none", async () => {
  const clock = manualClock();
  const traces = new ServiceTraces(clock, () => keptMs);
  const service = serviceOf("a");
  expect(traces.of(service)).toEqual({ isSeen: false, unseen: [] });
  const wroteMs = clock.monotonic();
  for (const place of [anywhere, "/LB/one", "/lb/two"]) traces.wrote(service, place);
  expect(traces.of(service)).toEqual({ isSeen: false, unseen: [wroteMs, wroteMs, wroteMs] });
  await clock.advance(1);
  traces.saw(service, ["/lb/ONE"]);
  expect(traces.of(service)).toEqual({ isSeen: true, unseen: [wroteMs] });
  traces.left(service, "/LB/TWO");
  expect(traces.of(service)).toEqual({ isSeen: true, unseen: [] });
});

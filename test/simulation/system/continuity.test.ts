import { expect, setDefaultTimeout, test } from "bun:test";

import { campaign, type Report } from "./campaign.ts";
import type { History } from "./history.ts";
import { change, history, weather } from "./kept/history.ts";

setDefaultTimeout(300_000);

async function reportOf(given: History): Promise<Report | undefined> {
  const [report] = await Array.fromAsync(campaign({ seeds: JSON.stringify(given), trace: true }));
  return report;
}

/** How many writes of resources of a type have a status. */
const writes = (report: Report | undefined, type: string, status: number): number | undefined =>
  report?.trace.filter((line) => line.includes(" PUT ") && line.includes(`/${type}/`) && line.endsWith(`-> ${status}`))
    .length;

const tags = "RoutingPreference=Internet";

test("a Service gets another address for other IP tags when a process runs again, and keeps it without a wish for tags", async () => {
  const report = await reportOf(
    history({}, [100, { kind: "killHost" }], [100.5, change(0, 2, tags)], [200, change(0, 2)]),
  );
  expect(report?.violations).toEqual([]);
  // Those of two Services, and the other one.
  expect(writes(report, "publicIPAddresses", 201)).toBe(3);
});

test("a Service is not settled while a write for IP tags that its user no longer wants is to come", async () => {
  const calm = await reportOf(history({}));
  const report = await reportOf(history({}, [100, change(0, 2, tags)], [100.02, change(0, 2)]));
  expect(report?.violations).toEqual([]);
  // Its frontend goes and comes.
  expect(writes(report, "loadBalancers", 200)).toBe(Number(writes(calm, "loadBalancers", 200)) + 2);
});

test("a node that comes back is not a healthy member before a process that leads has initialized it", async () => {
  const report = await reportOf(
    history(
      { cluster: "node IPs", eventfulMinutes: 8 },
      [100, weather("kube", "refused", 250)],
      [140, { kind: "returnNode", pick: 1, forMs: 1_000 }],
    ),
  );
  expect(report?.violations).toEqual([]);
});

import { expect, test } from "bun:test";

import { createHttpHeaders, createPipelineRequest } from "@azure/core-rest-pipeline";
import { manualClock } from "cloud-controller-host/sdk/testing";

import { MetricsRegistry } from "../../../../../host/process/metrics/metrics.ts";
import { Budget } from "../../../../../plugins/azure-cloud/arm/pipeline/budget.ts";
import { armMetrics } from "../../../../../plugins/azure-cloud/arm/pipeline/metrics.ts";

const url = "https://arm.test/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/virtualMachines/one";
const header = "x-ms-ratelimit-remaining-resource";

/** A budget that gets replies with such headers, and the pauses that its requests make. */
function openBudget() {
  const pauses: number[] = [];
  const sleep = (ms: number): Promise<void> => Promise.resolve(void pauses.push(ms));
  const clock = { ...manualClock(), monotonic: () => 0, now: () => 0, sleep };
  const budget = new Budget(clock, armMetrics(new MetricsRegistry().root));
  const request = createPipelineRequest({ url, method: "PUT" });
  const send = (headers: Readonly<Record<string, string>>) =>
    budget.policy.sendRequest(request, () =>
      Promise.resolve({ request, status: 200, headers: createHttpHeaders(headers) }),
    );
  return { budget, pauses, send };
}

test.each([
  ["digits", "0"],
  ["names that end in a time", "a9Min"],
])("a header of ARM about its limits, 100,000 characters of %s, takes little time", async (_, text) => {
  const { send } = openBudget();
  const value = text.repeat(Math.ceil(100_000 / text.length));
  const beganMs = performance.now();
  await send({ [header]: value });
  expect(performance.now() - beganMs).toBeLessThan(500);
});

test.each([
  ["a bucket that refills in no time", header, "Microsoft.Compute/Get0Min;5"],
  ["more tokens than a number has", header, `Microsoft.Compute/Get3Min;${"9".repeat(400)}`],
  ["a number of tokens that no bucket has", "x-ms-ratelimit-remaining-subscription-writes", "1e308"],
  ["less than no token", "x-ms-ratelimit-remaining-subscription-writes", "-5"],
])("%s in a reply of ARM delays no request and changes no headroom", async (_, name, value) => {
  const { budget, pauses, send } = openBudget();
  await send({ [name]: value });
  await send({ "x-ms-ratelimit-remaining-subscription-writes": "200" });
  await send({});
  expect(pauses).toEqual([]);
  expect(budget.headroom).toBe(199 / 200);
  expect(budget.status.flatMap(({ facts = [] }) => facts)).toEqual([{ name: "writes s", value: "199 of 200 left" }]);
});

test("the latest 1,000 limits that replies of ARM have named are remembered, and those that are named again", async () => {
  const { budget, send } = openBudget();
  const names = Array.from({ length: 3_000 }, (_, index) => `Microsoft.Compute/Get${index}x3Min;100`);
  const subscription = { "x-ms-ratelimit-remaining-subscription-writes": "200" };
  for (let at = 0; at < names.length; at += 100)
    await send({ ...subscription, [header]: names.slice(at, at + 100).join(",") });
  expect(budget.status[0]?.facts).toHaveLength(1_000);
  expect(budget.status[0]?.facts).toContainEqual({ name: "writes s", value: "200 of 200 left" });
});

import { expect, test } from "bun:test";

import { MetricsRegistry } from "../../../../../host/process/metrics/metrics.ts";
import { operationMetrics } from "../../../../../plugins/azure-cloud/arm/writes/operation-metrics.ts";

const about = { resourceGroup: "RG0", subscription: "sub0" };

/** Runs operations of sources, and scrapes often enough for all that is gone to go. */
async function seriesAfter(...operations: readonly (readonly [request: string, source: string, error?: Error])[]) {
  const registry = new MetricsRegistry();
  const observe = operationMetrics(registry.root);
  for (const [request, source, error] of operations) {
    const work = () => (error === undefined ? Promise.resolve() : Promise.reject(error));
    await observe({ ...about, request, source }, work).catch(() => undefined);
  }
  for (let scrape = 0; scrape < 4; scrape++) await registry.render();
  const { body } = await registry.render();
  return body.split("\n").flatMap((line) => {
    const [, name = "", request = "", source = ""] =
      /^cloudprovider_azure_op_(duration_seconds_count|failure_count)\{.*request="(\w+)".*source="([^"]+)"/u.exec(
        line,
      ) ?? [];
    return name === "" ? [] : [`${name} ${request} ${source}`];
  });
}

const failure = new Error("refused");
const ensure = "services_ensure_loadbalancer";
const remove = "services_ensure_loadbalancer_deleted";

test("the series of a Service end once it is deleted, and those of others stay", async () => {
  expect(await seriesAfter([ensure, "a"], [ensure, "b"], [ensure, "a", failure], [remove, "a"])).toEqual([
    `duration_seconds_count ${ensure} b`,
  ]);
  expect(await seriesAfter(["routes_create_route", "vm-0"], ["routes_delete_route", "vm-0"])).toEqual([]);
});

test("the series of a Service stay when its deletion fails, and come back when it does", async () => {
  expect(await seriesAfter([remove, "a", failure])).toEqual([
    `duration_seconds_count ${remove} a`,
    `failure_count ${remove} a`,
  ]);
  expect(await seriesAfter([ensure, "a"], [remove, "a"], [ensure, "a"])).toEqual([
    `duration_seconds_count ${ensure} a`,
  ]);
});

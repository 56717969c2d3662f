import { describe, expect, test } from "bun:test";

import { createHttpHeaders, createPipelineRequest, type PipelineResponse } from "@azure/core-rest-pipeline";
import { manualClock } from "cloud-controller-host/sdk/testing";

import { operationPacingPolicy } from "../../../../../plugins/azure-cloud/arm/pipeline/operation-pacing.ts";
import { openWorld } from "../../world.ts";

const subscription = "https://arm.test/subscriptions/sub0";
const operation = `${subscription}/providers/Microsoft.Network/locations/here/operations/1?api-version=1`;
const resource = `${subscription}/resourceGroups/rg0/providers/Microsoft.Network/publicIPAddresses/ip`;

/** Sends requests through the policy alone; replies have the given headers. */
function openPolicy() {
  const clock = manualClock(1_000_000);
  const policy = operationPacingPolicy(clock);
  let sent = 0;
  const send = (
    url: string,
    headers: Readonly<Record<string, string>> = {},
    method: "GET" | "PUT" = "GET",
    bodyAsText = '{"status":"InProgress"}',
  ) => {
    const request = createPipelineRequest({ url, method });
    const next = async (): Promise<PipelineResponse> => {
      sent += 1;
      return { request, status: 200, headers: createHttpHeaders({ ...headers }), bodyAsText };
    };
    return policy.sendRequest(request, next);
  };
  const start = (headers: Readonly<Record<string, string>> = {}) =>
    send(resource, { "azure-asyncoperation": operation, ...headers }, "PUT");
  return { clock, send, start, sent: () => sent };
}

/** The pause that a reply requests, as the SDK computes it. The header is written within the time that `work` takes. */
async function pauseOf(work: () => Promise<PipelineResponse>): Promise<readonly [number, number]> {
  const before = Date.now();
  const value = (await work()).headers.get("retry-after") ?? "";
  expect(Number.parseInt(value)).toBeNaN();
  const at = new Date(value).getTime();
  return [at - Date.now(), at - before];
}

describe("polls of a long-running operation", () => {
  test("come after 0.2, 0.5, 1 and 2 seconds where ARM names no pause, and later after a tenth of its time, at most 15 s", async () => {
    const { clock, send, start } = openPolicy();
    await start();
    const expectPause = async (ms: number): Promise<void> => {
      const [least, most] = await pauseOf(() => send(operation));
      expect(least).toBeLessThanOrEqual(ms);
      expect(most).toBeGreaterThanOrEqual(ms);
    };
    for (const ms of [200, 500, 1_000, 2_000, 2_000]) await expectPause(ms);
    for (const [seconds, ms] of [
      [19, 2_000],
      [50, 5_000],
      [140, 14_000],
      [600, 15_000],
    ] as const) {
      await clock.advance(seconds * 1_000 - (clock.now() - 1_000_000));
      await expectPause(ms);
    }
  });

  const numbered = (count: number): readonly string[] =>
    Array.from({ length: count }, (_, index) => operation.replace("/1?", `/${index}?`));

  test("are further apart after the first ones where many operations are followed at once, until the others have ended or are given up", async () => {
    const { clock, send } = openPolicy();
    const urls = numbered(100);
    for (const url of urls) await send(resource, { "azure-asyncoperation": url }, "PUT");
    const [first = "", ...others] = urls;
    const pause = async (): Promise<number> => {
      const [least, most] = await pauseOf(() => send(first));
      return Math.round(((least + most) / 2) * 0.01) * 100;
    };
    expect(await Promise.all([pause(), pause(), pause()])).toEqual([200, 500, 1_000]);
    expect(await pause()).toBe(6_000);
    for (const [index, url] of others.slice(0, 9).entries())
      await send(url, {}, "GET", `{"status" : "${["Succeeded", "Failed", "canceled"][index % 3]}"}`);
    expect(await pause()).toBe(5_500);
    await clock.advance(20_000);
    for (const url of others.slice(9, 89)) await send(url);
    await clock.advance(11_000);
    expect(await pause()).toBe(4_900);
  });

  test("are never further apart than 15 seconds, however many operations are followed", async () => {
    const { send } = openPolicy();
    const urls = numbered(400);
    for (const url of urls) await send(resource, { "azure-asyncoperation": url }, "PUT");
    for (let poll = 0; poll < 3; poll++) await send(operation);
    const [least, most] = await pauseOf(() => send(operation));
    expect([least <= 15_000, most >= 15_000]).toEqual([true, true]);
  });

  test("are paced for the thousand operations that began or were polled last", async () => {
    const { send } = openPolicy();
    const [oldest = "", polled = "", ...others] = numbered(1_001);
    const isPaced = async (url: string) => (await send(url)).headers.get("retry-after") !== undefined;
    for (const url of [oldest, polled]) await send(resource, { "azure-asyncoperation": url }, "PUT");
    expect(await isPaced(oldest)).toBe(true);
    for (const url of others) await send(resource, { "azure-asyncoperation": url }, "PUT");
    expect([await isPaced(oldest), await isPaced(polled)]).toEqual([true, false]);
  });

  test("come when ARM wants them, the first one included", async () => {
    const { clock, send, start, sent } = openPolicy();
    await start({ "retry-after": "10" });
    const poll = send(operation, { "retry-after": "7" });
    await clock.advance(9_900);
    expect(sent()).toBe(1);
    await clock.advance(200);
    expect((await poll).headers.get("retry-after")).toBe("7");
    expect(sent()).toBe(2);
  });

  const inAYear = 31_536_000;
  test.each([
    ["0", 15_000],
    ["-5", 15_000],
    ["soon", 15_000],
    ["1e3", 15_000],
    [new Date(0).toUTCString(), 15_000],
    [String(inAYear), 900_000],
    [new Date(1_000_000 + inAYear * 1_000).toUTCString(), 900_000],
  ])(
    "never follow each other without a pause, nor wait for more than 15 minutes: Retry-After %p",
    async (value, ms) => {
      const { clock, send, start, sent } = openPolicy();
      await start({ "retry-after": value });
      const first = send(operation, { "retry-after": value });
      await clock.advance(900_000);
      await first;
      for (const _ of ["second", "third", "fourth"]) await send(operation, { "retry-after": value });
      const [least, most] = await pauseOf(() => send(operation, { "retry-after": value }));
      expect(least).toBeLessThanOrEqual(ms);
      expect(most).toBeGreaterThanOrEqual(ms);
      expect(sent()).toBe(6);
    },
  );

  test("are followed by the URL in Location too; other reads are left alone", async () => {
    const { send } = openPolicy();
    await send(resource, { location: operation }, "PUT");
    expect((await send(resource)).headers.get("retry-after")).toBeUndefined();
    expect((await send(operation)).headers.get("retry-after")).toBeDefined();
  });

  test("are those of the SDK: four of them take less time than its default pauses", async () => {
    await using world = await openWorld({ operationPolls: 4 });
    const { network } = await world.clients();
    const began = performance.now();
    await network.publicIPAddresses.createOrUpdate("rg0", "ip", { location: "eastus" });
    const passed = performance.now() - began;
    const polls = world.simulator.log.filter(({ path }) => path.includes("/operations/"));
    expect(polls).toHaveLength(4);
    expect(passed).toBeGreaterThanOrEqual(1_600);
    expect(passed).toBeLessThan(6_000);
  });
});

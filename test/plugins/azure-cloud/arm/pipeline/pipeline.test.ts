import { describe, expect, test } from "bun:test";

import { createHttpHeaders, createPipelineRequest } from "@azure/core-rest-pipeline";
import { FencedError, RetryAfterError } from "cloud-controller-host/sdk";
import { eventually, manualClock } from "cloud-controller-host/sdk/testing";

import { MetricsRegistry } from "../../../../../host/process/metrics/metrics.ts";
import { ArmError } from "../../../../../plugins/azure-cloud/arm/errors.ts";
import { Budget } from "../../../../../plugins/azure-cloud/arm/pipeline/budget.ts";
import { armMetrics } from "../../../../../plugins/azure-cloud/arm/pipeline/metrics.ts";
import { minimumRetryAfterPolicy } from "../../../../../plugins/azure-cloud/arm/transport/retry.ts";
import { isLost, isRefused } from "../../../../../plugins/azure-cloud/arm/writes/write-errors.ts";
import type { Failure } from "../../../../../plugins/azure-cloud/simulator/faults.ts";
import { hurriedClock } from "../../../../kit/clocks.ts";
import { errorOf } from "../../../../kit/rejection.ts";
import { warningLines } from "../../../../kit/warnings.ts";
import { countOf, openWorld } from "../../world.ts";

const publicIP = { location: "eastus", sku: { name: "Standard" }, publicIPAllocationMethod: "Static" };
const list = { method: "GET", path: "/publicIPAddresses" };

describe("retries", () => {
  test("retries failures of the service up to three times", async () => {
    await using world = await openWorld();
    const { network } = await world.clients();
    world.simulator.failNext(list, { status: 503, times: 3 });
    expect(await Array.fromAsync(network.publicIPAddresses.list("rg0"))).toEqual([]);
    expect(countOf(world.simulator, "/publicIPAddresses")).toBe(4);
  });

  test("gives up after the third retry with ARM's message", async () => {
    await using world = await openWorld();
    const { network } = await world.clients();
    world.simulator.failNext(list, { status: 500, code: "InternalServerError", message: "Out of order.", times: 4 });
    const error = await errorOf(Array.fromAsync(network.publicIPAddresses.list("rg0")));
    expect(error).toBeInstanceOf(ArmError);
    if (!(error instanceof ArmError)) throw error;
    expect(error).toMatchObject({ status: 500, code: "InternalServerError", failedOperation: false });
    expect(error.correlationId).toMatch(/^[-0-9a-f]{36}$/u);
    expect(error.message).toBe(
      "ARM GET /subscriptions/sub0/resourceGroups/rg0/providers/Microsoft.Network/publicIPAddresses: " +
        `500 InternalServerError: Out of order. (correlation ID ${error.correlationId})`,
    );
  });

  test("does not retry what ARM refused", async () => {
    await using world = await openWorld();
    const { network } = await world.clients();
    const error = await errorOf(network.publicIPAddresses.get("rg0", "none"));
    expect(error).toMatchObject({ status: 404, code: "ResourceNotFound" });
    expect(countOf(world.simulator, "/publicIPAddresses/none")).toBe(1);
  });

  test("retries a request whose connection broke", async () => {
    await using world = await openWorld();
    const { network } = await world.clients();
    world.simulator.failNext(list, { status: 200, stage: "connection" });
    expect(await Array.fromAsync(network.publicIPAddresses.list("rg0"))).toEqual([]);
    expect(countOf(world.simulator, "/publicIPAddresses")).toBe(2);
  });

  test("does not follow a redirect, which could lead to another host", async () => {
    await using world = await openWorld();
    const { network } = await world.clients();
    world.simulator.failNext(list, { status: 302, headers: { location: `${world.simulator.origin}/elsewhere` } });
    expect(await errorOf(Array.fromAsync(network.publicIPAddresses.list("rg0")))).toMatchObject({ status: 302 });
    expect(countOf(world.simulator, "/elsewhere")).toBe(0);
  });

  test("leaves a wait of more than a minute to the caller", async () => {
    await using world = await openWorld();
    const { network } = await world.clients();
    world.simulator.failNext(list, { status: 503, headers: { "retry-after": "61" }, times: 4 });
    expect(await errorOf(Array.fromAsync(network.publicIPAddresses.list("rg0")))).toMatchObject({ status: 503 });
    expect(countOf(world.simulator, "/publicIPAddresses")).toBe(1);
  });
});

describe("a write that is refused", () => {
  const write = { method: "PUT", path: "/publicIPAddresses/pip" };
  const losses: readonly (readonly [string, Failure])[] = [
    ["its connection broke", { status: 200, stage: "connection" }],
    ["the service failed", { status: 503 }],
    ["a gateway timed out", { status: 408 }],
  ];

  /** The error of a write whose first attempt ends with `loss`, and the second one with `refusal`. */
  async function refused(refusal: Failure, loss?: Failure): Promise<unknown> {
    await using world = await openWorld();
    const refuse = (): void => world.simulator.failNext(write, refusal);
    const clock = { ...hurriedClock(Number.POSITIVE_INFINITY), sleep: () => Promise.resolve(refuse()) };
    const { network } = await world.clients({}, { clock });
    if (loss === undefined) refuse();
    else world.simulator.failNext(write, loss);
    return await errorOf(network.publicIPAddresses.createOrUpdate("rg0", "pip", publicIP));
  }

  for (const refusal of [
    { status: 400, code: "InvalidRequestFormat" },
    { status: 403, code: "RequestDisallowedByPolicy" },
    { status: 404, code: "ResourceGroupNotFound" },
  ]) {
    test(`has written nothing if ${refusal.status} is the reply to its first attempt`, async () => {
      const error = await refused(refusal);
      expect(error).toMatchObject(refusal);
      expect([isRefused(error), isLost(error)]).toEqual([true, false]);
    });

    for (const [what, loss] of losses)
      test(`may be carried out with ${refusal.status} if ${what} before`, async () => {
        const error = await refused(refusal, loss);
        expect(error).toMatchObject(refusal);
        expect([isRefused(error), isLost(error)]).toEqual([false, true]);
      });
  }

  test("may be carried out although it is throttled after an attempt that was lost", async () => {
    const error = await refused({ status: 429, headers: { "retry-after": "17" } }, { status: 503 });
    expect(error).toBeInstanceOf(RetryAfterError);
    expect(isLost(error)).toBe(true);
  });
});

describe("a request that fails and is retried", () => {
  const kind = "GET microsoft.network/publicipaddresses";

  test("is a warning with since when from the first attempt on, until one succeeds, and is logged once", async () => {
    await using world = await openWorld();
    const clock = manualClock(Date.UTC(2026, 0, 1));
    const clients = await world.clients({}, { clock });
    world.simulator.failNext(list, { status: 503, times: 2 });
    const listed = Array.fromAsync(clients.network.publicIPAddresses.list("rg0"));
    while (clock.sleepers === 0) await Bun.sleep(1);
    expect(clients.troubles.warnings).toEqual([
      {
        kind: "RequestsFail",
        text: `${kind} fails since 2026-01-01T00:00:00.000Z, 1 attempt: the reply was 503`,
        since: "2026-01-01T00:00:00.000Z",
      },
    ]);
    await clock.advance(6_500);
    while (clock.sleepers === 0) await Bun.sleep(1);
    expect(clients.troubles.warnings).toEqual([
      {
        kind: "RequestsFail",
        text: `${kind} fails since 2026-01-01T00:00:00.000Z, 2 attempts: the reply was 503`,
        since: "2026-01-01T00:00:00.000Z",
      },
    ]);
    await clock.advance(20_000);
    await listed;
    expect(clients.troubles.warnings).toEqual([]);
    const lines = world.logged.filter(({ message }) => message === "Request to Azure failed; retrying");
    expect(lines).toEqual([
      { level: "warn", message: lines[0]?.message ?? "", fields: { request: kind, reason: "the reply was 503" } },
    ]);
  });

  test("stays a warning after the last attempt, and is forgotten without another one", async () => {
    await using world = await openWorld();
    const clock = { ...manualClock(Date.UTC(2026, 0, 1)), sleep: () => Promise.resolve() };
    const clients = await world.clients({}, { clock });
    world.simulator.failNext(list, { status: 200, stage: "connection", times: 4 });
    expect(await errorOf(Array.fromAsync(clients.network.publicIPAddresses.list("rg0")))).toBeDefined();
    expect(clients.troubles.warnings).toEqual([
      expect.objectContaining({ text: expect.stringContaining("4 attempts") }),
    ]);
    await clock.advance(15 * 60_000);
    expect(clients.troubles.warnings).toHaveLength(1);
    await clock.advance(1);
    expect(clients.troubles.warnings).toEqual([]);
  });

  test("is a warning of the cloud", async () => {
    await using world = await openWorld();
    await using cloud = await world.create();
    expect(warningLines(cloud)).toEqual([]);
    world.simulator.failNext({ path: "/providers/" }, { status: 500, times: 1_000 });
    expect(await errorOf(cloud.routes.listRoutes("kubernetes"))).toBeDefined();
    expect(warningLines(cloud)).toEqual([expect.stringContaining("microsoft.network/routetables fails since")]);
  });
});

describe("the wait before a retry", () => {
  const epochMs = Date.UTC(2026, 0, 1);
  test.each([
    ["Retry-After in seconds", { "retry-after": "20" }, 20_000],
    ["a short Retry-After, which only successful replies may not have,", { "retry-after": "1" }, 1_000],
    ["Retry-After as a date", { "retry-after": new Date(epochMs + 20_000).toUTCString() }, 20_000],
    ["retry-after-ms", { "retry-after-ms": "250", "retry-after": "20" }, 250],
    ["x-ms-retry-after-ms", { "x-ms-retry-after-ms": "350", "retry-after": "20" }, 350],
  ] as const)("is the one that %s requests", async (_name, headers, waitMs) => {
    await using world = await openWorld();
    const clock = manualClock(epochMs);
    const { network } = await world.clients({ enableMinimumRetryAfter: true }, { clock });
    world.simulator.failNext(list, { status: 503, headers });
    const listed = Array.fromAsync(network.publicIPAddresses.list("rg0"));
    while (clock.sleepers === 0) await Bun.sleep(1);
    await clock.advance(waitMs - 1);
    expect(clock.sleepers).toBe(1);
    await clock.advance(1);
    expect(await listed).toEqual([]);
    expect(clock.monotonic()).toBe(waitMs);
  });

  test.each([
    ["without a delay from ARM", {}],
    ["with Retry-After: 0", { "retry-after": "0" }],
    ["with a Retry-After that this clock has passed", { "retry-after": new Date(epochMs - 20_000).toUTCString() }],
  ])("is 5 seconds times 0.8 to 1.3 %s", async (_name, headers) => {
    await using world = await openWorld();
    const clock = manualClock(epochMs);
    const { network } = await world.clients({}, { clock });
    world.simulator.failNext(list, { status: 503, headers });
    const listed = Array.fromAsync(network.publicIPAddresses.list("rg0"));
    while (clock.sleepers === 0) await Bun.sleep(1);
    await clock.advance(3_999);
    await Bun.sleep(20);
    expect(clock.sleepers).toBe(1);
    expect(countOf(world.simulator, "/publicIPAddresses")).toBe(1);
    await clock.advance(2_501);
    expect(await listed).toEqual([]);
  });
});

test.each([
  ["one tenant", {}],
  ["two tenants", { tenantId: "home-tenant", networkResourceTenantID: "network-tenant" }],
])("an answered request, which the SDK's errors keep, holds no token: %s", async (_name, tenants) => {
  await using world = await openWorld();
  const { vmNetwork } = await world.clients(tenants);
  const kept: boolean[] = [];
  type Options = NonNullable<Parameters<typeof vmNetwork.publicIPAddresses.get>[2]>;
  const onResponse: Options["onResponse"] = ({ request: { headers } }) =>
    void kept.push(headers.has("authorization"), headers.has("x-ms-authorization-auxiliary"));
  await vmNetwork.publicIPAddresses.createOrUpdate("rg0", "pip", publicIP);
  world.simulator.clearLog();
  await vmNetwork.publicIPAddresses.get("rg0", "pip", { onResponse });
  expect(world.simulator.log.filter(({ method }) => method === "GET").map(({ auxiliary }) => auxiliary)).toEqual([
    "tenantId" in tenants,
  ]);
  expect(kept).toEqual([false, false]);
});

describe("throttling", () => {
  const throttled = { status: 429, headers: { "retry-after": "17" } };

  test("a 429 is not retried, and its error has the time to wait", async () => {
    await using world = await openWorld();
    const { network } = await world.clients();
    world.simulator.failNext(list, throttled);
    const error = await errorOf(Array.fromAsync(network.publicIPAddresses.list("rg0")));
    expect(error).toBeInstanceOf(RetryAfterError);
    expect(error).toMatchObject({ delayMs: 17_000 });
    expect(countOf(world.simulator, "/publicIPAddresses")).toBe(1);
  });

  test("closes the gate for five seconds after a 429 without Retry-After", async () => {
    await using world = await openWorld();
    const clock = manualClock();
    const { network } = await world.clients({}, { clock });
    world.simulator.failNext(list, { status: 429 });
    const ask = (): Promise<unknown> => errorOf(Array.fromAsync(network.publicIPAddresses.list("rg0")));
    expect(await ask()).toMatchObject({ delayMs: 5_000 });
    await clock.advance(4_999);
    expect(await ask()).toMatchObject({ delayMs: 1 });
    await clock.advance(1);
    expect(await ask()).toBeUndefined();
    expect(countOf(world.simulator, "/publicIPAddresses")).toBe(2);
  });

  const dateIn = (seconds: number): string => new Date(seconds * 1_000).toUTCString();
  test.each([
    [{ "retry-after": "soon" }, 5_000],
    [{ "retry-after": "-5" }, 5_000],
    [{ "retry-after": "" }, 5_000],
    [{ "retry-after": "1e9" }, 5_000],
    [{ "retry-after-ms": "NaN", "x-ms-retry-after-ms": "-1" }, 5_000],
    [{ "retry-after": dateIn(1_030) }, 30_000],
    [{ "retry-after": "31536000" }, 900_000],
    [{ "retry-after": dateIn(31_536_000) }, 900_000],
    [{ "x-ms-retry-after-ms": "99999999999" }, 900_000],
  ])("closes the gate after a 429 for 15 minutes at most: %j", async (headers, waitMs) => {
    await using world = await openWorld();
    const clock = manualClock(1_000_000);
    const { network } = await world.clients({}, { clock });
    world.simulator.failNext(list, { status: 429, headers });
    const ask = (): Promise<unknown> => errorOf(Array.fromAsync(network.publicIPAddresses.list("rg0")));
    expect(await ask()).toMatchObject({ delayMs: waitMs });
    await clock.advance(waitMs - 1);
    expect(await ask()).toMatchObject({ delayMs: 1 });
    await clock.advance(1);
    expect(await ask()).toBeUndefined();
    expect(countOf(world.simulator, "/publicIPAddresses")).toBe(2);
  });

  test.each([[{ "retry-after": "0" }], [{ "retry-after-ms": "250" }], [{ "retry-after": dateIn(0) }]])(
    "lets a caller repeat its work a second later at the earliest: %j",
    async (headers) => {
      await using world = await openWorld();
      const { network } = await world.clients({}, { clock: manualClock(1_000_000) });
      world.simulator.failNext(list, { status: 429, headers });
      expect(await errorOf(Array.fromAsync(network.publicIPAddresses.list("rg0")))).toMatchObject({ delayMs: 1_000 });
    },
  );

  test("a 429 with a shorter wait, or without one, does not open the gate before the longest wait of its kind is over", async () => {
    await using world = await openWorld();
    const clock = manualClock();
    const { network } = await world.clients({}, { clock });
    const ask = (group: string): Promise<unknown> => errorOf(Array.fromAsync(network.publicIPAddresses.list(group)));
    world.simulator.failNext({ path: "/rg0/" }, { status: 429, headers: { "retry-after": "300" } });
    world.simulator.failNext({ path: "/rg1/" }, { status: 429 });
    const late = world.simulator.hold({ path: "/rg1/" }, "request");
    const second = ask("rg1");
    await eventually("it is on its way", () => late.waiting() > 0);
    expect(await ask("rg0")).toMatchObject({ delayMs: 300_000 });
    await clock.advance(10_000);
    late.release();
    expect(await second).toMatchObject({ delayMs: 290_000 });
    await clock.advance(5_000);
    expect(await ask("rg0")).toMatchObject({ delayMs: 285_000 });
    expect(countOf(world.simulator, "/publicIPAddresses")).toBe(2);
  });

  test("requests of a throttled kind fail without a network call until the wait is over, and others are sent", async () => {
    await using world = await openWorld({ operationStyle: "none" });
    const clock = manualClock();
    const { network, troubles } = await world.clients({}, { clock });
    world.simulator.failNext(list, throttled);
    await errorOf(Array.fromAsync(network.publicIPAddresses.list("rg0")));
    await clock.advance(10_000);
    const error = await errorOf(Array.fromAsync(network.publicIPAddresses.list("rg0")));
    expect(error).toMatchObject({ delayMs: 7_000 });
    expect(countOf(world.simulator, "/publicIPAddresses")).toBe(1);
    expect(troubles.warnings).toEqual([
      expect.objectContaining({
        kind: "RequestsThrottled",
        text: expect.stringMatching(
          /^GET microsoft\.network\/publicipaddresses fails since .*, 2 attempts: ARM throttles reads/u,
        ),
      }),
    ]);
    expect(await Array.fromAsync(network.loadBalancers.list("rg0"))).toEqual([]);
    await network.publicIPAddresses.createOrUpdate("rg0", "writes-pass", publicIP);
    await clock.advance(7_000);
    expect(await Array.fromAsync(network.publicIPAddresses.list("rg0"))).toHaveLength(1);
    expect(troubles.warnings).toEqual([]);
    expect(world.measured.filter((line) => line.startsWith("arm_request_throttle_counter_total"))).toHaveLength(1);
    expect(world.measured.filter((line) => line.startsWith("arm_request_rate_limit_counter_total"))).toHaveLength(1);
  });

  test("a warning of throttling ends with the first request that passes, whatever its method", async () => {
    await using world = await openWorld({ operationStyle: "none" });
    const clock = manualClock();
    const { network, troubles } = await world.clients({}, { clock });
    world.simulator.failNext({ method: "DELETE", path: "/publicIPAddresses" }, throttled);
    await errorOf(network.publicIPAddresses.delete("rg0", "one"));
    await network.loadBalancers.createOrUpdate("rg0", "another-type", { location: "eastus" });
    await Array.fromAsync(network.publicIPAddresses.list("rg0"));
    expect(troubles.warnings).toHaveLength(1);
    await clock.advance(17_000);
    await network.publicIPAddresses.createOrUpdate("rg0", "two", publicIP);
    expect(troubles.warnings).toEqual([]);
  });

  test("a warning of throttling ends a minute after the wait when no request follows", async () => {
    await using world = await openWorld();
    const clock = manualClock();
    const { network, troubles } = await world.clients({}, { clock });
    world.simulator.failNext(list, throttled);
    await errorOf(Array.fromAsync(network.publicIPAddresses.list("rg0")));
    await clock.advance(17_000 + 60_000);
    expect(troubles.warnings).toHaveLength(1);
    await clock.advance(1);
    expect(troubles.warnings).toEqual([]);
  });

  test("closes the gate of one subscription and not that of another", async () => {
    await using world = await openWorld();
    const { network, vmNetwork } = await world.clients({ networkResourceSubscriptionID: "sub1" });
    const ask = (client: typeof network): Promise<unknown> =>
      errorOf(Array.fromAsync(client.publicIPAddresses.list("rg0")));
    world.simulator.failNext({ path: /\/sub0\/.*publicIPAddresses/u }, throttled);
    expect(await ask(vmNetwork)).toBeInstanceOf(RetryAfterError);
    expect(await ask(vmNetwork)).toBeInstanceOf(RetryAfterError);
    expect(await ask(network)).toMatchObject({ code: "SubscriptionNotFound" });
    expect(countOf(world.simulator, "/publicIPAddresses")).toBe(2);
  });

  test("spaces requests when ARM reports that its bucket runs low, and is never throttled", async () => {
    const rateLimits = { reads: { burst: 20, perSecond: 1_000 }, writes: { burst: 20, perSecond: 1_000 } };
    await using world = await openWorld({ rateLimits });
    const { network } = await world.clients();
    for (let index = 0; index < 60; index++) await Array.fromAsync(network.publicIPAddresses.list("rg0"));
    expect(world.measured.filter((line) => line.startsWith("arm_request_throttle"))).toEqual([]);
  });

  test("waits for the refill when the bucket that ARM reported is empty", async () => {
    await using world = await openWorld({
      rateLimits: { reads: { burst: 2, perSecond: 100 }, writes: { burst: 9, perSecond: 9 } },
    });
    const clock = manualClock();
    const { network } = await world.clients({}, { clock });
    await Array.fromAsync(network.publicIPAddresses.list("rg0"));
    const next = Array.fromAsync(network.publicIPAddresses.list("rg0"));
    while (clock.sleepers === 0) await Bun.sleep(1);
    expect(countOf(world.simulator, "/publicIPAddresses")).toBe(1);
    await clock.advance(30_000);
    expect(await next).toEqual([]);
  });
});

test.each([
  [
    "the bucket of the subscription",
    "x-ms-ratelimit-remaining-subscription-reads",
    (left: number) => `${left}`,
    10_000,
  ],
  [
    "the bucket that all identities of the subscription share",
    "x-ms-ratelimit-remaining-subscription-global-reads",
    (left: number) => `${left}`,
    10_000,
  ],
  [
    "one of several buckets of the type",
    "x-ms-ratelimit-remaining-resource",
    (left: number) => `Microsoft.Compute/Other30Min;9999,Microsoft.Compute/GetVM3Min;${left}`,
    180_000,
  ],
  [
    "a bucket of seconds",
    "x-ms-ratelimit-remaining-resource",
    (left: number) => `Microsoft.Compute/Get30Sec;${left}`,
    30_000,
  ],
])("requests wait for the refill up to the reserve of %s", async (_name, header, valueOf, refillMs) => {
  const clock = manualClock();
  const pauses: number[] = [];
  const sleep = (ms: number): Promise<void> => Promise.resolve(void pauses.push(ms));
  const { policy } = new Budget(
    { ...clock, monotonic: () => 0, now: () => 0, sleep },
    armMetrics(new MetricsRegistry().root),
  );
  const request = createPipelineRequest({
    url: "https://arm.test/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/virtualMachines",
  });
  const send = async (left: number): Promise<void> => {
    const headers = createHttpHeaders({ [header]: valueOf(left) });
    await policy.sendRequest(request, () => Promise.resolve({ request, status: 200, headers }));
  };
  await send(1000);
  await send(41);
  expect(pauses).toEqual([]);
  // A twentieth of 1,000 is the reserve; with this request 40 are left.
  await send(40);
  expect(pauses).toEqual([Math.min(30_000, (10 / 1000) * refillMs)]);
});

test.each([
  ["6", "6"],
  ["4", undefined],
  ["-5", undefined],
  ["31536000", undefined],
  [new Date(1_010_000).toUTCString(), new Date(1_010_000).toUTCString()],
  [new Date(31_536_000_000).toUTCString(), undefined],
])("the SDK gets Retry-After %p as %p with enableMinimumRetryAfter", async (value, passed) => {
  const policy = minimumRetryAfterPolicy(manualClock(1_000_000));
  const request = createPipelineRequest({ url: "https://arm.test/" });
  const headers = createHttpHeaders({ "retry-after": value });
  const reply = await policy.sendRequest(request, () => Promise.resolve({ request, status: 200, headers }));
  expect(reply.headers.get("retry-after")).toBe(passed);
});

describe("the fence", () => {
  test("refuses every write once it is closed, before anything is sent, and allows reads", async () => {
    await using world = await openWorld();
    const { network } = await world.clients();
    world.closeFence();
    world.simulator.clearLog();
    const error = await errorOf(network.publicIPAddresses.createOrUpdate("rg0", "late", publicIP));
    expect(error).toBeInstanceOf(FencedError);
    expect(error).toMatchObject({
      message:
        "ARM PUT /subscriptions/sub0/resourceGroups/rg0/providers/Microsoft.Network/publicIPAddresses/late " +
        "refused: the generation has ended",
    });
    expect(await errorOf(network.publicIPAddresses.delete("rg0", "late"))).toBeInstanceOf(FencedError);
    expect(world.simulator.requests()).toEqual([]);
    expect(await Array.fromAsync(network.publicIPAddresses.list("rg0"))).toEqual([]);
  });

  test("cuts off a write in flight", async () => {
    await using world = await openWorld();
    const { network } = await world.clients();
    world.simulator.setLatency(60_000);
    const write = errorOf(network.publicIPAddresses.createOrUpdate("rg0", "slow", publicIP));
    while (world.simulator.underway() === 0) await Bun.sleep(1);
    world.closeFence();
    expect(await write).toBeInstanceOf(FencedError);
  });
});

describe("requests", () => {
  test("carry the user agent, the API versions of upstream and the address that ARM gave for the next page", async () => {
    await using world = await openWorld({ pageSize: 2 });
    const { network, compute, vmNetwork } = await world.clients({ userAgent: "me/1" });
    await world.simulator.addInstances(3);
    world.simulator.clearLog();
    await Array.fromAsync(compute.virtualMachineScaleSetVMs.list("rg0", "vmss0"));
    await Array.fromAsync(vmNetwork.networkInterfaces.listVirtualMachineScaleSetNetworkInterfaces("rg0", "vmss0"));
    await Array.fromAsync(network.loadBalancers.list("rg0"));
    expect(world.simulator.log.map(({ userAgent }) => userAgent)).toEqual(["me/1", "me/1", "me/1", "me/1", "me/1"]);
    expect(world.simulator.log.map(({ query }) => query)).toEqual([
      "?api-version=2025-04-01",
      "?api-version=2025-04-01&%24skiptoken=1",
      "?api-version=2018-10-01",
      "?api-version=2018-10-01&%24skiptoken=1",
      "?api-version=2025-05-01",
    ]);
  });

  test("speak the old versions of Azure Stack", async () => {
    await using world = await openWorld();
    const { network, compute } = await world.clients({ cloud: "AzureStackCloud" });
    world.simulator.clearLog();
    await Array.fromAsync(compute.virtualMachineScaleSets.list("rg0"));
    await Array.fromAsync(network.loadBalancers.list("rg0"));
    expect(world.simulator.log.map(({ query }) => query)).toEqual([
      "?api-version=2019-07-01",
      "?api-version=2018-11-01",
    ]);
  });

  test("are timed under upstream's metric names and labels, and failures are counted", async () => {
    await using world = await openWorld();
    const { network } = await world.clients();
    await errorOf(network.publicIPAddresses.get("RG0", "none"));
    expect(world.measured).toEqual([
      "arm_request_errors_counter_total{subscription_id=sub0,resource_group=rg0,resource=PublicIPAddress,method=get," +
        "status_code=404,error_code=ResourceNotFound}",
      "arm_request_duration_seconds{subscription_id=sub0,resource_group=rg0,resource=PublicIPAddress,method=get}",
    ]);
  });

  test("end with their caller's signal, also between the polls of a long-running operation", async () => {
    await using world = await openWorld({ operationPolls: 1_000 });
    const { network } = await world.clients();
    const caller = new AbortController();
    const write = errorOf(
      network.publicIPAddresses.createOrUpdate("rg0", "slow", publicIP, {
        abortSignal: caller.signal,
      }),
    );
    while (countOf(world.simulator, "/publicIPAddresses/slow") === 0) await Bun.sleep(1);
    caller.abort();
    expect(await write).toMatchObject({ name: "AbortError" });
  });
});

describe("writes", () => {
  test("a stale etag is rejected", async () => {
    await using world = await openWorld();
    const { network } = await world.clients();
    const made = await network.publicIPAddresses.createOrUpdate("rg0", "pip", publicIP);
    await network.publicIPAddresses.createOrUpdate("rg0", "pip", { ...publicIP, tags: { a: "b" } });
    const stale = { requestOptions: { headers: { "If-Match": made.etag ?? "" } } };
    expect(await errorOf(network.publicIPAddresses.createOrUpdate("rg0", "pip", publicIP, stale))).toMatchObject({
      status: 412,
      code: "PreconditionFailed",
    });
  });

  test("a long-running operation is followed to its end", async () => {
    await using world = await openWorld({ operationPolls: 3 });
    const { network } = await world.clients();
    const made = await network.publicIPAddresses.createOrUpdate("rg0", "pip", publicIP);
    expect(made).toMatchObject({ name: "pip", provisioningState: "Succeeded", ipAddress: "20.0.0.1" });
    await network.publicIPAddresses.delete("rg0", "pip");
    expect(await errorOf(network.publicIPAddresses.get("rg0", "pip"))).toMatchObject({ status: 404 });
  });

  test("an operation that fails in the end is an error with ARM's code and correlation ID", async () => {
    await using world = await openWorld();
    const { network } = await world.clients();
    const failure = { status: 409, code: "AnotherOperationInProgress", message: "Later.", stage: "operation" } as const;
    world.simulator.failNext({ method: "PUT" }, failure);
    const error = await errorOf(network.publicIPAddresses.createOrUpdate("rg0", "pip", publicIP));
    if (!(error instanceof ArmError)) throw error;
    expect(error).toMatchObject({ code: "AnotherOperationInProgress", failedOperation: true });
    expect(error.message).toBe(
      `ARM operation failed: AnotherOperationInProgress: Later. (correlation ID ${error.correlationId})`,
    );
  });
});

test("the budget shows what is left of each limit that ARM has reported, refilled since, and which requests are throttled", async () => {
  let now = 0;
  const budget = new Budget({ ...manualClock(), monotonic: () => now }, armMetrics(new MetricsRegistry().root));
  expect(budget.status).toEqual([]);
  const url = "https://arm.test/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/virtualMachines";
  const request = createPipelineRequest({ url });
  const reply = (status: number, headers: Record<string, string>) =>
    budget.policy.sendRequest(request, (sent) =>
      Promise.resolve({ request: sent, status, headers: createHttpHeaders(headers) }),
    );
  await reply(200, { "x-ms-ratelimit-remaining-subscription-reads": "250" });
  await reply(200, { "x-ms-ratelimit-remaining-subscription-reads": "100" });
  const facts = (left: number) => [{ name: "reads s", value: `${left} of 250 left` }];
  expect(budget.status[0]?.facts).toEqual(facts(100));
  now = 2_000;
  expect(budget.status[0]?.facts).toEqual(facts(150));
  await reply(429, { "retry-after": "7" }).catch(() => undefined);
  const [accepted, throttled] = budget.status;
  expect(accepted).toEqual({ title: "requests that ARM still accepts", facts: facts(149) });
  expect(throttled).toEqual({
    title: "requests that ARM throttles",
    facts: [{ name: "reads of microsoft.compute/virtualmachines in s", value: "throttled for another 7 s" }],
  });
  now = 9_001;
  expect(budget.status).toHaveLength(1);
});

test("the headroom of a budget is the scarcest limit of writes and of polls of their operations", async () => {
  let now = 0;
  const budget = new Budget({ ...manualClock(), monotonic: () => now }, armMetrics(new MetricsRegistry().root));
  const scope = "https://arm.test/subscriptions/s";
  const send = (method: "GET" | "PUT", path: string, headers: Record<string, string>) =>
    budget.policy.sendRequest(createPipelineRequest({ url: `${scope}/${path}`, method }), (request) =>
      Promise.resolve({ request, status: 200, headers: createHttpHeaders(headers) }),
    );
  const reads = (left: number) => ({ "x-ms-ratelimit-remaining-subscription-reads": `${left}` });
  const writes = (left: number) => ({ "x-ms-ratelimit-remaining-subscription-writes": `${left}` });
  const instances = "resourceGroups/g/providers/Microsoft.Compute/virtualMachines";
  expect(budget.headroom).toBe(1);
  await send("GET", instances, { "x-ms-ratelimit-remaining-resource": "Microsoft.Compute/HighCostGet3Min;100" });
  await send("GET", instances, { "x-ms-ratelimit-remaining-resource": "Microsoft.Compute/HighCostGet3Min;10" });
  expect(budget.headroom).toBe(1);
  await send("PUT", `${instances}/one`, writes(200));
  await send("PUT", `${instances}/one`, writes(120));
  expect(budget.headroom).toBe(0.6);
  now = 4_000;
  expect(budget.headroom).toBe(0.8);
  const poll = "providers/Microsoft.Compute/locations/eastus/operations/one";
  await send("GET", poll, reads(100));
  await send("GET", poll, reads(30));
  expect(budget.headroom).toBe(0.3);
});

test("a budget with patience waits for the end of a throttling, and fails with it once its signal aborts", async () => {
  const clock = manualClock();
  const patience = new AbortController();
  const slept: number[] = [];
  const sleep = (ms: number): Promise<void> => {
    slept.push(ms);
    if (slept.length === 2) patience.abort();
    if (slept.length > 2) throw new Error("it waits beyond the end of its patience");
    return Promise.resolve();
  };
  const budget = new Budget({ ...clock, sleep }, armMetrics(new MetricsRegistry().root), patience.signal);
  const url = "https://arm.test/subscriptions/s/resourceGroups/g/providers/Microsoft.Network/loadBalancers";
  const request = createPipelineRequest({ url });
  const sending = budget.policy.sendRequest(request, (sent) =>
    Promise.resolve({ request: sent, status: 429, headers: createHttpHeaders({ "retry-after": "7" }) }),
  );
  expect(await sending.catch((error: unknown) => error)).toBeInstanceOf(RetryAfterError);
  expect(slept).toEqual([7_000, 7_000]);
});

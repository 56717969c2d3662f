import { expect, test } from "bun:test";

import { CodedError, type ErrorCode, errorCodes, kinds } from "cloud-controller-host/sdk";
import { eventually, type ManualClock, manualClock, memoryCloud } from "cloud-controller-host/sdk/testing";

import { createTransport } from "../../host/kube/connection/transport.ts";
import { InformerPool } from "../../host/kube/informers/pool.ts";
import { Elector } from "../../host/process/leader-election/elector.ts";
import { createLogger } from "../../host/process/log/log.ts";
import { MetricsRegistry } from "../../host/process/metrics/metrics.ts";
import route from "../../plugins/route/plugin.ts";
import serviceLb from "../../plugins/service-lb/plugin.ts";
import { capturedLog } from "../host/kube/captured-log.ts";
import { StubApi, widgets } from "../host/kube/stub-api.ts";
import { memoryLeases } from "../host/process/leader-election/memory-leases.ts";
import { TestCluster } from "../kit/harness.ts";
import { aNode as ipamNode, podCIDRWrites, runIpam } from "../plugins/azure-node-ipam/nodes.ts";
import { aNode, aRoute } from "../plugins/route/objects.ts";
import { aService } from "../plugins/service-lb/objects.ts";

/** The pauses between attempts, in milliseconds. */
type Pauses = readonly number[];

/** Moves time on in steps until `count` has counted all attempts. */
async function pausesOf(clock: ManualClock, count: () => number, stepMs: () => number, attempts = 4): Promise<Pauses> {
  const times: number[] = [];
  await eventually("all attempts", async () => {
    while (times.length < Math.min(attempts, count())) times.push(clock.monotonic());
    if (times.length < attempts) await clock.advance(stepMs());
    return times.length === attempts;
  });
  return times.slice(1).map((time, index) => time - (times[index] ?? 0));
}

/** A Service whose load balancer cannot be reconciled. */
async function service(code: string): Promise<Pauses> {
  await using cluster = await TestCluster.start();
  const clock = manualClock();
  const memory = memoryCloud();
  memory.fail("ensureLoadBalancer", new CodedError(code, "no"));
  await cluster.run(serviceLb, { cloud: memory.cloud, clock });
  cluster.api.create(kinds.Service, aService());
  const waiting = (): number => memory.callsOf("ensureLoadBalancer").length;
  return await pausesOf(clock, waiting, () => 2_500);
}

/** Passes of the route controller in which each call of `method` fails. */
const passes =
  (method: "listRoutes" | "createRoute" | "deleteRoute") =>
  async (code: string): Promise<Pauses> => {
    await using cluster = await TestCluster.start();
    const clock = manualClock();
    const memory = memoryCloud();
    memory.fail(method, new CodedError(code, "no"));
    const stale = aRoute("gone", "10.120.9.0/24");
    memory.routes.set(stale.name, stale);
    cluster.api.create(kinds.Node, aNode("node-1", ["10.120.0.0/24"], "10.0.1.1"));
    await cluster.run(route, { cloud: memory.cloud, clock, flags: { clusterCidr: "10.120.0.0/15" } });
    return await pausesOf(
      clock,
      () => memory.callsOf("listRoutes").length,
      () => 2_500,
    );
  };

async function podCIDRs(): Promise<Pauses> {
  await using cluster = await TestCluster.start();
  const clock = manualClock();
  const match = { verb: "patch", resource: "nodes", name: "node0", subresource: "" };
  cluster.api.faults.add({ match, effect: { status: 403 }, times: Number.POSITIVE_INFINITY });
  cluster.api.create(kinds.Node, ipamNode("node0"));
  await runIpam(cluster, { clusterCidr: "10.0.0.0/16" }, { clock });
  // Each attempt is three writes; the first pause is 5 ms.
  const step = (): number => (podCIDRWrites(cluster).length % 3 === 0 ? 1 : 0);
  return await pausesOf(clock, () => Math.ceil(podCIDRWrites(cluster).length / 3), step, 6);
}

async function watches(): Promise<Pauses> {
  const api = await StubApi.start();
  const clock = manualClock();
  const transport = createTransport(api.access(), { userAgent: "test", qps: -1 });
  const pool = new InformerPool({ transport, clock, log: capturedLog(4).log });
  try {
    const share = pool.share();
    share.of(widgets);
    await share.synced();
    let count = 0;
    api.intercept = ({ query }) => {
      if (!query.has("watch") || query.has("sendInitialEvents")) return undefined;
      count += 1;
      return { status: 200, body: "" };
    };
    api.endWatches();
    return await pausesOf(
      clock,
      () => count,
      () => 200,
    );
  } finally {
    await pool.close();
    await api.stop();
  }
}

async function lease(): Promise<Pauses> {
  const clock = manualClock();
  const leases = memoryLeases();
  // Acquiring an abandoned lease begins with a read.
  leases.before = () => new Promise(() => undefined);
  const elector = new Elector({
    leaseDurationMs: 15_000,
    renewDeadlineMs: 10_000,
    retryPeriodMs: 2_000,
    random: () => 0,
    client: leases.client,
    clock,
    log: createLogger({ format: "text", verbosity: 0, write: () => undefined }),
    events: { event: () => undefined },
    metrics: new MetricsRegistry().root,
    identity: "me",
    namespace: "kube-system",
    leaseName: "cloud-controller-manager",
  });
  const stop = new AbortController();
  const ended = elector.run({ signal: stop.signal, lead: () => Promise.resolve() });
  const pauses = await pausesOf(
    clock,
    () => leases.calls.length,
    () => 500,
  );
  stop.abort();
  await ended;
  return pauses;
}

/** For each code that is tried again: where it ends up. */
const places: Partial<Record<ErrorCode, (code: string) => Promise<Pauses>>> = {
  ShortWatch: watches,
  CIDRNotWritten: podCIDRs,
  LeaseTimeout: lease,
  RoutesNotListed: passes("listRoutes"),
  RoutesIncomplete: passes("createRoute"),
  RoutesNotDeleted: passes("deleteRoute"),
  NotSettled: service,
  ContradictoryReads: service,
  ResourcesLocked: service,
  ZonesNotRead: service,
  ApiServerUnreachable: service,
  Timeout: service,
  EndlessList: passes("listRoutes"),
  InvalidReply: passes("listRoutes"),
  OperationTimeout: passes("createRoute"),
  Unreachable: passes("listRoutes"),
};
const codes = [...errorCodes].filter(([, { retry }]) => retry !== undefined);

test("the codes that are tried again are those whose attempts are measured here", () => {
  expect(codes.map(([code]) => code).toSorted()).toEqual(Object.keys(places).toSorted());
});

test("a remedy promises another attempt only where the table says how", () => {
  const promises = [...errorCodes].filter(
    ([, { retry, remedy }]) => retry === undefined && /tr(y|ies|ied) it|tried again/u.test(remedy),
  );
  expect([...new Set(promises.map(([, { remedy }]) => remedy))]).toEqual([
    "Nothing: the host handles it, and tries it again where that helps.",
  ]);
});

for (const [code, place] of Object.entries(places)) {
  const { retry, remedy } = errorCodes.get(code) ?? {};
  test(`work that fails with ${code} is tried again: ${remedy}`, async () => {
    const pauses = await place(code);
    const growth = (pauses.at(-1) ?? 0) / (pauses[0] ?? 1);
    if (retry === "growing") expect(growth).toBeGreaterThan(1.5);
    if (retry === "fixed") expect(growth).toBeLessThan(1.5);
  }, 120_000);
}

import { describe, expect, test } from "bun:test";

import { ApiError, type CloudContext, type KubeObject, type Logger, type Node } from "cloud-controller-host/sdk";
import { eventually } from "cloud-controller-host/sdk/testing";

import { systemClock } from "../../../../../host/async/clock.ts";
import { drainRecord } from "../../../../../plugins/azure-cloud/load-balancer/model/drain.ts";
import type { Observed } from "../../../../../plugins/azure-cloud/load-balancer/model/model.ts";
import { Drains } from "../../../../../plugins/azure-cloud/load-balancer/reconcile/drains.ts";
import { memoryLeases } from "../../../../host/process/leader-election/memory-leases.ts";
import { intentOf, plannerConfigOf } from "../fixtures.ts";
import { converge, nodesNamed, world } from "../world.ts";

const config = plannerConfigOf({
  loadBalancerBackendPoolConfigurationType: "nodeIP",
  loadBalancerDrainTimeInSeconds: 600,
});
const [first, second] = nodesNamed("node-0", "node-1");
const { service } = intentOf({});
const disrupted: Node = {
  ...first,
  metadata: { ...first?.metadata, resourceVersion: "7" },
  spec: { ...first?.spec, taints: [{ key: "karpenter.sh/disrupted", effect: "NoSchedule" }] },
};

/** Another node of its name, which is about to leave as well. */
const recreated: Node = { ...disrupted, metadata: { ...disrupted.metadata, uid: "another" } };

interface LabOptions {
  readonly planning?: boolean;
  readonly refused?: readonly ApiError[];
  /** Default: as it is. */
  readonly nowMs?: number;
  /** Of each write of a record. */
  readonly written?: Promise<void>;
  /** The end of each pass in turn; further ones end at once. */
  readonly ends?: readonly Promise<void>[];
}

function open(options: LabOptions = {}) {
  const sleepsMs: number[] = [];
  const stop = new AbortController();
  const refused = [...(options.refused ?? [])];
  const ends = [...(options.ends ?? [])];
  const patches: unknown[] = [];
  const warnings: string[] = [];
  const passes: string[] = [];
  const returned: string[] = [];
  const handlers: ((before: Node, after: Node) => void)[] = [];
  const deleted: ((last: Node) => void)[] = [];
  const { client } = memoryLeases();
  const ignore = (): void => undefined;
  const warn = (message: string): void => void warnings.push(message);
  const log: Logger = { debug: ignore, info: ignore, warn, error: ignore, with: () => log };
  const context: Pick<CloudContext, "client" | "clock" | "informers" | "log" | "planning" | "signal"> = {
    clock: {
      ...systemClock,
      now: () => options.nowMs ?? systemClock.now(),
      sleep(ms, signal) {
        sleepsMs.push(ms);
        return systemClock.sleep(1, signal);
      },
    },
    signal: stop.signal,
    log,
    informers: {
      of: () => ({
        store: { get: () => undefined, list: () => [], size: 0 },
        handle(handler) {
          const isAny = (object: KubeObject): object is never => object.metadata !== undefined;
          handlers.push((before, after) => isAny(before) && isAny(after) && handler.updated?.(before, after));
          deleted.push((last) => isAny(last) && handler.deleted?.(last));
          return { remove: () => void handlers.splice(0) };
        },
        hasSynced: () => true,
      }),
    },
    client: {
      ...client,
      async patch(_kind, _name, _type, body) {
        patches.push(body);
        await options.written;
        throw refused.shift() ?? new ApiError(404, "NotFound", "gone");
      },
    },
    ...(options.planning === true && { planning: { record: ignore, unknown: ignore, hold: ignore, inFlight: ignore } }),
  };
  const drains = new Drains({
    context,
    config,
    services: () => ({
      returned: ({ metadata }) => void returned.push(metadata?.name ?? ""),
      refreshNodes(keys) {
        passes.push([...keys].join());
        return ends.shift() ?? Promise.resolve();
      },
    }),
  });
  const running = drains.run(stop.signal);
  drains.ensured(service);
  const observed = (nodes: readonly Node[]): Observed => ({
    ...converge([intentOf({ nodes })], world({ services: [service], nodes }), config).observed,
    drains: drains.read(nodes),
  });
  return {
    drains,
    observed,
    patches,
    warnings,
    passes,
    returned,
    handlers,
    deleted,
    sleepsMs,
    stop: () => (stop.abort(), running),
  };
}

const both = (node: Node): readonly Node[] => (second === undefined ? [node] : [node, second]);

describe("the records of drains", () => {
  test("are written on the version of the node that was seen, and not while its load balancer is being written", async () => {
    const lab = open();
    const observed = lab.observed(both(disrupted));
    const holds = observed.loadBalancers.map(({ id = "" }) => id.toUpperCase());
    lab.drains.keep(observed, [{ services: [], holds, startedMs: 0, wave: undefined }]);
    expect(lab.patches).toEqual([]);
    lab.drains.keep(observed, []);
    lab.drains.keep(observed, []);
    expect(lab.patches).toEqual([{ metadata: { resourceVersion: "7", annotations: { [drainRecord]: "requested" } } }]);
    await lab.stop();
  });

  test("let the node leave in one step if they cannot be written, until it does not leave any more", async () => {
    const lab = open({ refused: [new ApiError(403, "Forbidden", "no")] });
    lab.drains.keep(lab.observed(both(disrupted)), []);
    await eventually("it is planned again", () => lab.passes.length > 0);
    expect(lab.warnings).toHaveLength(1);
    expect(lab.drains.read([disrupted]).get("node-0")?.record).toBe("skipped");
    for (const handler of lab.handlers) handler(disrupted, first ?? {});
    expect(lab.returned).toEqual(["node-0"]);
    expect(lab.drains.read([disrupted]).get("node-0")?.record).toBe("none");
    await lab.stop();
  });

  test.each<[string, (lab: ReturnType<typeof open>) => void]>([
    ["deleted", ({ deleted }) => deleted.forEach((handler) => handler(disrupted))],
    [
      "recreated under its name while no watch showed it",
      ({ handlers }) => handlers.forEach((handler) => handler(disrupted, recreated)),
    ],
  ])(
    "a record that cannot be written is that of one node: after that was %s, the next one of its name drains",
    async (_what, change) => {
      const lab = open({ refused: [new ApiError(403, "Forbidden", "no")] });
      lab.drains.keep(lab.observed(both(disrupted)), []);
      await eventually("it is planned again", () => lab.passes.length > 0);
      expect(lab.drains.read([recreated]).get("node-0")?.record).toBe("skipped");
      change(lab);
      expect(lab.drains.read([recreated]).get("node-0")?.record).toBe("none");
      await lab.stop();
    },
  );

  test("are written for a node that has just been deleted without a warning or another pass", async () => {
    const lab = open();
    lab.drains.keep(lab.observed(both(disrupted)), []);
    await systemClock.sleep(60);
    expect([lab.patches.length, lab.warnings, lab.passes]).toEqual([1, [], []]);
    expect(lab.drains.read([disrupted]).get("node-0")?.record).toBe("none");
    await lab.stop();
  });

  test("are waited for when the process stops, which follows no node any more and reports no failure of them", async () => {
    const writing = Promise.withResolvers<void>();
    const lab = open({ written: writing.promise, refused: [new ApiError(403, "Forbidden", "no")] });
    lab.drains.keep(lab.observed(both(disrupted)), []);
    let hasStopped = false;
    const stopping = lab.stop().then(() => void (hasStopped = true));
    await systemClock.sleep(20);
    expect([hasStopped, lab.handlers]).toEqual([false, []]);
    writing.resolve();
    await stopping;
    expect(lab.warnings).toEqual([]);
  });

  test("are written again with the next pass if they meet a newer version of the node", async () => {
    const lab = open({ refused: [new ApiError(409, "Conflict", "newer")] });
    lab.drains.keep(lab.observed(both(disrupted)), []);
    await eventually("it is planned again", () => lab.passes.length > 0);
    expect(lab.warnings).toEqual([]);
    expect(lab.drains.read([disrupted]).get("node-0")?.record).toBe("none");
    await lab.stop();
  });

  test("are not written by a plan, which shows what follows from them", async () => {
    const lab = open({ planning: true });
    const observed = lab.observed(both(disrupted));
    lab.drains.keep(observed, []);
    expect(lab.patches).toEqual([]);
    expect(observed.drains?.get("node-0")?.record).toBe("requested");
    const stays: Node = { ...first, metadata: { ...first?.metadata, annotations: { [drainRecord]: "requested" } } };
    lab.drains.keep(lab.observed(both(stays)), []);
    expect(lab.patches).toEqual([]);
    await lab.stop();
  });

  test("are followed by changes of the sign or the record only, and by no Service that was deleted", async () => {
    const lab = open();
    const heartbeat: Node = { ...disrupted, metadata: { ...disrupted.metadata, resourceVersion: "8" } };
    for (const handler of lab.handlers) handler(disrupted, heartbeat);
    await systemClock.sleep(60);
    expect(lab.passes).toEqual([]);
    for (const handler of lab.handlers) handler(first ?? {}, disrupted);
    await eventually("it is planned", () => lab.passes.join() === "default/web");
    lab.drains.deleted(service);
    for (const handler of lab.handlers) handler(first ?? {}, disrupted);
    await systemClock.sleep(60);
    expect(lab.passes).toEqual(["default/web"]);
    await lab.stop();
  });

  test("are followed while a load balancer is being written for long, by eight passes at most", async () => {
    const slow = Array.from({ length: 8 }, () => Promise.withResolvers<void>());
    const lab = open({ ends: slow.map(({ promise }) => promise) });
    for (let passes = 1; passes <= 8; passes += 1) {
      for (const handler of lab.handlers) handler(first ?? {}, disrupted);
      await eventually("it is planned again", () => lab.passes.length === passes);
    }
    for (const handler of lab.handlers) handler(first ?? {}, disrupted);
    await systemClock.sleep(60);
    expect(lab.passes).toHaveLength(8);
    slow[3]?.resolve();
    await eventually("one has ended", () => lab.passes.length === 9);
    await lab.stop();
  });

  test("lead to another pass after one that failed, unless another one has begun since", async () => {
    const [earlier, later] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const lab = open({ ends: [earlier.promise, later.promise] });
    for (const passes of [1, 2]) {
      for (const handler of lab.handlers) handler(first ?? {}, disrupted);
      await eventually("it is planned", () => lab.passes.length === passes);
    }
    earlier.reject(new Error("throttled"));
    await systemClock.sleep(60);
    expect(lab.passes).toHaveLength(2);
    expect(lab.warnings).toEqual([]);
    later.reject(new Error("throttled"));
    await eventually("it is tried again", () => lab.passes.length === 3);
    expect(lab.warnings).toHaveLength(1);
    expect(lab.sleepsMs).toContain(5000);
    await lab.stop();
  });

  test("lead to further passes after growing pauses as long as these fail, and to none once the process stops", async () => {
    const failed = (): Promise<never> => {
      const error = Promise.reject(new Error("throttled"));
      error.catch(() => undefined);
      return error;
    };
    const last = Promise.withResolvers<void>();
    const done = Promise.resolve();
    const lab = open({ ends: [failed(), failed(), done, failed(), done, last.promise, last.promise] });
    for (const passes of [3, 5, 6]) {
      for (const handler of lab.handlers) handler(first ?? {}, disrupted);
      await eventually("the passes have ended", () => lab.passes.length === passes);
    }
    expect(lab.sleepsMs.filter((ms) => ms >= 5_000)).toEqual([5_000, 10_000, 5_000]);
    await lab.stop();
    await eventually("the last pass has begun", () => lab.passes.length === 7);
    last.reject(new Error("the process stops"));
    await systemClock.sleep(5);
    expect(lab.warnings).toHaveLength(3);
  });

  test("a record removed from a node without a sign of leaving does not bring it back: it may have left the list for another reason", async () => {
    const lab = open();
    const recorded: Node = { ...first, metadata: { ...first?.metadata, annotations: { [drainRecord]: "requested" } } };
    for (const handler of lab.handlers) handler(recorded, first ?? {});
    await eventually("it is planned", () => lab.passes.length > 0);
    expect(lab.returned).toEqual([]);
    await lab.stop();
  });

  test("an invalid record stays invalid in a plan for a node without a sign of leaving", async () => {
    const lab = open({ planning: true });
    const invalid: Node = { ...first, metadata: { ...first?.metadata, annotations: { [drainRecord]: "soon" } } };
    expect(lab.drains.read([invalid]).get("node-0")?.record).toBe("invalid");
    await lab.stop();
  });
});

test("the time of a drain leads to no plan once its node does not leave any more", async () => {
  const lab = open();
  const annotations = { [drainRecord]: new Date(systemClock.now()).toISOString() };
  const stays: Node = { ...first, metadata: { ...first?.metadata, annotations } };
  lab.drains.keep(lab.observed(both(stays)), []);
  expect(lab.sleepsMs).toEqual([]);
  await lab.stop();
});

test("a drain leads to another plan when its time is over, and to further ones while its address is still there", async () => {
  const startMs = Date.parse("2026-01-01T00:00:00Z");
  for (const [elapsedMs, waitMs] of [
    [100_000, 500_000],
    [599_999, 1],
    [600_000, 10_000],
  ] as const) {
    const lab = open({ nowMs: startMs + elapsedMs });
    const annotations = { [drainRecord]: new Date(startMs).toISOString() };
    const draining: Node = { ...disrupted, metadata: { ...disrupted.metadata, annotations } };
    const nodes = both(draining);
    const settled = converge([intentOf({ nodes: both(first ?? {}) })], world({ services: [service], nodes }), config);
    const down = settled.observed.loadBalancers.map((balancer) => ({
      ...balancer,
      backendAddressPools: (balancer.backendAddressPools ?? []).map((pool) => ({
        ...pool,
        loadBalancerBackendAddresses: (pool.loadBalancerBackendAddresses ?? []).map((one) =>
          one.name === "node-0" ? { ...one, adminState: "Down" } : one,
        ),
      })),
    }));
    lab.drains.keep({ ...settled.observed, loadBalancers: down, drains: lab.drains.read(nodes) }, []);
    expect(lab.sleepsMs).toEqual([waitMs]);
    await lab.stop();
  }
});

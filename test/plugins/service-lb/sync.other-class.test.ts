import { expect, test } from "bun:test";

import { keyOf, kinds, type LoadBalancers, type Service } from "cloud-controller-host/sdk";

import { serviceSelection } from "../../../plugins/service-lb/predicates.ts";
import { syncService } from "../../../plugins/service-lb/sync.ts";
import { aService, finalizer } from "./objects.ts";
import { alreadyBalanced, makeParts, type Parts } from "./parts.ts";

const { signal } = new AbortController();
const key = "default/web";
const meta = { finalizers: [finalizer] };
const spec = { loadBalancerClass: "example.com/other" };
/** Of the load balancer that the cloud has. */
const ours = "8.8.8.8";
const showing = (ip: string): NonNullable<Service["status"]> => ({
  loadBalancer: { ingress: [{ ip, ipMode: "VIP" }] },
});

const finalizersOf = (parts: Parts): readonly string[] => parts.stored(key).metadata?.finalizers ?? [];
const addressOf = (parts: Parts): string => parts.stored(key).status?.loadBalancer?.ingress?.[0]?.ip ?? "";

/** Syncs it, and again after the minute within which another process may be at work for it. */
async function syncLeft(parts: Parts): Promise<void> {
  await syncService(parts, key, signal);
  await parts.clock.advance(60_000);
  await syncService(parts, key, signal);
}

test("a Service that got another class while no process ran loses the load balancer that the cloud has of it after a minute", async () => {
  await using parts = await makeParts();
  const again: [string, number][] = [];
  const waiting = { ...parts, again: (...one: [string, number]) => void again.push(one) };
  const service = parts.seen(aService({ meta, spec }));
  alreadyBalanced(parts.memory, service);
  await syncService(waiting, key, signal);
  await parts.clock.advance(59_000);
  await syncService(waiting, key, signal);
  expect(parts.memory.callsOf("ensureLoadBalancerDeleted")).toEqual([]);
  expect([finalizersOf(parts), parts.reported()]).toEqual([[finalizer], []]);
  expect(again).toEqual([
    [key, 60_000],
    [key, 1_000],
  ]);
  await parts.clock.advance(1_000);
  await syncService(waiting, key, signal);
  expect([...parts.memory.balancers.keys()]).toEqual([]);
  expect(finalizersOf(parts)).toEqual([]);
});

test("a Service of another class that shows nothing loses what the cloud has of it, even if that has no address yet", async () => {
  await using parts = await makeParts();
  parts.seen(aService({ meta, spec }));
  parts.memory.balancers.set(key, { name: "given", clusterName: "kubernetes", nodes: [], status: {} });
  await syncLeft(parts);
  expect([...parts.memory.balancers.keys()]).toEqual([]);
});

test("a Service of another class that shows its address within a minute keeps it, and has another minute once it shows none", async () => {
  await using parts = await makeParts();
  const service = parts.seen(aService({ meta, spec }));
  alreadyBalanced(parts.memory, service);
  await syncService(parts, key, signal);
  await parts.clock.advance(59_000);
  parts.services.set({ ...service, status: showing(ours) });
  await syncService(parts, key, signal);
  parts.services.set(service);
  await parts.clock.advance(59_000);
  await syncService(parts, key, signal);
  expect(parts.memory.callsOf("ensureLoadBalancerDeleted")).toEqual([]);
});

test("a Service of another class has its own minute, not that of the one that had its name", async () => {
  await using parts = await makeParts();
  const former = parts.seen(aService({ meta, spec }));
  alreadyBalanced(parts.memory, former);
  await syncService(parts, key, signal);
  await parts.clock.advance(60_000);
  parts.services.set({ ...former, metadata: { ...former.metadata, uid: "another" } });
  await syncService(parts, key, signal);
  expect(parts.memory.callsOf("ensureLoadBalancerDeleted")).toEqual([]);
});

test("a Service of another class of which the cloud has nothing keeps the finalizer, which may be its controller's", async () => {
  await using parts = await makeParts();
  parts.seen(aService({ meta, spec }));
  await syncService(parts, key, signal);
  expect(finalizersOf(parts)).toEqual([finalizer]);
  expect(parts.patches()).toEqual([]);
  expect(parts.reported()).toEqual([]);
});

test("a Service of another class that shows what the cloud has of it keeps that: a process that serves its class has given it", async () => {
  await using parts = await makeParts();
  const service = parts.seen(aService({ meta, spec, status: showing(ours) }));
  alreadyBalanced(parts.memory, service);
  await syncService(parts, key, signal);
  expect(parts.memory.balancers.size).toBe(1);
  expect(parts.patches()).toEqual([]);
});

test("a Service of another class that shows another address than the cloud's loses what the cloud has of it", async () => {
  await using parts = await makeParts();
  const service = parts.seen(aService({ meta, spec, status: showing("203.0.113.7") }));
  alreadyBalanced(parts.memory, service);
  await syncService(parts, key, signal);
  expect(parts.memory.balancers.size).toBe(0);
  expect([finalizersOf(parts), addressOf(parts)]).toEqual([[], "203.0.113.7"]);
});

test("a Service of another class whose cleanup had not ended as its finalizer was removed by hand is cleaned up", async () => {
  await using parts = await makeParts();
  const service = parts.seen(aService({ meta, spec }));
  alreadyBalanced(parts.memory, service);
  parts.memory.fail("ensureLoadBalancerDeleted", new Error("unavailable"), { times: 1 });
  await expect(syncLeft(parts)).rejects.toThrow("unavailable");
  parts.remove(service);
  await syncService(parts, key, signal);
  expect(parts.memory.balancers.size).toBe(0);
});

test("a Service of another class that is being deleted loses the finalizer even if the cloud has nothing of it", async () => {
  await using parts = await makeParts();
  const service = parts.seen(aService({ meta: { finalizers: [finalizer, "example.com/other"] }, spec }));
  parts.cluster.api.delete(kinds.Service, { namespace: "default", name: "web" });
  parts.services.set(parts.stored(key));
  expect(keyOf(service)).toBe(key);
  await syncService(parts, key, signal);
  expect(finalizersOf(parts)).toEqual(["example.com/other"]);
});

test.each([
  ["clears the address that the cloud has given a Service", ours, ""],
  ["keeps the address that another controller has given a Service of its class", "203.0.113.7", "203.0.113.7"],
])("a cleanup %s", async (_title, shown, left) => {
  await using parts = await makeParts();
  const service = parts.seen(aService({ meta, spec, status: showing(shown) }));
  alreadyBalanced(parts.memory, service);
  // It was ours when this process last synced it.
  parts.cache.see(key, service);
  await syncService(parts, key, signal);
  expect(parts.memory.balancers.size).toBe(0);
  expect(addressOf(parts)).toBe(left);
});

test("a cleanup keeps the address that another controller gives a Service of its class meanwhile", async () => {
  await using parts = await makeParts();
  const created = parts.seen(aService({ meta, spec: { type: "ClusterIP" } }));
  // As with AllowServiceLBStatusOnNonLB.
  const service = { ...created, status: showing(ours) };
  parts.services.set(service);
  alreadyBalanced(parts.memory, service);
  const given = {
    ...service,
    spec: { ...service.spec, ...spec, type: "LoadBalancer" },
    status: showing("203.0.113.7"),
  };
  const balancers: LoadBalancers = {
    ...parts.balancers,
    ensureLoadBalancerDeleted(...call) {
      parts.services.set(given);
      return parts.balancers.ensureLoadBalancerDeleted(...call);
    },
  };
  await syncService({ ...parts, balancers }, key, signal);
  expect(parts.memory.balancers.size).toBe(0);
  expect(parts.patches()).toEqual([{ metadata: { "$deleteFromPrimitiveList/finalizers": [finalizer] } }]);
});

test("a cleanup whose last write fails clears the address when it is tried again, though the cloud has nothing any more", async () => {
  await using parts = await makeParts();
  const service = parts.seen(aService({ meta, spec, status: showing(ours) }));
  alreadyBalanced(parts.memory, service);
  parts.cache.see(key, service);
  const match = { verb: "patch", resource: "services" } as const;
  parts.cluster.api.faults.add({ match, effect: { status: 400 }, times: 2 });
  await expect(syncService(parts, key, signal)).rejects.toThrow("made to fail");
  expect([parts.memory.balancers.size, addressOf(parts), finalizersOf(parts)]).toEqual([0, ours, [finalizer]]);
  await syncService(parts, key, signal);
  expect([addressOf(parts), finalizersOf(parts)]).toEqual(["", []]);
});

test("a Service of the process's own class that waits for another finalizer loses its address, though an earlier process has deleted its load balancer", async () => {
  await using parts = await makeParts();
  parts.seen(aService({ meta: { finalizers: [finalizer, "example.com/other"] }, spec, status: showing(ours) }));
  parts.cluster.api.delete(kinds.Service, { namespace: "default", name: "web" });
  parts.services.set(parts.stored(key));
  const selection = serviceSelection({ loadBalancerClass: spec.loadBalancerClass });
  await syncService({ ...parts, selection }, key, signal);
  expect([finalizersOf(parts), addressOf(parts)]).toEqual([["example.com/other"], ""]);
});

test("a cleanup clears the address that a Service of another type still shows, as with AllowServiceLBStatusOnNonLB", async () => {
  await using parts = await makeParts();
  const service = parts.seen(aService({ meta, spec: { type: "ClusterIP" } }));
  parts.services.set({ ...service, status: showing(ours) });
  await syncService(parts, key, signal);
  expect(parts.patches()).toEqual([expect.objectContaining({ status: { loadBalancer: { ingress: null } } })]);
});

const failed = {
  type: "LoadBalancerReady",
  status: "False",
  reason: "Failed",
  message: "",
  lastTransitionTime: "2026-01-01T00:00:00Z",
};

/** Syncs a Service of ours that changes as the cloud gives it a load balancer. */
async function changingMeanwhile(parts: Parts, change: () => void): Promise<void> {
  parts.seen(aService({ status: { conditions: [failed] } }));
  const balancers: LoadBalancers = {
    ...parts.balancers,
    ensureLoadBalancer(...call) {
      change();
      return parts.balancers.ensureLoadBalancer(...call);
    },
  };
  await syncService({ ...parts, balancers }, key, signal);
}

test("a Service that goes to another controller while the cloud gives it a load balancer does not show that one", async () => {
  await using parts = await makeParts();
  await changingMeanwhile(parts, () => {
    const { spec: before, ...service } = parts.stored(key);
    parts.services.set({ ...service, spec: { ...before, ...spec } });
  });
  // The finalizer, and nothing after it.
  expect(parts.patches()).toHaveLength(1);
  expect(parts.memory.balancers.size).toBe(1);
});

test("a Service that goes to another controller while the cloud fails does not show that failure", async () => {
  await using parts = await makeParts();
  parts.seen(aService());
  const balancers: LoadBalancers = {
    ...parts.balancers,
    ensureLoadBalancer() {
      const { spec: before, ...service } = parts.stored(key);
      parts.services.set({ ...service, spec: { ...before, ...spec } });
      return Promise.reject(new Error("too late"));
    },
  };
  await expect(syncService({ ...parts, balancers }, key, signal)).rejects.toThrow("too late");
  expect(parts.patches()).toHaveLength(1);
  expect(parts.reported()).not.toContain("SyncLoadBalancerFailed");
  expect(parts.failing.warnings).toEqual([]);
});

test("a Service that takes the name of one which the cloud gives a load balancer does not show that one", async () => {
  await using parts = await makeParts();
  await changingMeanwhile(parts, () => {
    parts.remove(parts.stored(key));
    parts.seen(aService());
  });
  expect(parts.patches()).toHaveLength(1);
});

test("a Service that got another class loses the condition with its load balancer", async () => {
  await using parts = await makeParts();
  const service = parts.seen(aService({ meta, spec, status: { conditions: [failed] } }));
  alreadyBalanced(parts.memory, service);
  parts.cache.see(key, service);
  await syncService(parts, key, signal);
  expect(parts.stored(key).status?.conditions ?? []).toEqual([]);
});

test("a Service of another class keeps the condition of its controller while the one that had its name is cleaned up", async () => {
  await using parts = await makeParts();
  const service = parts.seen(aService({ meta: { uid: "new" }, spec, status: { conditions: [failed] } }));
  parts.cache.see(key, aService({ meta: { uid: "old" } }));
  await syncService(parts, key, signal);
  expect(parts.memory.callsOf("ensureLoadBalancerDeleted")).toHaveLength(1);
  expect(parts.stored(keyOf(service)).status?.conditions).toEqual([failed]);
});

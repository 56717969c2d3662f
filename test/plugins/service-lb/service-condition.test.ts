import { describe, expect, test } from "bun:test";

import { FailingObjects, keyOf, kinds, type Service, type ServiceWarning } from "cloud-controller-host/sdk";
import { eventually } from "cloud-controller-host/sdk/testing";

import { syncService } from "../../../plugins/service-lb/sync.ts";
import { errorOf } from "../../kit/rejection.ts";
import { aService, finalizer } from "./objects.ts";
import { makeParts, type Parts } from "./parts.ts";

const { signal } = new AbortController();
const invalid: ServiceWarning = { reason: "InvalidConfiguration", message: "annotation x: yes is not valid" };
const ignored: ServiceWarning = { reason: "AnnotationIgnored", message: "annotation y has no effect" };

/** Syncs the Service as the informer shows it now; resolves with the condition. */
async function sync(parts: Parts, key: string) {
  await syncService(parts, key, signal).catch(() => undefined);
  const stored = parts.stored(key);
  parts.services.set(stored);
  return stored.status?.conditions?.find(({ type }) => type === "LoadBalancerReady");
}

/** The type of the Service is another one, and the informer shows it. */
function changeType(parts: Parts, key: string, meta: Service["metadata"] = {}): void {
  const [namespace = "", name = ""] = key.split("/");
  parts.cluster.api.update(kinds.Service, { namespace, name }, (now) => ({
    ...now,
    metadata: { ...now.metadata, ...meta },
    spec: { ...now.spec, type: "ClusterIP" },
  }));
  parts.services.set(parts.stored(key));
}

const timeAt = (parts: Parts): string => new Date(parts.clock.now()).toISOString().replace(/\.\d+Z$/u, "Z");

describe("the condition LoadBalancerReady", () => {
  test("keeps the time at which its status changed through retries, and changes it with the status", async () => {
    await using parts = await makeParts();
    const key = keyOf(parts.seen(aService()));
    parts.memory.fail("ensureLoadBalancer", new Error("first"), { times: 1 });
    const first = await sync(parts, key);
    const begun = timeAt(parts);
    expect(first).toMatchObject({ status: "False", lastTransitionTime: begun });
    await parts.clock.advance(5_000);
    parts.memory.fail("ensureLoadBalancer", new Error("second"), { times: 1 });
    const second = await sync(parts, key);
    expect(second).toMatchObject({ status: "False", lastTransitionTime: begun });
    expect(second?.message).toContain("second");
    await parts.clock.advance(5_000);
    expect(await sync(parts, key)).toMatchObject({ status: "True", lastTransitionTime: timeAt(parts) });
  });

  test("keeps that time while the informer has not seen the condition yet", async () => {
    await using parts = await makeParts();
    const service = parts.seen(aService());
    const begun = timeAt(parts);
    for (const error of ["first", "second"]) {
      parts.memory.fail("ensureLoadBalancer", new Error(error), { times: 1 });
      await sync(parts, keyOf(service));
      parts.services.set(service);
      await parts.clock.advance(5_000);
    }
    parts.memory.fail("ensureLoadBalancer", new Error("third"), { times: 1 });
    expect(await sync(parts, keyOf(service))).toMatchObject({ status: "False", lastTransitionTime: begun });
  });

  test("the condition LoadBalancerReady that cannot be set to True is an error of the sync, which is repeated", async () => {
    await using parts = await makeParts();
    const key = keyOf(parts.seen(aService()));
    await sync(parts, key);
    parts.memory.fail("ensureLoadBalancer", new Error("first"), { times: 1 });
    expect(await sync(parts, key)).toMatchObject({ status: "False" });
    parts.cluster.api.faults.add({ match: { verb: "patch", resource: "services" }, effect: { status: 409 }, times: 1 });
    expect(await errorOf(syncService(parts, key, signal))).toBeInstanceOf(Error);
    expect(parts.failing.warnings).toEqual([]);
    expect(await sync(parts, key)).toMatchObject({ status: "True" });
  });

  test.each([
    ["without a reply", "disconnect"],
    ["with the reply 504", { status: 504 }],
  ] as const)(
    "the condition LoadBalancerReady that was set to False by a write %s is set to True, before the informer shows it",
    async (_reply, effect) => {
      await using parts = await makeParts();
      const service = parts.seen(aService());
      const key = keyOf(service);
      await sync(parts, key);
      const shown = parts.stored(key);
      parts.memory.fail("ensureLoadBalancer", new Error("first"), { times: 1 });
      const match = { verb: "patch", resource: "services" } as const;
      parts.cluster.api.faults.add({ match, effect, afterwards: true, times: 1 });
      expect(await sync(parts, key)).toMatchObject({ status: "False" });
      parts.services.set(shown);
      expect(await sync(parts, key)).toMatchObject({ status: "True" });
    },
  );

  test("the condition LoadBalancerReady whose write the API server has refused is not missed by the next sync", async () => {
    await using parts = await makeParts();
    const key = keyOf(parts.seen(aService()));
    await sync(parts, key);
    parts.memory.fail("ensureLoadBalancer", new Error("first"), { times: 1 });
    const match = { verb: "patch", resource: "services" } as const;
    parts.cluster.api.faults.add({ match, effect: { status: 403 }, times: 1 });
    expect(await sync(parts, key)).toBeUndefined();
    expect(await sync(parts, key)).toBeUndefined();
  });

  test("the condition LoadBalancerReady of a Service that is gone is not missed", async () => {
    await using parts = await makeParts();
    const service = parts.seen(aService());
    await sync(parts, keyOf(service));
    parts.memory.fail("ensureLoadBalancer", new Error("first"), { times: 1 });
    await sync(parts, keyOf(service));
    const last = parts.stored(keyOf(service));
    parts.remove(last);
    parts.services.set(last);
    expect(await errorOf(syncService(parts, keyOf(service), signal))).toBeUndefined();
  });

  test("the condition LoadBalancerReady of a Service recreated under its name is one of its own", async () => {
    await using parts = await makeParts();
    const service = parts.seen(aService());
    parts.memory.fail("ensureLoadBalancer", new Error("no"), { times: 1 });
    await sync(parts, keyOf(service));
    parts.remove(service);
    await syncService(parts, keyOf(service), signal);
    const again = parts.seen(aService());
    const before = parts.patches().length;
    expect(await sync(parts, keyOf(again))).toBeUndefined();
    // The finalizer and the address.
    expect(parts.patches()).toHaveLength(before + 2);
  });

  test("the condition LoadBalancerReady leaves a Service whose type has changed, with the finalizer", async () => {
    await using parts = await makeParts();
    const key = keyOf(parts.seen(aService()));
    parts.memory.fail("ensureLoadBalancer", new Error("quota exceeded"), { times: 1 });
    expect(await sync(parts, key)).toMatchObject({ status: "False" });
    const before = parts.patches().length;
    changeType(parts, key);
    expect(await sync(parts, key)).toBeUndefined();
    expect(parts.patches()).toHaveLength(before + 1);
  });

  test("the condition LoadBalancerReady leaves a Service whose finalizer was removed by hand before its type has changed", async () => {
    await using parts = await makeParts();
    const key = keyOf(parts.seen(aService()));
    parts.memory.fail("ensureLoadBalancer", new Error("quota exceeded"), { times: 1 });
    await sync(parts, key);
    changeType(parts, key, { finalizers: [] });
    expect(await sync(parts, key)).toBeUndefined();
  });

  test("the condition LoadBalancerReady of a deleted Service goes with it: only the finalizer is removed", async () => {
    await using parts = await makeParts();
    const service = parts.seen(aService());
    const key = keyOf(service);
    parts.memory.fail("ensureLoadBalancer", new Error("quota exceeded"), { times: 1 });
    await sync(parts, key);
    const { namespace = "", name = "" } = service.metadata ?? {};
    parts.cluster.api.delete(kinds.Service, { namespace, name });
    parts.services.set(parts.stored(key));
    const before = parts.patches().length;
    await syncService(parts, key, signal);
    expect(parts.patches().slice(before)).toEqual([
      { metadata: { "$deleteFromPrimitiveList/finalizers": [finalizer] } },
    ]);
  });

  test("the condition LoadBalancerReady of a deleted Service that waits for another finalizer goes with its load balancer", async () => {
    await using parts = await makeParts();
    const service = parts.seen(aService({ meta: { finalizers: [finalizer, "example.com/other"] } }));
    const key = keyOf(service);
    parts.memory.fail("ensureLoadBalancer", new Error("quota exceeded"), { times: 1 });
    expect(await sync(parts, key)).toMatchObject({ status: "False" });
    parts.cluster.api.delete(kinds.Service, { namespace: "default", name: "web" });
    parts.services.set(parts.stored(key));
    expect(await sync(parts, key)).toBeUndefined();
    expect(parts.stored(key).metadata?.finalizers).toEqual(["example.com/other"]);
  });

  test("the condition LoadBalancerReady of a Service without failures and warnings is not written", async () => {
    await using parts = await makeParts();
    expect(await sync(parts, keyOf(parts.seen(aService())))).toBeUndefined();
  });
});

describe("warnings of the cloud", () => {
  test("are events of the Service and part of its condition, and are written once", async () => {
    await using parts = await makeParts();
    const key = keyOf(parts.seen(aService()));
    parts.memory.warnings.set(key, [invalid, ignored]);
    expect(await sync(parts, key)).toMatchObject({
      status: "True",
      reason: "EnsuredLoadBalancer",
      message: `${invalid.message}; ${ignored.message}`,
    });
    expect(parts.reported().filter((reason) => [invalid.reason, ignored.reason].includes(reason))).toEqual([
      invalid.reason,
      ignored.reason,
    ]);
    const event = await eventually("the event arrives", () => parts.cluster.event(ignored.reason));
    expect(event).toMatchObject({ type: "Warning", message: ignored.message });
    const written = parts.patches().length;
    await parts.clock.advance(1_000);
    await sync(parts, key);
    expect(parts.patches()).toHaveLength(written);
  });

  test("leave the condition once their cause is gone, without a change of its time", async () => {
    await using parts = await makeParts();
    const key = keyOf(parts.seen(aService()));
    parts.memory.warnings.set(key, [invalid]);
    const warned = await sync(parts, key);
    parts.memory.warnings.delete(key);
    await parts.clock.advance(60_000);
    expect(await sync(parts, key)).toMatchObject({
      status: "True",
      message: "",
      lastTransitionTime: warned?.lastTransitionTime,
    });
  });

  test("follow the error of a Service that cannot be synced", async () => {
    await using parts = await makeParts();
    const key = keyOf(parts.seen(aService()));
    parts.memory.warnings.set(key, [invalid]);
    parts.memory.fail("ensureLoadBalancer", new Error("made to fail"));
    const retry = new Date(parts.clock.now() + 5_000).toISOString().replace(/\.\d+Z$/u, "Z");
    expect(await sync(parts, key)).toMatchObject({
      status: "False",
      message: `failed to ensure load balancer: made to fail; next retry at ${retry}; ${invalid.message}`,
    });
    expect(parts.reported()).toContain(invalid.reason);
  });

  test("are not asked for a Service that is cleaned up", async () => {
    await using parts = await makeParts();
    const key = keyOf(parts.seen(aService({ spec: { type: "NodePort" } })));
    parts.memory.warnings.set(key, [invalid]);
    parts.memory.fail("getLoadBalancer", new Error("no"));
    await sync(parts, key);
    expect(parts.reported()).not.toContain(invalid.reason);
  });
});

describe("failing Services in /statusz", () => {
  test("are counted and named with their error and since when, until they are synced or gone", async () => {
    await using parts = await makeParts();
    const [one, other] = [parts.seen(aService({ name: "one" })), parts.seen(aService({ name: "other" }))];
    const begun = new Date(parts.clock.now()).toISOString();
    parts.memory.fail("ensureLoadBalancer", new Error("denied"), { times: 3 });
    await sync(parts, keyOf(one));
    await parts.clock.advance(10_000);
    await sync(parts, keyOf(one));
    await sync(parts, keyOf(other));
    const now = new Date(parts.clock.now()).toISOString();
    const kind = "ServicesFail" as const;
    const failed = (name: string, since: string) => ({
      kind,
      text: `Service default/${name} fails since ${since}: failed to ensure load balancer: denied`,
      since,
      subject: `default/${name}`,
    });
    expect(parts.failing.warnings).toEqual([
      { kind, text: "failing Services: 2" },
      failed("one", begun),
      failed("other", now),
    ]);
    await sync(parts, keyOf(one));
    expect(parts.failing.warnings).toHaveLength(2);
    parts.remove(other);
    await syncService(parts, keyOf(other), signal);
    expect(parts.failing.warnings).toEqual([]);
  });

  test("are named as far as a page has room", async () => {
    await using parts = await makeParts();
    const failing = new FailingObjects("ServicesFail", parts.clock);
    for (let index = 0; index < 12; index += 1) failing.failed(`default/s${index}`, new Error("x".repeat(5_000)));
    expect(failing.warnings).toHaveLength(12);
    expect(failing.warnings.at(-1)).toEqual({ kind: "ServicesFail", text: "and 2 more", further: 2 });
    expect(failing.warnings.map(({ text }) => text).join("").length).toBeLessThan(5_000);
  });
});

import { describe, expect, test } from "bun:test";

import { kinds, type Service } from "cloud-controller-host/sdk";

import { markKey } from "../../../plugins/service-lb/predicates.ts";
import { errorOf } from "../../kit/rejection.ts";
import { aService, finalizer } from "./objects.ts";
import { makeParts, type Parts } from "./parts.ts";

const ingress = [{ ip: "10.0.0.1" }];
const status: Service["status"] = { loadBalancer: { ingress } };
const ours = { finalizers: [finalizer] };
const stored = ({ cluster }: Parts): Service | undefined =>
  cluster.api.get(kinds.Service, { namespace: "default", name: "web" });

describe("adding the finalizer", () => {
  test("no-op add finalizer", async () => {
    await using parts = await makeParts();
    await parts.writes.addFinalizer(parts.seen(aService({ meta: ours })));
    expect(parts.patches()).toEqual([]);
  });

  test("add finalizer", async () => {
    await using parts = await makeParts();
    await parts.writes.addFinalizer(parts.seen(aService()));
    expect(parts.patches()).toEqual([{ metadata: { finalizers: [finalizer] } }]);
    expect(stored(parts)?.metadata?.finalizers).toEqual([finalizer]);
  });
});

test("adds the finalizer again to a Service that is of type LoadBalancer again and still shows the one that was removed", async () => {
  await using parts = await makeParts();
  const seen = parts.seen(aService({ meta: { finalizers: [finalizer, "example.com/other"] } }));
  await parts.writes.release(seen, "cleared");
  expect(stored(parts)?.metadata?.finalizers).toEqual(["example.com/other"]);
  await parts.writes.addFinalizer(seen);
  expect(stored(parts)?.metadata?.finalizers?.toSorted()).toEqual(["example.com/other", finalizer].toSorted());
  await parts.writes.addFinalizer(seen);
  expect(parts.patches()).toHaveLength(2);
});

test("adds the finalizer again where its removal was carried out without an answer", async () => {
  await using parts = await makeParts();
  const seen = parts.seen(aService({ meta: ours }));
  const match = { verb: "patch", resource: "services" } as const;
  parts.cluster.api.faults.add({ match, effect: { status: 500 }, afterwards: true });
  await expect(parts.writes.release(seen, "cleared")).rejects.toThrow();
  expect(stored(parts)?.metadata?.finalizers ?? []).toEqual([]);
  await parts.writes.addFinalizer(seen);
  expect(stored(parts)?.metadata?.finalizers).toEqual([finalizer]);
});

test("writes the former status again while the informer does not show the one that was written since", async () => {
  await using parts = await makeParts();
  const seen = parts.seen(aService({ meta: ours }));
  await parts.writes.status(seen, { ingress });
  await parts.writes.status(seen, {});
  expect(parts.patches()).toEqual([
    { status: { loadBalancer: { ingress } } },
    { status: { loadBalancer: { ingress: null } } },
  ]);
  await parts.writes.status(seen, {});
  await parts.writes.status(parts.seen(aService({ name: "other", status })), { ingress });
  expect(parts.patches()).toHaveLength(2);
});

test("writes the former status again where another one was carried out without an answer, and only while it serves the Service", async () => {
  await using parts = await makeParts();
  const seen = parts.seen(aService({ meta: ours }));
  const match = { verb: "patch", resource: "services" } as const;
  parts.cluster.api.faults.add({ match, effect: { status: 500 }, afterwards: true });
  const write = () => parts.writes.status(seen, { ingress });
  await expect(write()).rejects.toThrow();
  expect(stored(parts)?.status?.loadBalancer?.ingress).toMatchObject(ingress);
  await parts.writes.status(seen, {});
  expect(stored(parts)?.status?.loadBalancer ?? {}).toEqual({});
  await write();
  parts.writes.forget(seen);
  await parts.writes.status(seen, {});
  expect(stored(parts)?.status?.loadBalancer?.ingress).toMatchObject(ingress);
});

test("remembers the removed finalizers of the last thousand Services", async () => {
  await using parts = await makeParts();
  const all = Array.from({ length: 1_001 }, (_, index) => parts.seen(aService({ name: `web-${index}`, meta: ours })));
  for (const service of all) await parts.writes.release(service, "cleared");
  expect(parts.patches()).toHaveLength(1_001);
  for (const service of [...all.slice(0, 1), ...all.slice(-1)]) await parts.writes.addFinalizer(service);
  expect(parts.patches()).toHaveLength(1_002);
});

test("knows the condition that it has written until it serves the Service no more", async () => {
  await using parts = await makeParts();
  const seen = parts.seen(aService({ meta: ours }));
  await parts.writes.condition.failure(seen, new Error("no"), [], 5_000);
  expect(parts.writes.condition.removal(seen)).toEqual({
    conditions: [{ type: "LoadBalancerReady", $patch: "delete" }],
  });
  parts.writes.forget(seen);
  expect(parts.writes.condition.removal(seen)).toEqual({});
});

test("removes the record of opened addresses with its own condition", async () => {
  await using parts = await makeParts();
  const record = { status: "True", message: "203.0.113.1", reason: "x", lastTransitionTime: "2026-01-01T00:00:00Z" };
  const conditions = ["LoadBalancerReady", "AdditionalAddressesOpen", "Other"].map((type) => ({ type, ...record }));
  const seen = parts.seen(aService({ meta: ours, spec: { type: "ClusterIP" }, status: { conditions } }));
  await parts.writes.release(seen, "cleared");
  expect(stored(parts)?.status?.conditions?.map(({ type }) => type)).toEqual(["Other"]);
});

describe("removing the finalizer", () => {
  test("no-op remove finalizer", async () => {
    await using parts = await makeParts();
    await parts.writes.release(parts.seen(aService()), "cleared");
    expect(parts.patches()).toEqual([]);
  });

  test("remove finalizer", async () => {
    await using parts = await makeParts();
    await parts.writes.release(parts.seen(aService({ meta: ours })), "cleared");
    expect(parts.patches()).toHaveLength(1);
    expect(stored(parts)?.metadata?.finalizers ?? []).toEqual([]);
  });

  test("takes finalizer, condition and address out in one patch", async () => {
    await using parts = await makeParts();
    const since = "2026-01-01T00:00:00Z";
    const conditions = [
      { type: "LoadBalancerReady", status: "False", reason: "Failed", message: "", lastTransitionTime: since },
    ];
    await parts.writes.release(parts.seen(aService({ meta: ours, status: { ...status, conditions } })), "cleared");
    expect(parts.patches()).toHaveLength(1);
    expect(stored(parts)).toMatchObject({ metadata: { name: "web" }, status: { loadBalancer: {} } });
    expect([stored(parts)?.metadata?.finalizers, stored(parts)?.status?.conditions]).toEqual([undefined, undefined]);
  });

  test("leaves an address that is to be kept", async () => {
    await using parts = await makeParts();
    await parts.writes.release(parts.seen(aService({ meta: ours, status })), "kept");
    expect(stored(parts)?.status?.loadBalancer?.ingress).toHaveLength(1);
  });

  test("keeps a finalizer that another writer added meanwhile", async () => {
    await using parts = await makeParts();
    const seen = parts.seen(aService({ meta: ours }));
    parts.cluster.api.update(kinds.Service, { namespace: "default", name: "web" }, (now) => ({
      ...now,
      metadata: { ...now.metadata, finalizers: [finalizer, "example.com/other"] },
    }));
    await parts.writes.release(seen, "cleared");
    expect(stored(parts)?.metadata?.finalizers).toEqual(["example.com/other"]);
  });
});

describe("patching the status", () => {
  test("no-op add status", async () => {
    await using parts = await makeParts();
    await parts.writes.status(parts.seen(aService({ status })), { ingress });
    expect(parts.patches()).toEqual([]);
  });

  test("add status", async () => {
    await using parts = await makeParts();
    await parts.writes.status(parts.seen(aService()), { ingress });
    expect(parts.patches()).toEqual([{ status: { loadBalancer: { ingress } } }]);
    expect(stored(parts)?.status?.loadBalancer?.ingress?.[0]?.ip).toBe("10.0.0.1");
  });

  test("no-op clear status", async () => {
    await using parts = await makeParts();
    await parts.writes.status(parts.seen(aService()), {});
    expect(parts.patches()).toEqual([]);
  });

  test("clear status", async () => {
    await using parts = await makeParts();
    await parts.writes.status(parts.seen(aService({ status })), {});
    expect(parts.patches()).toEqual([{ status: { loadBalancer: { ingress: null } } }]);
    expect(stored(parts)?.status?.loadBalancer?.ingress ?? []).toEqual([]);
  });
});

test("every write is a strategic merge patch of the status subresource", async () => {
  await using parts = await makeParts();
  const service = parts.seen(aService());
  await parts.writes.addFinalizer(service);
  await parts.writes.status(service, { ingress });
  for (const sent of parts.cluster.sent())
    expect(sent).toMatchObject({
      client: "service-controller",
      method: "PATCH",
      path: "/api/v1/namespaces/default/services/web/status",
      contentType: "application/strategic-merge-patch+json",
      status: 200,
    });
});

test("no write of a Service reaches another one that was created under its name", async () => {
  await using parts = await makeParts();
  const { writes } = parts;
  const plain = parts.seen(aService());
  const former = { ...plain, metadata: { ...plain.metadata, ...ours, annotations: { [markKey]: "other" } } };
  parts.remove(plain);
  const current = parts.seen(aService({ meta: ours }));
  await writes.status(plain, { ingress });
  await writes.unmark(former);
  await writes.condition.failure(plain, new Error("It failed."), [], 1_000);
  await writes.condition.success(plain, ["a warning"]);
  await writes.release(former, "cleared");
  expect(await errorOf(writes.addFinalizer(plain))).toMatchObject({ cause: { status: 404 } });
  expect(stored(parts)).toEqual(current);
  expect(parts.cluster.sent({ method: "PATCH" }).map(({ status: code }) => code)).toEqual(Array(6).fill(422));
});

test("a write that validation rejects fails: the Service is not taken for another one of its name", async () => {
  await using parts = await makeParts();
  const seen = parts.seen(aService());
  parts.cluster.api.faults.add({ match: { verb: "patch", resource: "services" }, effect: { status: 422 } });
  expect(await errorOf(parts.writes.status(seen, { ingress }))).toMatchObject({ cause: { status: 422 } });
});

test("a mark that cannot be removed is an error, unless its Service is gone", async () => {
  await using parts = await makeParts();
  const marked = parts.seen(aService({ meta: { annotations: { [markKey]: "other" } } }));
  const { faults } = parts.cluster.api;
  const refused = faults.add({ match: { verb: "patch", resource: "services" }, effect: { status: 403 } });
  expect(await errorOf(parts.writes.unmark(marked))).toMatchObject({ status: 403 });
  expect(stored(parts)).toEqual(marked);
  refused.remove();
  parts.remove(marked);
  await parts.writes.unmark(marked);
});

test("a patch of an outdated Service changes its finalizer and status, and nothing that others wrote meanwhile", async () => {
  await using parts = await makeParts();
  const outdated = parts.seen(aService());
  parts.cluster.api.update(kinds.Service, { namespace: "default", name: "web" }, (now) => ({
    ...now,
    metadata: { ...now.metadata, annotations: { "example.com/added": "meanwhile" } },
  }));
  const clusterIP = stored(parts)?.spec?.clusterIP;
  const changed = { ...outdated, spec: { ...outdated.spec, clusterIP: "10.0.0.99" } };
  await parts.writes.addFinalizer(changed);
  await parts.writes.status(changed, { ingress });
  expect(stored(parts)).toMatchObject({
    metadata: { finalizers: [finalizer], annotations: { "example.com/added": "meanwhile" } },
    status: { loadBalancer: { ingress } },
  });
  expect(stored(parts)?.spec?.clusterIP).toBe(clusterIP);
});

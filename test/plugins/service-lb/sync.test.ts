import { describe, expect, test } from "bun:test";

import {
  FencedError,
  ImplementedElsewhereError,
  keyOf,
  kinds,
  messageOf,
  type Service,
} from "cloud-controller-host/sdk";
import { type CloudMethod, eventually } from "cloud-controller-host/sdk/testing";

import { isInterrupted } from "../../../plugins/service-lb/errors.ts";
import { syncLoadBalancerIfNeeded, syncService } from "../../../plugins/service-lb/sync.ts";
import { aNode, aService, finalizer, type ServiceFields } from "./objects.ts";
import { alreadyBalanced, makeParts, type Parts } from "./parts.ts";

const { signal } = new AbortController();
const finalizers = [finalizer];
const deleted = { deletionTimestamp: "2026-01-01T00:00:00Z" };
const port = (protocol: string): Service["spec"] => ({ ports: [{ port: 80, protocol }] });
const ingress: Service["status"] = { loadBalancer: { ingress: [{ ip: "8.8.8.8" }] } };

const writing: readonly CloudMethod[] = ["ensureLoadBalancer", "updateLoadBalancer", "ensureLoadBalancerDeleted"];
const callsOf = ({ memory }: Parts): readonly CloudMethod[] =>
  memory.calls.map(({ method }) => method).filter((method) => writing.includes(method));

/** Result of a sync: undefined, or the message of its error. */
const outcome = async (parts: Parts, key: string, stop = signal): Promise<string> =>
  syncService(parts, key, stop).then(() => "", messageOf);

interface Row {
  readonly name: string;
  readonly service: ServiceFields;
  readonly exists?: boolean;
  readonly op: "ensure" | "delete";
  readonly calls: readonly CloudMethod[];
  readonly patches: number;
}

const rows: readonly Row[] = [
  { name: "service doesn't want LB", service: { spec: { type: "ClusterIP" } }, op: "delete", calls: [], patches: 0 },
  {
    name: "udp service that wants LB",
    service: { spec: port("UDP") },
    op: "ensure",
    calls: ["ensureLoadBalancer"],
    patches: 2,
  },
  {
    name: "tcp service that wants LB",
    service: { spec: port("TCP") },
    op: "ensure",
    calls: ["ensureLoadBalancer"],
    patches: 2,
  },
  {
    name: "sctp service that wants LB",
    service: { spec: port("SCTP") },
    op: "ensure",
    calls: ["ensureLoadBalancer"],
    patches: 2,
  },
  {
    name: "service specifies loadBalancerClass",
    service: { spec: { loadBalancerClass: "example.com/other" } },
    op: "delete",
    calls: [],
    patches: 0,
  },
  {
    name: "service with finalizer that no longer wants LB",
    service: { meta: { finalizers }, spec: { type: "ClusterIP" }, status: ingress },
    exists: true,
    op: "delete",
    calls: ["ensureLoadBalancerDeleted"],
    patches: 1,
  },
  {
    name: "service that needs cleanup",
    service: { meta: { finalizers, ...deleted }, status: ingress },
    exists: true,
    op: "delete",
    calls: ["ensureLoadBalancerDeleted"],
    patches: 1,
  },
  {
    name: "service with finalizer that wants LB",
    service: { meta: { finalizers } },
    op: "ensure",
    calls: ["ensureLoadBalancer"],
    patches: 1,
  },
];

describe("syncing a load balancer", () => {
  test.each(rows.map((row) => [row.name, row] as const))("%s", async (_name, { service: fields, ...want }) => {
    await using parts = await makeParts();
    parts.nodeStore.set(aNode("node-1"));
    // As in the informer: the API server clears the status of a ClusterIP Service.
    const { meta, ...rest } = fields;
    const created = parts.seen(
      aService({ ...(meta?.finalizers ? { meta: { finalizers } } : {}), spec: { ...rest.spec } }),
    );
    const service: Service = {
      ...created,
      metadata: { ...created.metadata, ...meta },
      ...(fields.status === undefined ? {} : { status: fields.status }),
    };
    if (want.exists) alreadyBalanced(parts.memory, service);
    expect(await syncLoadBalancerIfNeeded(parts, keyOf(service), service, signal)).toBe(want.op);
    expect(callsOf(parts)).toEqual([...want.calls]);
    expect(parts.patches()).toHaveLength(want.patches);
    if (want.op === "delete") expect(parts.memory.balancers.size).toBe(0);
    else
      expect(parts.memory.balancers.get(keyOf(service))).toMatchObject({
        name: `a${service.metadata?.uid?.replaceAll("-", "")}`.slice(0, 32),
        clusterName: "kubernetes",
        nodes: ["node-1"],
      });
  });
});

describe("a created or updated Service", () => {
  test("updates a valid Service", async () => {
    await using parts = await makeParts();
    const service = parts.seen(aService());
    parts.cache.see(keyOf(service), { metadata: service.metadata ?? {} });
    expect(await outcome(parts, keyOf(service))).toBe("");
  });

  test("updates the load balancer's IP", async () => {
    await using parts = await makeParts();
    const service = parts.seen(aService({ spec: { loadBalancerIP: "192.168.1.11" } }));
    parts.cache.see(keyOf(service), { ...service, spec: { ...service.spec, loadBalancerIP: "192.168.1.1" } });
    expect(await outcome(parts, keyOf(service))).toBe("");
    expect(parts.cache.get(keyOf(service))?.service.spec?.loadBalancerIP).toBe("192.168.1.11");
  });
});

describe("errors of the API server", () => {
  const failing = async (parts: Parts, status: number): Promise<string> => {
    const service = parts.seen(aService({ meta: { finalizers } }));
    parts.cluster.api.faults.add({ match: { verb: "patch", resource: "services" }, effect: { status }, times: 10 });
    return await outcome(parts, keyOf(service));
  };

  test("conflict error", async () => {
    await using parts = await makeParts();
    expect(await failing(parts, 409)).toBe("failed to update load balancer status: made to fail");
    const event = await eventually("the event arrives", () => parts.cluster.event("SyncLoadBalancerFailed"));
    expect(event.message).toBe("Error syncing load balancer: failed to update load balancer status: made to fail");
    expect(event.type).toBe("Warning");
  });

  test("a Service that is not found is not an error", async () => {
    await using parts = await makeParts();
    expect(await failing(parts, 404)).toBe("");
    expect(parts.cluster.sent({ status: 404 })).toHaveLength(1);
  });
});

describe("syncing a Service", () => {
  test("an invalid key is an error", async () => {
    await using parts = await makeParts();
    expect(await outcome(parts, "invalid/key/string")).toBe('unexpected key format: "invalid/key/string"');
    expect(parts.cache.get("invalid/key/string")).toBeUndefined();
  });

  test("a deleted Service leaves the cache", async () => {
    await using parts = await makeParts();
    parts.cache.see("external-balancer", aService({ name: "external-balancer" }));
    expect(await outcome(parts, "external-balancer")).toBe("");
    expect(parts.cache.get("external-balancer")).toBeUndefined();
  });
});

describe("a deleted Service", () => {
  const key = "default/external-balancer";
  const cached = aService({ name: "external-balancer" });

  test("a Service that does not exist is deleted without a call", async () => {
    await using parts = await makeParts();
    expect(await outcome(parts, key)).toBe("");
    expect(parts.memory.calls).toEqual([]);
  });

  test("a failed deletion at the cloud is reported and keeps the Service in the cache", async () => {
    await using parts = await makeParts();
    parts.cache.see(key, cached);
    parts.memory.fail("ensureLoadBalancerDeleted", new Error("error Deleting the Loadbalancer"));
    expect(await outcome(parts, key)).toBe("error Deleting the Loadbalancer");
    expect(parts.cache.get(key)).toBeDefined();
    const event = await eventually("the event arrives", () => parts.cluster.event("DeleteLoadBalancerFailed"));
    expect(event.message).toBe("Error deleting load balancer: error Deleting the Loadbalancer");
  });

  test("a failed deletion at the cloud is in the warnings of /statusz until it succeeds", async () => {
    await using parts = await makeParts();
    parts.cache.see(key, cached);
    parts.memory.fail("ensureLoadBalancerDeleted", new Error("locked"), { times: 1 });
    expect(await outcome(parts, key)).toBe("locked");
    expect(parts.failing.warnings.map(({ text }) => text).join()).toContain(`Service ${key} fails since`);
    expect(await outcome(parts, key)).toBe("");
    expect(parts.failing.warnings).toEqual([]);
  });

  test("a deletion is reported and takes the Service out of the cache", async () => {
    await using parts = await makeParts();
    parts.cache.see(key, cached);
    expect(await outcome(parts, key)).toBe("");
    expect(parts.cache.get(key)).toBeUndefined();
    expect(callsOf(parts)).toEqual(["ensureLoadBalancerDeleted"]);
    expect(parts.reported()).toEqual(["DeletingLoadBalancer", "DeletedLoadBalancer"]);
  });
});

describe("a Service recreated under the same name", () => {
  test("has the old load balancer deleted before its own is created", async () => {
    await using parts = await makeParts();
    const service = parts.seen(aService());
    parts.cache.see(keyOf(service), aService({ meta: { uid: "old" } }));
    expect(await outcome(parts, keyOf(service))).toBe("");
    expect(callsOf(parts)).toEqual(["ensureLoadBalancerDeleted", "ensureLoadBalancer"]);
    expect(parts.memory.callsOf("ensureLoadBalancerDeleted")[0]?.args[1]).toMatchObject({ metadata: { uid: "old" } });
    expect(parts.cache.get(keyOf(service))?.service.metadata?.uid).toBe(service.metadata?.uid);
  });

  test("is not the cause of another deletion when a watch repeats the old one that is gone", async () => {
    await using parts = await makeParts();
    const old = parts.seen(aService({ meta: { finalizers } }));
    const key = keyOf(old);
    parts.remove(old);
    const successor = parts.seen(aService());
    parts.services.set({ ...old, metadata: { ...old.metadata, deletionTimestamp: "2026-01-02T00:00:00Z" } });
    expect(await outcome(parts, key)).toBe("");
    expect(parts.cache.get(key)).toBeUndefined();
    parts.services.set(successor);
    expect(await outcome(parts, key)).toBe("");
    expect(callsOf(parts)).toEqual(["ensureLoadBalancer"]);
  });

  test("waits while the old load balancer cannot be deleted, and reports the failure once at each of the two", async () => {
    await using parts = await makeParts();
    const service = parts.seen(aService());
    parts.cache.see(keyOf(service), aService({ meta: { uid: "old" } }));
    parts.memory.fail("ensureLoadBalancerDeleted", new Error("busy"));
    expect(await outcome(parts, keyOf(service))).toBe("busy");
    expect(parts.memory.callsOf("ensureLoadBalancer")).toEqual([]);
    expect(parts.reported()).toEqual(["DeletingLoadBalancer", "DeleteLoadBalancerFailed", "SyncLoadBalancerFailed"]);
    const event = await eventually("the event arrives", () => parts.cluster.event("SyncLoadBalancerFailed"));
    expect(event.involvedObject.uid).toBe(service.metadata?.uid ?? "");
    expect(event.message).toBe(
      "Error syncing load balancer: failed to delete load balancer of a former Service of this name: busy",
    );
  });

  test("reports no failure of its own if it wants no load balancer, or the process stops", async () => {
    for (const [type, hasStopped] of [
      ["ClusterIP", false],
      ["LoadBalancer", true],
    ] as const) {
      await using parts = await makeParts();
      const service = parts.seen(aService({ spec: { type } }));
      parts.cache.see(keyOf(service), aService({ meta: { uid: "old" } }));
      parts.memory.fail("ensureLoadBalancerDeleted", new Error("busy"));
      await outcome(parts, keyOf(service), hasStopped ? AbortSignal.abort() : undefined);
      expect(parts.reported()).not.toContain("SyncLoadBalancerFailed");
    }
  });
});

describe("an error names the step that failed", () => {
  const steps: readonly (readonly [string, ServiceFields, (parts: Parts) => void])[] = [
    [
      "failed to ensure load balancer: made to fail",
      {},
      ({ memory }) => memory.fail("ensureLoadBalancer", new Error("made to fail")),
    ],
    [
      "failed to add load balancer cleanup finalizer: made to fail",
      {},
      ({ cluster }) => void cluster.api.faults.add({ match: { verb: "patch" }, effect: { status: 403 } }),
    ],
    [
      "failed to check if load balancer exists before cleanup: made to fail",
      { meta: { finalizers }, spec: { type: "NodePort" } },
      ({ memory }) => memory.fail("getLoadBalancer", new Error("made to fail")),
    ],
    [
      "failed to delete load balancer: made to fail",
      { meta: { finalizers }, spec: { type: "NodePort" } },
      ({ memory }) => memory.fail("ensureLoadBalancerDeleted", new Error("made to fail")),
    ],
    [
      "failed to remove load balancer cleanup finalizer: made to fail",
      { meta: { finalizers }, spec: { type: "NodePort" } },
      ({ cluster }) => void cluster.api.faults.add({ match: { verb: "patch" }, effect: { status: 403 } }),
    ],
  ];

  test.each(steps)("%s", async (problem, fields, breakIt) => {
    await using parts = await makeParts();
    const service = parts.seen(aService(fields));
    alreadyBalanced(parts.memory, service);
    breakIt(parts);
    expect(await outcome(parts, keyOf(service))).toBe(problem);
    const event = await eventually("the event arrives", () => parts.cluster.event("SyncLoadBalancerFailed"));
    expect(event.message).toBe(`Error syncing load balancer: ${problem}`);
    expect(parts.cache.get(keyOf(service))).toBeDefined();
  });

  test("an ensure without a status is reported", async () => {
    await using parts = await makeParts();
    const service = parts.seen(aService());
    // A cloud plugin that is not type-checked may do this.
    parts.memory.intercept("ensureLoadBalancer", async () => JSON.parse("{}").status);
    expect(await outcome(parts, keyOf(service))).toBe("service status returned by EnsureLoadBalancer is nil");
  });
});

describe("a load balancer that is implemented elsewhere", () => {
  test("is ensured without status, further event or error, and the finalizer stays", async () => {
    await using parts = await makeParts();
    parts.nodeStore.set(aNode("node-1"));
    const service = parts.seen(aService());
    parts.memory.fail("ensureLoadBalancer", new ImplementedElsewhereError());
    expect(await outcome(parts, keyOf(service))).toBe("");
    expect(parts.patches()).toHaveLength(1);
    expect(parts.cluster.api.get(kinds.Service, { namespace: "default", name: "web" })?.metadata?.finalizers).toEqual(
      finalizers,
    );
    expect(parts.reported()).toEqual(["EnsuringLoadBalancer"]);
  });

  test("is released as if it had been deleted", async () => {
    await using parts = await makeParts();
    const service = parts.seen(aService({ meta: { finalizers }, spec: { type: "NodePort" } }));
    alreadyBalanced(parts.memory, service);
    parts.memory.fail("ensureLoadBalancerDeleted", new ImplementedElsewhereError());
    expect(await outcome(parts, keyOf(service))).toBe("");
    expect(parts.patches()).toHaveLength(1);
  });

  test("is not recognized from the cause of another error", async () => {
    await using parts = await makeParts();
    const service = parts.seen(aService());
    parts.memory.fail("ensureLoadBalancer", new Error("wrapped", { cause: new ImplementedElsewhereError() }));
    expect(await outcome(parts, keyOf(service))).toStartWith("failed to ensure load balancer: wrapped");
  });
});

describe("a cleanup", () => {
  test("does not delete a load balancer that does not exist, and drops the Service from the cache", async () => {
    await using parts = await makeParts();
    const service = parts.seen(aService({ meta: { finalizers }, spec: { type: "NodePort" } }));
    parts.cache.see(keyOf(service), service);
    expect(await outcome(parts, keyOf(service))).toBe("");
    expect(callsOf(parts)).toEqual([]);
    expect(parts.reported()).toEqual(["DeletedLoadBalancer"]);
    expect(parts.cache.get(keyOf(service))).toBeUndefined();
  });

  test("a cleanup of a terminating Service that lost our finalizer runs once", async () => {
    await using parts = await makeParts();
    const created = parts.seen(aService({ meta: { finalizers: ["example.com/other"] } }));
    const going = { ...created, metadata: { ...created.metadata, ...deleted } };
    parts.services.set(going);
    parts.cache.see(keyOf(going), going);
    alreadyBalanced(parts.memory, going);
    for (let time = 0; time < 2; time++) expect(await outcome(parts, keyOf(going))).toBe("");
    expect(callsOf(parts)).toEqual(["ensureLoadBalancerDeleted"]);
    expect(parts.patches()).toEqual([]);
  });

  test("makes no cloud call for a deleted Service that never was a load balancer", async () => {
    await using parts = await makeParts();
    parts.cache.see("default/web", aService({ spec: { type: "NodePort" } }));
    expect(await outcome(parts, "default/web")).toBe("");
    expect(parts.memory.calls).toEqual([]);
    expect(parts.cache.size).toBe(0);
  });

  test("is made up for when its Service vanishes without the finalizer before it has succeeded", async () => {
    await using parts = await makeParts();
    const service = parts.seen(aService({ meta: { finalizers }, spec: { type: "NodePort" } }));
    alreadyBalanced(parts.memory, service);
    parts.memory.fail("ensureLoadBalancerDeleted", new Error("unavailable"), { times: 1 });
    expect(await outcome(parts, keyOf(service))).toContain("unavailable");
    parts.remove(service);
    expect(await outcome(parts, keyOf(service))).toBe("");
    expect([...parts.memory.balancers.keys()]).toEqual([]);
    expect(parts.cache.size).toBe(0);
  });

  test("is reported when it fails although its Service has vanished by then", async () => {
    await using parts = await makeParts();
    const service = parts.seen(aService({ meta: { finalizers }, spec: { type: "NodePort" } }));
    alreadyBalanced(parts.memory, service);
    parts.memory.intercept("ensureLoadBalancerDeleted", () => {
      parts.remove(service);
      return Promise.reject(new Error("unavailable"));
    });
    expect(await outcome(parts, keyOf(service))).toContain("unavailable");
    expect([parts.reported(), parts.failing.size]).toEqual([["DeletingLoadBalancer", "SyncLoadBalancerFailed"], 1]);
  });

  test("makes no cloud call once the controller is stopping, and reports no failure", async () => {
    await using parts = await makeParts();
    const service = parts.seen(aService({ meta: { finalizers }, spec: { type: "NodePort" } }));
    alreadyBalanced(parts.memory, service);
    const stop = new AbortController();
    parts.memory.intercept("getLoadBalancer", async ({ proceed }) => {
      const status = await proceed();
      stop.abort();
      return status;
    });
    await syncService(parts, keyOf(service), stop.signal).catch(() => undefined);
    parts.cache.see("default/vanished", aService({ name: "vanished" }));
    await syncService(parts, "default/vanished", stop.signal).catch(() => undefined);
    expect(callsOf(parts)).toEqual([]);
    expect(parts.patches()).toEqual([]);
    expect(parts.reported()).toEqual([]);
    expect(parts.cache.keys().toSorted()).toEqual(["default/vanished", "default/web"]);
  });
});

describe("interrupted work", () => {
  const stopped = AbortSignal.abort(new Error("the generation ends"));

  test.each([
    ["an aborted call", new Error("cut", { cause: stopped.reason })],
    ["a write after the fence", new Error("late", { cause: new FencedError("the write", "the lease is lost") })],
  ])("is %s, while stopping and only then", (_name, error) => {
    expect(isInterrupted(error, stopped)).toBe(true);
    expect(isInterrupted(error, signal)).toBe(false);
  });

  test("is distinguished from an error of the cloud", () => {
    expect(isInterrupted(new Error("quota"), stopped)).toBe(false);
  });
});

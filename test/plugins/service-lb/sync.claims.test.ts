import { expect, test } from "bun:test";

import { kinds, type Service, type Shards } from "cloud-controller-host/sdk";

import { finalizer, serviceSelection } from "../../../plugins/service-lb/predicates.ts";
import { syncService } from "../../../plugins/service-lb/sync.ts";
import { errorOf } from "../../kit/rejection.ts";
import { aService } from "./objects.ts";
import { alreadyBalanced, makeParts } from "./parts.ts";

const mark = "cloud-controller-host/served-by";
const labeled = (shard: string, annotations: Readonly<Record<string, string>> = {}) =>
  aService({ meta: { labels: { shard }, annotations } });
const { signal } = new AbortController();

/** A deployment `ours` for Services with `shard=a`, beside others of which those in `alive` lead. */
async function setUp(alive: ReadonlySet<string> = new Set(), isSharing = true) {
  const parts = await makeParts();
  const repeated: string[] = [];
  const left: string[] = [];
  const shards: Shards = {
    own: "ours",
    ...(isSharing && { isAlive: (lease) => Promise.resolve(alive.has(lease)) }),
  };
  const selection = serviceSelection({ serviceSelector: isSharing ? "shard=a" : "" }, shards);
  const markOf = (): string | undefined => parts.stored("default/web").metadata?.annotations?.[mark];
  const leaveLoadBalancer = (): Promise<void> => {
    left.push(`left while ${markOf()}`);
    return Promise.resolve();
  };
  const again = (key: string, ms: number): void => void repeated.push(`${key} ${ms}`);
  const synced = { ...parts, shards, selection, again, balancers: { ...parts.balancers, leaveLoadBalancer } };
  return {
    parts,
    repeated,
    left,
    markOf,
    selection,
    sync: () => syncService(synced, "default/web", signal),
    calls: () => parts.memory.calls.map(({ method }) => method),
    [Symbol.asyncDispose]: () => parts[Symbol.asyncDispose](),
  };
}

test("a selected Service is marked before the first call to the cloud, once, and with its finalizer", async () => {
  await using deployment = await setUp();
  const { parts, sync, markOf } = deployment;
  const marks: (string | undefined)[] = [];
  parts.memory.intercept("ensureLoadBalancer", () => {
    marks.push(markOf());
    return Promise.resolve({ ingress: [{ ip: "192.0.2.1" }] });
  });
  parts.seen(labeled("a"));
  await sync();
  expect(marks).toEqual(["ours"]);
  parts.services.set(parts.stored("default/web"));
  const patches = parts.patches().length;
  await sync();
  expect(parts.patches()).toHaveLength(patches);
  expect(parts.stored("default/web").metadata?.finalizers).toEqual([finalizer]);
});

test("a Service that another deployment serves waits while that one leads, without a call or a write", async () => {
  await using deployment = await setUp(new Set(["theirs"]));
  const { parts, sync, calls, repeated } = deployment;
  parts.seen(labeled("a", { [mark]: "theirs" }));
  await sync();
  expect([calls(), parts.patches(), repeated, parts.reported()]).toEqual([
    [],
    [],
    ["default/web 5000"],
    ["WaitingForLoadBalancer"],
  ]);
});

test("a Service of a deployment that no longer leads is taken over", async () => {
  await using deployment = await setUp();
  deployment.parts.seen(labeled("a", { [mark]: "theirs" }));
  await deployment.sync();
  expect([deployment.markOf(), deployment.calls()]).toEqual(["ours", ["ensureLoadBalancer"]]);
});

test("a Service that changed since it was seen is not marked, but looked at again", async () => {
  await using deployment = await setUp();
  const { parts, sync, calls, repeated, markOf } = deployment;
  parts.seen(labeled("a"));
  parts.cluster.api.update(kinds.Service, { namespace: "default", name: "web" }, (now: Service) => ({
    ...now,
    metadata: { ...now.metadata, labels: { shard: "b" } },
  }));
  await sync();
  expect([calls(), repeated, markOf(), parts.reported()]).toEqual([[], ["default/web 200"], undefined, []]);
});

test("a Service that is handed over loses its mark last, and no call is made for it", async () => {
  await using deployment = await setUp();
  const { parts, sync, calls, left, markOf } = deployment;
  parts.seen(labeled("b", { [mark]: "ours" }));
  await sync();
  expect([left, markOf(), calls()]).toEqual([["left while ours"], undefined, []]);
  parts.services.set(parts.stored("default/web"));
  await sync();
  expect(left).toHaveLength(1);
});

test("a Service that neither is selected nor has our mark is not touched", async () => {
  await using deployment = await setUp();
  deployment.parts.seen(labeled("b", { [mark]: "theirs" }));
  await deployment.sync();
  expect([deployment.left, deployment.markOf(), deployment.parts.patches()]).toEqual([[], "theirs", []]);
});

test.each([
  ["shares Services", true],
  ["shares none", false],
])("a Service that another deployment has marked since it was ensured is left by one that %s", async (_, isSharing) => {
  await using deployment = await setUp(new Set(["theirs"]), isSharing);
  const { parts, sync, left } = deployment;
  parts.seen(labeled("a"));
  await sync();
  expect(left).toEqual([]);
  parts.services.set(labeled("a", { [mark]: "theirs" }));
  await sync();
  await sync();
  expect(left).toHaveLength(1);
});

test("a deployment that shares no Services marks none, and leaves alone what another one has marked", async () => {
  await using deployment = await setUp(new Set(), false);
  const { parts, sync, calls, markOf, selection } = deployment;
  parts.seen(labeled("a"));
  await sync();
  expect([calls(), markOf()]).toEqual([["ensureLoadBalancer"], undefined]);
  const marked = (lease: string): Service => labeled("a", { [mark]: lease });
  expect([selection.isLeftAlone(marked("theirs")), selection.wantsLoadBalancer(marked("theirs"))]).toEqual([
    true,
    false,
  ]);
  expect([selection.isLeftAlone(marked("ours")), selection.wantsLoadBalancer(marked("ours"))]).toEqual([false, true]);
  expect(selection.isHandedOver(marked("ours"))).toBe(false);
  const ofClass = aService({ meta: { annotations: { [mark]: "ours" } }, spec: { loadBalancerClass: "example.com/x" } });
  expect(selection.isHandedOver(ofClass)).toBe(false);
});

test("our own mark is not a change to follow, and the removal of another one's is", async () => {
  await using deployment = await setUp();
  const { changeToFollow } = deployment.selection;
  expect(changeToFollow(labeled("a"), labeled("a", { [mark]: "ours" }))).toBeUndefined();
  expect(changeToFollow(labeled("a", { [mark]: "theirs" }), labeled("a"))).toBe("deployment");
  expect(changeToFollow(labeled("a", { [mark]: "theirs" }), labeled("a", { [mark]: "ours" }))).toBe("deployment");
  expect(changeToFollow(labeled("a"), labeled("a", { other: "x" }))).toBe("annotations");
});

test("a Service that has lost our mark, as a client replaced the whole object, is synced, which marks it again; one that we hand over is not", async () => {
  await using deployment = await setUp();
  const { changeToFollow } = deployment.selection;
  const marked = (shard: string): Service => labeled(shard, { [mark]: "ours" });
  expect(changeToFollow(marked("a"), labeled("a"))).toBe("mark");
  expect(changeToFollow(marked("b"), labeled("b"))).toBeUndefined();
});

test("a Service that is being deleted without a mark is not marked: nothing remains that another one could serve", async () => {
  await using deployment = await setUp();
  const { parts, sync } = deployment;
  const service = labeled("a");
  parts.services.set({
    ...service,
    metadata: { ...service.metadata, finalizers: [finalizer], deletionTimestamp: "2026-01-01T00:00:00Z" },
  });
  await sync().catch(() => undefined);
  expect(JSON.stringify(parts.patches())).not.toContain(mark);
});

const changedType = (annotations: Readonly<Record<string, string>>) =>
  aService({ spec: { type: "ClusterIP" }, meta: { labels: { shard: "a" }, finalizers: [finalizer], annotations } });

test("a Service with our mark whose type has changed is released, although a killed process had deleted its load balancer", async () => {
  await using deployment = await setUp();
  deployment.parts.seen(changedType({ [mark]: "ours" }));
  await deployment.sync();
  expect(deployment.parts.stored("default/web").metadata?.finalizers ?? []).toEqual([]);
  expect(deployment.markOf()).toBeUndefined();
});

test.each([
  ["without a mark", {}],
  ["with the mark of another deployment", { [mark]: "theirs" }],
])("a Service %s whose type has changed keeps its finalizer where the cloud has nothing of it", async (_, marks) => {
  await using deployment = await setUp();
  deployment.parts.seen(changedType(marks));
  await deployment.sync();
  expect(deployment.parts.stored("default/web").metadata?.finalizers).toEqual([finalizer]);
  expect(deployment.parts.patches()).toEqual([]);
});

test("a cleanup that finds no load balancer ends the background work of the cloud for a Service that it could not ensure", async () => {
  await using deployment = await setUp(new Set(), false);
  const { parts, sync, left } = deployment;
  parts.memory.fail("ensureLoadBalancer", new Error("refused"));
  parts.seen(aService());
  await sync().catch(() => undefined);
  expect(left).toEqual([]);
  parts.services.set({ ...parts.stored("default/web"), spec: { type: "ClusterIP" } });
  await sync();
  expect(left).toHaveLength(1);
  expect(parts.memory.callsOf("ensureLoadBalancerDeleted")).toEqual([]);
});

test("a Service that cannot be marked is reported until it is", async () => {
  await using deployment = await setUp();
  const { parts, sync, calls } = deployment;
  parts.seen(labeled("a"));
  parts.cluster.api.faults.add({ match: { verb: "patch", resource: "services" }, effect: { status: 403 } });
  expect(await errorOf(sync())).toBeDefined();
  expect([calls(), parts.reported(), parts.failing.size]).toEqual([[], ["SyncLoadBalancerFailed"], 1]);
  await sync();
  expect([deployment.markOf(), parts.failing.size]).toEqual(["ours", 0]);
});

test("a Service whose type has changed and which the cloud cannot look up is reported until it is known to be another's", async () => {
  await using deployment = await setUp();
  const { parts, sync } = deployment;
  parts.seen(changedType({}));
  parts.memory.fail("getLoadBalancer", new Error("unavailable"), { times: 1 });
  expect(String(await errorOf(sync()))).toContain("unavailable");
  expect([parts.reported(), parts.failing.size]).toEqual([["SyncLoadBalancerFailed"], 1]);
  await sync();
  expect(parts.failing.size).toBe(0);
});

test.each<readonly [string, (service: Service) => Service]>([
  [
    "another deployment serves the Service by then",
    (service) => ({ ...service, metadata: { ...service.metadata, annotations: { [mark]: "theirs" } } }),
  ],
  ["the Service is to have a load balancer again", (service) => ({ ...service, spec: { type: "LoadBalancer" } })],
])("a cleanup that fails because %s does not show at the Service", async (_title, changed) => {
  await using deployment = await setUp(new Set(), false);
  const { parts, sync } = deployment;
  const service = parts.seen(aService({ spec: { type: "ClusterIP" }, meta: { finalizers: [finalizer] } }));
  alreadyBalanced(parts.memory, service);
  parts.memory.intercept("ensureLoadBalancerDeleted", () => {
    parts.services.set(changed(service));
    return Promise.reject(new Error("superseded"));
  });
  expect(String(await errorOf(sync()))).toContain("superseded");
  expect([parts.patches(), parts.reported(), parts.failing.size]).toEqual([[], ["DeletingLoadBalancer"], 0]);
});

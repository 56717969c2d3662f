import { describe, expect, test } from "bun:test";

import { ApiError, kinds, type KubeEvent, messageOf, type Node, type Route } from "cloud-controller-host/sdk";
import { eventually } from "cloud-controller-host/sdk/testing";

import { reconcileRoutes } from "../../../plugins/route/pass.ts";
import { aNode, aRoute } from "./objects.ts";
import { conditionOf, hold, lineOf, linesOf, makeParts, type Parts } from "./parts.ts";

const { signal } = new AbortController();

const single1 = aNode("node-1", ["10.120.0.0/24"], "10.0.1.1");
const single2 = aNode("node-2", ["10.120.1.0/24"], "10.0.2.1");
const dual3 = aNode("node-3", ["10.120.0.0/24", "a00:100::/24"], "10.0.3.1");
const dual4 = aNode("node-4", ["10.120.1.0/24", "a00:200::/24"], "10.0.4.1");
const without = aNode("node-2", [], "10.0.2.1");

/** A node's routes as they should be, or by another address, or by none. */
const routesOf = (node: Node, address = node.status?.addresses?.[0]?.address): readonly Route[] =>
  (node.spec?.podCIDRs ?? []).map((cidr) => aRoute(node.metadata?.name ?? "", cidr, address));
const following = (routes: readonly Route[]): readonly Route[] =>
  routes.map((route) => ({ ...route, enableNodeAddresses: true }));
const bare = (node: Node): readonly Route[] =>
  routesOf(node).map(({ targetNodeAddresses: _addresses, ...route }) => route);
const blackhole = (cidr: string): Route => ({ ...aRoute("", cidr), blackhole: true });

const dual = [dual3, dual4];
const singles = [single1, single2];
const dualRoutes = dual.flatMap((node) => routesOf(node));
const singleRoutes = singles.flatMap((node) => routesOf(node));
const oneSingle = routesOf(single1);

interface Row {
  readonly name: string;
  readonly nodes: readonly Node[];
  readonly before: readonly Route[];
  readonly after: readonly Route[];
}

const rows: readonly Row[] = [
  {
    name: "routes have no TargetNodeAddresses at the beginning",
    nodes: dual,
    before: following(dual.flatMap(bare)),
    after: dualRoutes,
  },
  {
    name: "routes' TargetNodeAddresses changed",
    nodes: dual,
    before: following([...routesOf(dual3, "10.0.13.1"), ...routesOf(dual4, "10.0.14.1")]),
    after: dualRoutes,
  },
  { name: "multicidr 2 nodes and no routes", nodes: dual, before: [], after: dualRoutes },
  { name: "multicidr 2 nodes and all routes created", nodes: dual, before: dualRoutes, after: dualRoutes },
  {
    name: "multicidr 2 nodes and few wrong routes",
    nodes: dual,
    before: [
      aRoute("node-3", "10.120.1.0/24", "10.0.3.1"),
      aRoute("node-3", "a00:200::/24", "10.0.3.1"),
      aRoute("node-4", "10.120.0.0/24", "10.0.4.1"),
      aRoute("node-4", "a00:100::/24", "10.0.4.1"),
    ],
    after: dualRoutes,
  },
  {
    name: "multicidr 2 nodes and some routes created",
    nodes: dual,
    before: [aRoute("node-3", "10.120.0.0/24", "10.0.3.1"), aRoute("node-4", "a00:200::/24", "10.0.4.1")],
    after: dualRoutes,
  },
  {
    name: "multicidr 2 nodes and too many routes",
    nodes: dual,
    before: [...dualRoutes, aRoute("node-x", "10.120.2.0/24"), aRoute("node-y", "a00:300::/24")],
    after: dualRoutes,
  },
  { name: "single cidr 2 nodes and routes created", nodes: singles, before: singleRoutes, after: singleRoutes },
  {
    name: "single cidr node ips changed so routes should be updated",
    nodes: singles,
    before: following([...routesOf(single1, "10.0.1.2"), ...routesOf(single2, "10.0.2.2")]),
    after: singleRoutes,
  },
  { name: "single cidr 2 nodes and one route created", nodes: singles, before: oneSingle, after: singleRoutes },
  { name: "single cidr 2 nodes and no routes", nodes: singles, before: [], after: singleRoutes },
  {
    name: "single cidr 2 nodes and too many routes",
    nodes: singles,
    before: [...singleRoutes, aRoute("node-3", "10.120.2.0/24"), aRoute("node-4", "10.120.3.0/24")],
    after: singleRoutes,
  },
  {
    name: "single cidr 2 nodes and 2 routes with 1 incorrect",
    nodes: singles,
    before: [...oneSingle, aRoute("node-3", "10.120.2.0/24")],
    after: singleRoutes,
  },
  {
    name: "single cidr 2 nodes and one node without cidr assigned",
    nodes: [single1, without],
    before: [],
    after: oneSingle,
  },
  {
    name: "single cidr 2 nodes and an extra blackhole route in our range",
    nodes: singles,
    before: [...singleRoutes, blackhole("10.120.2.0/24")],
    after: singleRoutes,
  },
  {
    name: "single cidr 2 nodes and an extra blackhole route not in our range",
    nodes: singles,
    before: [...singleRoutes, blackhole("10.1.2.0/24")],
    after: [...singleRoutes, blackhole("10.1.2.0/24")],
  },
];

describe("a pass over nodes and routes", () => {
  test.each(rows.map((row) => [row.name, row] as const))("%s", async (_name, { nodes, before, after }) => {
    await using parts = await makeParts();
    for (const node of nodes) parts.seen(node);
    hold(parts.memory, before);
    await reconcileRoutes(parts, signal);
    expect(linesOf(parts.memory)).toEqual(after.map(lineOf).toSorted());
    const untouched = before.filter((route) => after.some((other) => lineOf(other) === lineOf(route)));
    expect(parts.memory.callsOf("createRoute")).toHaveLength(after.length - untouched.length);
    expect(parts.memory.callsOf("deleteRoute")).toHaveLength(before.length - untouched.length);
  });

  test("duplicate pod cidr", async () => {
    await using parts = await makeParts();
    // The API server would refuse such a node; what is seen of it is all that counts.
    parts.nodes.set(aNode("node-1", ["10.120.0.0/24", "10.120.0.0/24"], "10.0.1.1"));
    await reconcileRoutes(parts, signal);
    expect(linesOf(parts.memory)).toEqual(["node-1 10.120.0.0/24 10.0.1.1"]);
  });
});

const failure = async (parts: Parts): Promise<string> => reconcileRoutes(parts, signal).then(() => "", messageOf);

describe("the condition of a node", () => {
  test("is set once, by whether all its routes exist", async () => {
    await using parts = await makeParts();
    for (const node of [single1, dual4]) parts.seen(node);
    parts.memory.fail("createRoute", new Error("quota"), { target: "node-4", times: 1 });
    expect(await failure(parts)).toContain("quota");
    expect(Object.fromEntries(parts.conditions().map(([name, ...rest]) => [name, rest]))).toEqual({
      "node-1": ["False", "RouteCreated"],
      "node-4": ["True", "NoRouteCreated"],
    });
    for (const node of parts.cluster.api.list(kinds.Node)) parts.nodes.set(node);
    expect(await failure(parts)).toBe("");
    expect(parts.conditions().slice(2)).toEqual([["node-4", "False", "RouteCreated"]]);
  });

  test("is not set without a CIDR and a route, and is True with only a stale route", async () => {
    await using parts = await makeParts();
    parts.seen(aNode("host", []));
    parts.seen(without);
    hold(parts.memory, [aRoute("node-2", "10.120.9.0/24")]);
    expect(await failure(parts)).toBe("");
    expect(parts.conditions()).toEqual([["node-2", "True", "NoRouteCreated"]]);
    expect(linesOf(parts.memory)).toEqual([]);
  });

  test("is written as soon as it is known, with the current time", async () => {
    await using parts = await makeParts();
    parts.seen(single1);
    await reconcileRoutes(parts, signal);
    expect(parts.cluster.sent({ method: "PATCH" })).toMatchObject([
      {
        client: "route-controller",
        path: "/api/v1/nodes/node-1/status",
        contentType: "application/strategic-merge-patch+json",
        body: {
          status: {
            conditions: [
              {
                type: "NetworkUnavailable",
                status: "False",
                lastHeartbeatTime: "2026-01-01T00:00:00Z",
                lastTransitionTime: "2026-01-01T00:00:00Z",
                reason: "RouteCreated",
                message: "RouteController created a route",
              },
            ],
          },
        },
      },
    ]);
    expect(conditionOf(parts.cluster, "node-1")?.reason).toBe("RouteCreated");
  });

  test("is not written when the node was deleted or recreated during the pass", async () => {
    await using parts = await makeParts();
    for (const node of [single1, single2]) parts.seen(node);
    parts.memory.intercept("createRoute", async ({ target, proceed }) => {
      await proceed();
      const node = target === "node-1" ? single1 : single2;
      if (target === "node-1") parts.nodes.delete(node);
      else parts.nodes.set({ ...node, metadata: { ...node.metadata, uid: "another" } });
    });
    expect(await failure(parts)).toBe("");
    expect(parts.conditions()).toEqual([]);
  });

  test("is not written to a node that was recreated under its name and that the watch does not show yet", async () => {
    await using parts = await makeParts();
    parts.seen(single1);
    parts.memory.intercept("createRoute", async ({ proceed }) => {
      await proceed();
      parts.cluster.api.delete(kinds.Node, { name: "node-1" });
      parts.cluster.api.create(kinds.Node, single1);
    });
    expect(await failure(parts)).toBe("");
    expect(conditionOf(parts.cluster, "node-1")).toBeUndefined();
  });

  test("is not written again while the watch lags behind", async () => {
    await using parts = await makeParts();
    const node = parts.seen(single1);
    await reconcileRoutes(parts, signal);
    await reconcileRoutes(parts, signal);
    expect(parts.conditions()).toEqual([["node-1", "False", "RouteCreated"]]);
    parts.nodes.set({ ...node, metadata: { ...node.metadata, resourceVersion: "900000" } });
    await reconcileRoutes(parts, signal);
    expect(parts.conditions()).toHaveLength(2);
  });

  test("is not a failure when the node is already deleted at the API server", async () => {
    await using parts = await makeParts();
    parts.nodes.set(single1);
    expect(await failure(parts)).toBe("");
    expect(parts.cluster.sent({ status: 404 })).toHaveLength(1);
  });
});

describe("a failing pass", () => {
  test("tries everything before it reports failed creations", async () => {
    await using parts = await makeParts();
    for (const node of dual) parts.seen(node);
    parts.memory.fail("createRoute", new Error("quota"), { target: "node-3" });
    expect(await failure(parts)).toBe(
      "Could not create route 10.120.0.0/24 for node node-3: quota; Could not create route a00:100::/24 for node node-3: quota",
    );
    expect(linesOf(parts.memory)).toEqual(routesOf(dual4).map(lineOf));
    const events = await eventually("the events arrive", () => {
      const all = parts.cluster.events("FailedToCreateRoute");
      return all.length === 2 && all;
    });
    const [event] = events.toSorted((a: KubeEvent, b: KubeEvent) => ((a.message ?? "") < (b.message ?? "") ? -1 : 1));
    const uid = parts.nodes.get("node-3")?.metadata?.uid;
    expect(event).toMatchObject({
      type: "Warning",
      source: { component: "node-route-controller" },
      involvedObject: { apiVersion: "v1", kind: "Node", name: "node-3", uid },
      message: `Could not create route ${uid} 10.120.0.0/24 for node node-3 after 0s: quota`,
    });
  });

  test("does not create a route to a CIDR that is not within the cluster's, with which any kubelet may register its node", async () => {
    await using parts = await makeParts("10.120.0.0/16");
    const wide = ["0.0.0.0/0", "10.0.0.0/8", "10.120.0.0/15", "10.240.0.0/24"];
    for (const [index, cidr] of wide.entries()) parts.seen(aNode(`wide-${index}`, [cidr], "10.0.9.9"));
    hold(parts.memory, [aRoute("wide-3", "10.240.0.0/24", "10.0.9.9")]);
    parts.seen(single1);
    // It does not fail: passes that follow each other at once would change nothing.
    await reconcileRoutes(parts, signal);
    const event = await eventually("the event", () => parts.cluster.event("FailedToCreateRoute"));
    expect(event.message).toContain("for node wide-0 after 0s: pod CIDR 0.0.0.0/0 is not within --cluster-cidr");
    // What another one has created is not ours to delete.
    expect(linesOf(parts.memory)).toEqual(["node-1 10.120.0.0/24 10.0.1.1", "wide-3 10.240.0.0/24 10.0.9.9"]);
    expect(parts.reasons()).toEqual(["FailedToCreateRoute", "FailedToCreateRoute", "FailedToCreateRoute"]);
    expect(conditionOf(parts.cluster, "wide-0")).toMatchObject({ status: "True" });
  });

  test("names the duration of a failed creation in its event", async () => {
    await using parts = await makeParts();
    parts.seen(single1);
    parts.memory.intercept("createRoute", async () => {
      await parts.clock.advance(2250);
      throw new Error("quota");
    });
    await failure(parts);
    const event = await eventually("the event", () => parts.cluster.event("FailedToCreateRoute"));
    expect(event.message).toContain("for node node-1 after 2.25s: quota");
  });

  test("reports failed deletions, which affect no condition", async () => {
    await using parts = await makeParts();
    parts.seen(single1);
    hold(parts.memory, [aRoute("node-x", "10.120.2.0/24")]);
    parts.memory.fail("deleteRoute", new Error("locked"));
    expect(await failure(parts)).toBe("Could not delete route my-k8s-node-x-10.120.2.0/24 10.120.2.0/24: locked");
    expect(parts.conditions()).toEqual([["node-1", "False", "RouteCreated"]]);
    expect(parts.reasons()).toEqual([]);
  });

  test("reports failed conditions", async () => {
    await using parts = await makeParts();
    parts.seen(single1);
    parts.cluster.api.faults.add({ match: { verb: "patch" }, effect: { status: 403 }, times: 9 });
    expect(await failure(parts)).toBe("failed to update networking condition of node node-1: made to fail");
  });

  test("writes a condition again in the next pass after its write failed", async () => {
    await using parts = await makeParts();
    parts.seen(single1);
    const fault = parts.cluster.api.faults.add({ match: { verb: "patch" }, effect: { status: 403 }, times: 9 });
    await failure(parts);
    fault.remove();
    await reconcileRoutes(parts, signal);
    expect(parts.cluster.sent({ method: "PATCH" }).map(({ status }) => status)).toEqual([403, 200]);
  });

  test("reports any number of nodes in one line", async () => {
    await using parts = await makeParts();
    for (let index = 0; index < 50; index++) parts.nodes.set(aNode(`n${index}`, [`10.120.${index}.0/24`]));
    parts.memory.fail("createRoute", new Error("quota"));
    const problem = await failure(parts);
    expect(problem).toEndWith("; and 47 more");
    expect(problem.split("; ")).toHaveLength(4);
  });

  test("writes nothing when the routes cannot be listed", async () => {
    await using parts = await makeParts();
    parts.seen(single1);
    parts.memory.fail("listRoutes", new Error("denied"));
    expect(await failure(parts)).toBe("error listing routes: denied");
    expect(parts.cluster.writes()).toEqual([]);
    expect(await parts.cluster.metric("route_controller_route_sync_total")).toBe(1);
  });
});

describe("the cloud calls of a pass", () => {
  test("create a route only after the deletions of its node and of its destination", async () => {
    await using parts = await makeParts("10.120.0.0/16");
    for (const node of [aNode("a", ["10.120.2.0/24"]), aNode("b", ["10.120.1.0/24"]), aNode("c", ["10.120.3.0/24"])])
      parts.seen(node);
    // a's old route has b's destination now: both wait for it, c does not.
    hold(parts.memory, [aRoute("a", "10.120.1.0/24")]);
    const deleting = parts.memory.hold("deleteRoute");
    const pass = reconcileRoutes(parts, signal);
    await eventually("the deletion is under way and c's route is there", () => linesOf(parts.memory).length === 2);
    expect(parts.memory.callsOf("createRoute").map(({ target }) => target)).toEqual(["c"]);
    deleting.release();
    await pass;
    expect(linesOf(parts.memory)).toEqual(["a 10.120.2.0/24", "b 10.120.1.0/24", "c 10.120.3.0/24"]);
  });

  test("are limited to 200 at a time, creations and deletions together", async () => {
    await using parts = await makeParts("10.120.0.0/16");
    for (let index = 0; index < 150; index++) parts.nodes.set(aNode(`n${index}`, [`10.120.${index}.0/24`]));
    hold(
      parts.memory,
      Array.from({ length: 100 }, (_, index) => aRoute(`gone-${index}`, `10.120.${150 + index}.0/24`)),
    );
    const creating = parts.memory.hold("createRoute");
    const deleting = parts.memory.hold("deleteRoute");
    const pass = reconcileRoutes(parts, signal).catch(() => undefined);
    await eventually("they are under way", () => creating.waiting + deleting.waiting === 200);
    deleting.release();
    await eventually("the places are taken", () => creating.waiting === 150);
    creating.release();
    await pass;
    expect(parts.memory.routes.size).toBe(150);
  });

  test("are attempted up to five times after a conflict, and once after any other error", async () => {
    await using parts = await makeParts();
    for (const node of [single1, single2]) parts.seen(node);
    parts.memory.fail("createRoute", new ApiError(409, "Conflict", "changed meanwhile"), { target: "node-1" });
    parts.memory.fail("createRoute", new Error("quota"), { target: "node-2" });
    const pass = failure(parts);
    const tries = (name: string): number =>
      parts.memory.callsOf("createRoute").filter(({ target }) => target === name).length;
    await eventually("the first try has failed", () => parts.clock.sleepers === 1);
    expect(tries("node-1")).toBe(1);
    await parts.clock.advance(99);
    expect(tries("node-1")).toBe(1);
    // Four pauses of 100 to 200 ms each.
    await parts.clock.advance(701);
    expect(await pass).toContain("changed meanwhile");
    expect(tries("node-1")).toBe(5);
    expect(tries("node-2")).toBe(1);
  });

  test("are finished when the signal aborts, and nothing else is written or started", async () => {
    await using parts = await makeParts();
    for (const node of [single1, single2]) parts.seen(node);
    hold(parts.memory, [aRoute("node-1", "10.120.9.0/24")]);
    const deleting = parts.memory.hold("deleteRoute");
    const creating = parts.memory.hold("createRoute");
    const stop = new AbortController();
    const pass = reconcileRoutes(parts, stop.signal).catch(messageOf);
    await eventually("they are under way", () => creating.waiting === 1 && deleting.waiting === 1);
    stop.abort();
    deleting.release();
    creating.release();
    expect(await pass).toContain("not started, because the controller is stopping");
    // The creation for node-2 was under way; that for node-1 waited for the deletion, and was not begun.
    expect(linesOf(parts.memory)).toEqual(["node-2 10.120.1.0/24 10.0.2.1"]);
    expect(parts.memory.callsOf("createRoute")).toHaveLength(1);
    expect(parts.cluster.writes()).toEqual([]);
    expect(parts.reasons()).toEqual([]);
  });

  test("the cloud calls of a pass that wait for a slot when the signal aborts are not started", async () => {
    await using parts = await makeParts("10.120.0.0/16");
    hold(
      parts.memory,
      Array.from({ length: 250 }, (_, index) => aRoute(`gone-${index}`, `10.120.${index}.0/24`)),
    );
    const deleting = parts.memory.hold("deleteRoute");
    const stop = new AbortController();
    const pass = reconcileRoutes(parts, stop.signal).catch(() => undefined);
    await eventually("200 are under way", () => deleting.waiting === 200);
    stop.abort();
    deleting.release();
    await pass;
    expect(parts.memory.callsOf("deleteRoute")).toHaveLength(200);
  });

  test("pass the node's UID as a hint, and its addresses", async () => {
    await using parts = await makeParts();
    const { metadata } = parts.seen(single1);
    await reconcileRoutes(parts, signal);
    expect(parts.memory.callsOf("createRoute")[0]?.args.slice(0, 3)).toEqual([
      "my-k8s",
      metadata?.uid,
      {
        name: "",
        targetNode: "node-1",
        destinationCIDR: "10.120.0.0/24",
        targetNodeAddresses: [{ type: "InternalIP", address: "10.0.1.1" }],
      },
    ]);
  });
});

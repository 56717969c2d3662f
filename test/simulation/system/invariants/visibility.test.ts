import { expect, test } from "bun:test";

import type { Problem } from "./problems.ts";
import { Visibility } from "./visibility.ts";

const minuteMs = 60_000;

interface Scene {
  readonly problem?: Partial<Problem>;
  /** The cause of the problem in each minute; default: the same. */
  readonly causeAt?: (minute: number) => string;
  /** Minutes in which a request of the leader fails; default: the first. */
  readonly fails?: readonly number[];
  /** Minutes without the problem. */
  readonly well?: readonly number[];
  /** An event, and the minute in which it is written. */
  readonly event?: readonly [reason: string, uid: string, minute: number];
  readonly warnings?: readonly string[];
  /** The generation of each minute, or one that lasts; undefined: none runs. */
  readonly generationAt?: (minute: number) => number | undefined;
  /** Resources whose operations take long, and the minutes in which they do; default: all. */
  readonly prolonged?: readonly [path: string, minutes?: readonly number[]];
  readonly meddled?: boolean;
  readonly isLeftOver?: boolean;
}

/** The minute in which an invisible failure is found; undefined: it is not within half an hour. */
function foundAt(scene: Scene): number | undefined {
  const { fails = [1], well = [], event, warnings = [], prolonged, meddled = false } = scene;
  const { generationAt = () => 1, causeAt = () => "" } = scene;
  const text = "it is wrong";
  const problem: Problem = scene.isLeftOver
    ? { text }
    : { text, kind: "Service", object: "default/s1", uid: "u1", ...scene.problem };
  const found: number[] = [];
  let minute = 0;
  const world = {
    get now() {
      return minute * minuteMs;
    },
    meddled,
    operations: {
      get underway() {
        const [path, minutes = [minute]] = prolonged ?? [];
        return path !== undefined && minutes.includes(minute) ? [path] : [];
      },
    },
  };
  const problems = () => (well.includes(minute) ? [] : [{ ...problem, cause: causeAt(minute) }]);
  const visibility = new Visibility(world, problems, () => void found.push(minute));
  for (minute = 1; minute <= 30 && found.length === 0; minute += 1) {
    if (fails.includes(minute)) visibility.failed();
    if (event?.[2] === minute) visibility.shown(event[0], event[1]);
    const generation = generationAt(minute);
    visibility.check({
      identity: "host0",
      status: { generation: generation ?? 0, running: generation !== undefined, warnings },
    });
  }
  return found[0];
}

const failing = {
  reason: "SyncLoadBalancerFailed",
  warning: "service-lb-controller: Service default/s1 fails since 10:00",
};
const ofNode = (kind: NonNullable<Problem["kind"]>) => ({ kind, object: "vmss0000001" }) as const;

test.each<readonly [what: string, minute: number, scene: Scene]>([
  ["a Service, five minutes after a request failed", 6, {}],
  ["a Service whose request failed later", 12, { fails: [7] }],
  ["a Service that is refused without a request", 6, { fails: [], problem: { isRefusal: true } }],
  ["a Service with an event of another object", 6, { event: [failing.reason, "u2", 2] }],
  ["a Service with an event of something else", 6, { event: ["EnsuringLoadBalancer", "u1", 2] }],
  ["a Service with a warning of another controller", 6, { warnings: [failing.warning.replace("service-lb", "route")] }],
  ["a Service with a warning about another", 6, { warnings: [failing.warning.replace("s1", "s10")] }],
  [
    "the addresses of a node whose VM is replaced again",
    21,
    { problem: ofNode("addresses"), causeAt: (minute) => (minute < 5 ? "10.0.0.4" : "10.0.0.5"), fails: [1, 6] },
  ],
  ["a Service that was well in between", 9, { well: [3], fails: [1, 4] }],
  [
    "a Service whose event is from before it was well",
    10,
    { well: [3, 4], fails: [5], event: [failing.reason, "u1", 2] },
  ],
  ["a Service while only route tables have long operations", 6, { prolonged: ["/routetables/"] }],
  ["a Service of a generation that began later", 9, { generationAt: (at) => (at < 4 ? 1 : 2), fails: [1, 4] }],
  [
    "a Service after minutes in which no generation ran",
    9,
    { generationAt: (at) => (at < 4 ? undefined : 1), fails: [4] },
  ],
  [
    "a Service that fails again after the operation that it waited for",
    16,
    { prolonged: ["/loadbalancers/", [3, 4, 5, 6, 7, 8]], fails: [1, 11] },
  ],
  ["a node that is not initialized", 6, { problem: ofNode("uninitialized") }],
  [
    "a node with a warning about its routes alone",
    6,
    {
      problem: ofNode("uninitialized"),
      warnings: [
        "node-route-controller: routes not reconciled since 10:00: Could not create route for node vmss0000001",
      ],
    },
  ],
  ["a node whose VM is gone, after ten minutes", 11, { problem: ofNode("existence") }],
  ["the addresses of a node, after fifteen minutes", 16, { problem: ofNode("addresses") }],
  ["a route that a person may have removed", 6, { problem: ofNode("route"), meddled: true }],
])("a failure that nothing shows is found: %s", (_what, minute, scene) => {
  expect(foundAt(scene)).toBe(minute);
});

test.each<readonly [what: string, scene: Scene]>([
  ["no request has failed", { fails: [] }],
  ["an event shows it", { event: [failing.reason, "u1", 2] }],
  [
    "an event has shown it since the last look at which it was well",
    { well: [1], fails: [2], event: [failing.reason, "u1", 1] },
  ],
  ["a warning names it", { warnings: [failing.warning] }],
  [
    "a warning is about all routes",
    { problem: ofNode("route"), warnings: ["node-route-controller: routes not reconciled since 10:00"] },
  ],
  [
    "the deletions of very many nodes are held",
    {
      problem: ofNode("existence"),
      warnings: ["cloud-node-lifecycle-controller: 150 of 200 nodes are missing from the cloud: no more are deleted"],
    },
  ],
  ["no generation runs", { generationAt: () => undefined }],
  ["a person has removed something of a Service", { meddled: true }],
  ["the operation that it waits for takes an hour", { prolonged: ["/loadbalancers/"] }],
  ["it is left over and has no object", { isLeftOver: true }],
  ["it lasts for less than five minutes at a time", { well: [5, 10, 15, 20, 25, 30], fails: [1, 6, 11, 16, 21, 26] }],
  [
    "a generation begins every four minutes",
    { generationAt: (at) => Math.floor(at / 4), fails: [1, 4, 8, 12, 16, 20, 24] },
  ],
])("no invisible failure is found where %s", (_what, scene) => {
  expect(foundAt(scene)).toBeUndefined();
});

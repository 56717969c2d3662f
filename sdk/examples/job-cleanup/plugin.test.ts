import { describe, expect, setDefaultTimeout, test } from "bun:test";

import { controllerHarness, TestCluster } from "cloud-controller-host/sandbox";
import { kinds, type Pod } from "cloud-controller-host/sdk";
import {
  controllerConformance,
  type CreateWork,
  eventually,
  manualClock,
  memoryCloud,
} from "cloud-controller-host/sdk/testing";

import plugin, { dueOfJob, dueOfPod, jobs } from "./plugin.ts";

// Longer than the limit of `eventually`, whose error names what did not happen.
setDefaultTimeout(60_000);

const end = "2026-01-01T00:00:00Z";
const minuteMs = 60_000;
const options = { successfulAfter: 60, failedAfter: 120, orphanedAfter: 180, evictedAfter: 240 };
const keeps = { successfulAfter: 0, failedAfter: 0, orphanedAfter: 0, evictedAfter: 0 };
const endMs = new Date(end).getTime();

const condition = (type: string, status: "True" | "False") => ({
  type,
  status,
  reason: "",
  message: "",
  lastTransitionTime: end,
});
const pod = (status: object, ...owners: readonly string[]): Pod => ({
  metadata: {
    name: "pod",
    namespace: "default",
    creationTimestamp: end,
    ownerReferences: owners.map((kind) => ({ apiVersion: "batch/v1", kind, name: "owner", uid: "1" })),
  },
  status: { conditions: [condition("Ready", "False")], ...status },
});

test.each([
  ["a successful Job after its own time", { completionTime: end, succeeded: 1 }, 1],
  ["a failed Job after its own time", { conditions: [condition("Failed", "True")] }, 2],
  [
    "a Job that did not fail in the end, as a successful one",
    { completionTime: end, conditions: [condition("Failed", "False")] },
    1,
  ],
  ["no Job whose end cannot be read", { completionTime: "yesterday" }, undefined],
  ["no running Job", { succeeded: 0 }, undefined],
] as const)("deletes %s", (_title, status, minutes) => {
  expect(dueOfJob({ status }, options)).toBe(minutes && endMs + minutes * minuteMs);
  expect(dueOfJob({ status }, keeps)).toBeUndefined();
});

test.each([
  ["a successful Pod of a Job", pod({ phase: "Succeeded" }, "Job"), 1],
  ["a failed Pod of a Job", pod({ phase: "Failed" }, "Job"), 2],
  ["a finished Pod without an owner", pod({ phase: "Succeeded" }), 3],
  ["an evicted Pod of any owner", pod({ phase: "Failed", reason: "Evicted", conditions: [] }, "ReplicaSet"), 4],
  ["no Pod of another owner", pod({ phase: "Failed" }, "ReplicaSet"), undefined],
  ["no Pod with further owners", pod({ phase: "Failed" }, "Job", "Tracker"), undefined],
  ["no running Pod, ready or not", pod({ phase: "Running" }, "Job"), undefined],
])("deletes %s", (_title, object, minutes) => {
  expect(dueOfPod(object, options)).toBe(minutes && endMs + minutes * minuteMs);
  expect(dueOfPod(object, keeps)).toBeUndefined();
});

test("deletes a finished Job exactly when it is due, in the foreground", async () => {
  await using cluster = await TestCluster.start({ kinds: [jobs] });
  const clock = manualClock(endMs);
  const done = { name: "done", namespace: "default" };
  await cluster.admin.create(jobs, { metadata: done });
  await cluster.admin.patch(jobs, done, "merge", { status: { completionTime: end } }, { subresource: "status" });
  await cluster.run(plugin, { cloud: memoryCloud().cloud, clock, own: options });
  const isThere = (): boolean => cluster.api.get(jobs, done) !== undefined;
  await eventually("the Job has been looked at", () => cluster.worked("jobs", 1));
  await clock.advance(minuteMs - 1);
  expect(isThere()).toBe(true);
  await clock.advance(1);
  await eventually("the Job is deleted", () => !isThere());
  expect(cluster.sent({ method: "DELETE" }).map(({ body }) => body)).toMatchObject([
    { propagationPolicy: "Foreground" },
  ]);
});

const work: CreateWork = async ({ admin, round }) => {
  const metadata = { name: `pod-${round}`, namespace: "default" };
  await admin.create(kinds.Pod, { metadata, spec: { containers: [{ name: "a", image: "a" }] } });
  const status = { phase: "Failed", reason: "Evicted", conditions: [condition("Ready", "False")] };
  await admin.patch(kinds.Pod, metadata, "merge", { status }, { subresource: "status" });
};

describe("controller conformance", () => {
  const own = { evictedAfter: 1 };
  for (const { name, run } of controllerConformance(plugin, controllerHarness(), { own, work })) test(name, run);
});

import { expect, test } from "bun:test";

import { FailingObjects } from "cloud-controller-host/sdk";
import { manualClock } from "cloud-controller-host/sdk/testing";

test("an object is warned of with its first failure's time and its last one's error, until it succeeds", async () => {
  const clock = manualClock();
  const failing = new FailingObjects("ServicesFail", clock);
  const since = new Date(clock.now()).toISOString();
  failing.failed("default/web", new Error("first"));
  await clock.advance(1000);
  failing.failed("default/web", new Error("x".repeat(1000)));
  const message = "x".repeat(300);
  expect(failing.warnings).toEqual([
    { kind: "ServicesFail", text: "failing Services: 1" },
    {
      kind: "ServicesFail",
      text: `Service default/web fails since ${since}: ${message}`,
      since,
      subject: "default/web",
    },
  ]);
  expect([failing.size, failing.facts]).toEqual([1, [{ name: "default/web", value: message }]]);
  failing.ended("default/web");
  expect([failing.size, failing.facts, failing.warnings]).toEqual([0, [], []]);
});

test("an object is not warned of in its time of grace, whatever the wall clock is set to", async () => {
  const clock = manualClock();
  let stepMs = 0;
  const stepped = { ...clock, now: () => clock.now() + stepMs, monotonic: () => clock.monotonic() };
  const failing = new FailingObjects("NodesFail", stepped, 60_000);
  failing.failed("node-0", new Error("No instance."));
  stepMs = 7_200_000;
  await clock.advance(59_999);
  expect([failing.size, failing.warnings]).toEqual([1, []]);
  stepMs = -7_200_000;
  await clock.advance(1);
  expect(failing.warnings.map(({ subject }) => subject)).toEqual([undefined, "node-0"]);
});

test("objects beyond the tenth are counted in the warnings, and beyond the fiftieth left out of the facts", () => {
  const failing = new FailingObjects("NodesFail", manualClock());
  for (let index = 0; index < 60; index++) failing.failed(`node-${index}`, new Error("No."));
  const { warnings } = failing;
  expect([warnings.length, warnings[0]?.text]).toEqual([12, "failing Nodes: 60"]);
  expect(warnings.at(-1)).toEqual({ kind: "NodesFail", text: "and 50 more", further: 50 });
  expect([failing.size, failing.facts.length]).toEqual([60, 50]);
});

test("what is kept no longer is forgotten, and the others keep their first failure's time", () => {
  const failing = new FailingObjects("NodesFail", manualClock());
  for (const name of ["gone", "node0"]) failing.failed(name, new Error("No."));
  failing.keepOnly(new Set(["node0", "node1"]));
  expect(failing.facts).toEqual([{ name: "node0", value: "No." }]);
});

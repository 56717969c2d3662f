import { expect, test } from "bun:test";

import type { Clock } from "cloud-controller-host/sdk";
import { eventually, manualClock } from "cloud-controller-host/sdk/testing";

import { readCommand } from "../../../host/cli/command.ts";
import { createLeadership } from "../../../host/run/leadership.ts";
import { createParts } from "../../../host/run/process-parts.ts";
import { SandboxLab } from "../sandbox-lab.ts";

test("serves the elector's own check: /healthz fails once a lease is unrenewed for its duration and 20 s", async () => {
  await using lab = await SandboxLab.open();
  await using stack = new AsyncDisposableStack();
  const input = await readCommand(lab.flags(), {
    environment: {},
    stdout: () => undefined,
    stderr: () => undefined,
    width: 100,
  });
  if ("status" in input) throw new Error("the command line is refused");
  const parts = await createParts({ ...input, writeLog: () => undefined }, stack);

  // Its clock runs, but its sleeps never end: it neither renews nor notices.
  const time = manualClock();
  const wedged: Clock = { ...time, sleep: () => new Promise(() => undefined) };
  const leadership = createLeadership(input, { ...parts, clock: wedged });
  const healthz = async (query = ""): Promise<string> =>
    (await parts.health.respond("healthz", new URLSearchParams(query))).text();
  expect(await healthz("verbose")).toContain("[+]leaderElection ok");

  void leadership.run(new AbortController().signal, {
    onStartedLeading: () => new Promise(() => undefined),
    onLockWon: () => undefined,
    onStoppedLeading: () => undefined,
  });
  await eventually("it leads", () => leadership.status.leading);
  await time.advance(35_000);
  // By the local clock it may not write any more.
  expect(leadership.status.leading).toBe(false);
  expect(await healthz("verbose")).toContain("[+]leaderElection ok");
  await time.advance(1);
  expect(await healthz()).toBe("[-]leaderElection failed: reason withheld\nhealthz check failed\n");
  const alone = await parts.health.respondOne("healthz", "leaderElection");
  expect(await alone?.text()).toContain("failed election to renew leadership on lease cloud-controller-manager");
});

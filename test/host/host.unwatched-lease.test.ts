import { expect, test } from "bun:test";

import { eventually } from "cloud-controller-host/sdk/testing";

import { SandboxLab } from "./sandbox-lab.ts";

test("a take-over does not wait for the watch of the Lease where the role does not allow it, as upstream's does not", async () => {
  await using lab = await SandboxLab.open();
  lab.api.faults.add({
    match: { verb: /^(list|watch)$/u, resource: "leases" },
    effect: { status: 403 },
    times: 1_000_000,
  });
  const host = lab.start();
  await eventually("it leads", async () => (await host.status().catch(() => undefined))?.leading, 60_000);
  const began = performance.now();
  await eventually("it runs", async () => (await host.status()).running, 60_000);
  expect(performance.now() - began).toBeLessThan(5000);
}, 120_000);

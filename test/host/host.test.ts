import { expect, setDefaultTimeout, spyOn, test } from "bun:test";
import { join } from "node:path";

import { eventually } from "cloud-controller-host/sdk/testing";

import { SandboxLab } from "./sandbox-lab.ts";

setDefaultTimeout(90_000);

test("a reload ends with one garbage collection", async () => {
  await using lab = await SandboxLab.open();
  const { host } = await lab.host();
  await eventually("it runs", () => host.status.running, 40_000);
  using collections = spyOn(Bun, "gc");
  await lab.changeConfig();
  host.reload("test");
  await eventually("the next generation runs", () => host.status.generation === 2 && host.status.running, 40_000);
  await eventually("the predecessor is collected", () => collections.mock.calls.length > 0, 40_000);
  expect(collections.mock.calls).toEqual([[true]]);
});

test("a cloud config whose read never returns does not keep a stopped process alive", async () => {
  await using lab = await SandboxLab.open();
  const pipe = join(lab.azure.folder, "pipe.yaml");
  expect(await Bun.spawn(["mkfifo", pipe]).exited).toBe(0);
  const host = lab.start({ flags: [`--cloud-config=${pipe}`] });
  await host.until("it leads", ({ leading }) => leading);
  expect(await host.status()).toMatchObject({ generation: 0, running: false });
  host.signal("SIGTERM");
  expect(await host.ended()).toBe(0);
  expect(host.lines('"Shutdown phase timed out" phase="Disposing of the standby generation"')).toHaveLength(1);
  expect(lab.lease()?.holderIdentity).toBe("");
});

import * as jsc from "bun:jsc";
import { expect, setDefaultTimeout, spyOn, test } from "bun:test";
import { rename } from "node:fs/promises";
import { join } from "node:path";

import { eventually } from "cloud-controller-host/sdk/testing";

import { SandboxLab } from "./sandbox-lab.ts";

setDefaultTimeout(120_000);

test("the first reload ends with one garbage collection", async () => {
  await using lab = await SandboxLab.open();
  const { host } = await lab.host();
  await eventually("it runs", () => host.status.running, 40_000);
  using collections = spyOn(jsc, "fullGC");
  await lab.changeConfig();
  host.reload("test");
  await eventually("the next generation runs", () => host.status.generation === 2 && host.status.running, 40_000);
  await eventually("the predecessor is collected", () => collections.mock.calls.length > 0, 40_000);
  expect(collections.mock.calls).toHaveLength(1);
});

test("plugins that cannot be read while the first generation starts do not end the process", async () => {
  await using lab = await SandboxLab.open();
  const gone = new Error("no such folder");
  const { host } = await lab.host([], (input) => ({
    ...input,
    loader: { ...input.loader, hash: () => Promise.reject(gone) },
  }));
  await eventually("it runs", () => host.status.running, 40_000);
  host.reload("test");
  await eventually("the reload is refused", () => host.status.lastRefusal !== undefined, 40_000);
  const lastRefusal = { reason: "no such folder; the reload is tried again" };
  expect(host.status).toMatchObject({ generation: 1, running: true, lastRefusal });
});

test("a cloud config whose read never returns does not keep a stopped process alive", async () => {
  await using lab = await SandboxLab.open();
  lab.api.faults.add({ match: { verb: "get", resource: "secrets" }, effect: "hang", times: 100 });
  const host = lab.start({ flags: ["--cloud-config=", "--enable-dynamic-reloading"] });
  await host.until("it leads", ({ leading }) => leading);
  expect(await host.status()).toMatchObject({ generation: 0, running: false });
  host.signal("SIGTERM");
  expect(await host.ended()).toBe(0);
  expect(host.lines('"Shutdown phase timed out" phase="Disposing of the last generation"')).toHaveLength(1);
  expect(lab.lease()?.holderIdentity).toBe("");
});

test("a cloud config that is a pipe ends the start at once, with what to do", async () => {
  await using lab = await SandboxLab.open();
  const pipe = join(lab.azure.folder, "pipe.yaml");
  await makePipe(pipe);
  const host = lab.start({ flags: [`--cloud-config=${pipe}`] });
  expect(await host.ended()).toBe(1);
  expect(host.stderr).toContain(`--cloud-config=${pipe}: this is a pipe, a socket or a device; name a regular file`);
});

test("a pipe in place of the cloud config is a refused reload, and a file after it a successful one", async () => {
  await using lab = await SandboxLab.open();
  const { config, configText } = lab.azure;
  const host = lab.start({ flags: ["--enable-dynamic-reloading"] });
  await host.until("it runs", ({ running }) => running);
  await makePipe(`${config}.pipe`);
  await rename(`${config}.pipe`, config);
  const refused = await host.until("the reload is refused", ({ lastRefusal }) => lastRefusal !== undefined);
  expect(refused).toMatchObject({ generation: 1, running: true });
  const reason = "this is a pipe, a socket or a device; name a regular file";
  await host.eventually("the reason is logged", () => host.stderr.includes(reason));
  await Bun.write(`${config}.next`, `${configText}# a change\n`);
  await rename(`${config}.next`, config);
  await host.until("the next generation runs", ({ generation, running }) => generation === 2 && running);
  expect(await host.stop()).toBe(0);
});

async function makePipe(path: string): Promise<void> {
  expect(await Bun.spawn(["mkfifo", path]).exited).toBe(0);
}

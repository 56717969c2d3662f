import { expect, setDefaultTimeout, test } from "bun:test";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";

import { kinds, type Lease } from "cloud-controller-host/sdk";

import type { HostProcess } from "../kit/host-process.ts";
import { HostLab } from "../kit/host-under-test.ts";
import { describeOnBoth } from "../kit/platform.ts";

setDefaultTimeout(120_000);

const controller = (run: string): string => `
  import { defineController, kinds } from "cloud-controller-host/sdk";
  export default defineController({
    name: "odd-controller",
    construct: () => (context) => ({ async run(signal) { ${run} } }),
  });`;

describeOnBoth("a controller", (platform) => {
  const lab = new HostLab(platform);

  async function startWith(run: string, ...flags: string[]): Promise<{ host: HostProcess; plugin: string }> {
    const { folder } = await lab.azure();
    await mkdir(join(folder, "plugins", "odd"), { recursive: true });
    const plugin = join(folder, "plugins", "odd", "plugin.ts");
    await writeFile(plugin, controller(run));
    const more = [`--plugin-dir=${join(folder, "plugins")}`, "--controllers=odd-controller", ...flags];
    return { host: await lab.start({ flags: more }), plugin };
  }

  const holder = async (): Promise<string | undefined> => {
    const lease: Lease = await platform().admin.get(kinds.Lease, {
      namespace: "kube-system",
      name: "cloud-controller-manager",
    });
    return lease.spec?.holderIdentity;
  };

  const deaf = "await new Promise(() => {});";
  /** Returns only after its abort and once a file exists. */
  const patient = (file: string): string => `
    const { exists } = await import("node:fs/promises");
    while (!signal.aborted || !(await exists("${file}"))) await new Promise((done) => setTimeout(done, 50));`;

  test("a controller that stops slowly delays the release of the lease until it has stopped", async () => {
    const done = join((await lab.azure()).folder, "done");
    const { host } = await startWith(patient(done));
    const { identity } = await host.until("it runs", ({ running }) => running);
    host.signal("SIGTERM");
    await host.eventually("it is not ready any more", async () => (await host.get("/readyz")).status === 500);
    expect((await host.get("/livez")).status).toBe(200);
    expect(await holder()).toBe(identity);
    await writeFile(done, "");
    expect(await host.ended()).toBe(0);
    expect(await holder()).toBe("");
  });

  test("a controller that does not stop in time is logged by name and fenced off, and the lease is left to expire", async () => {
    const { host } = await startWith(deaf, "--generation-drain-timeout=500ms");
    const { identity } = await host.until("it runs", ({ running }) => running);
    expect(await host.stop()).toBe(1);
    expect(host.lines("did not return in time").join("\n")).toContain("odd-controller");
    expect(await holder()).toBe(identity);
  });

  test("a controller that does not stop in time does not delay a reload, and cannot write after it", async () => {
    const { host, plugin } = await startWith(
      `while (true) {
         await new Promise((done) => setTimeout(done, 100));
         if (!signal.aborted) continue;
         const config = { metadata: { namespace: "kube-system", name: "written-after-its-end" } };
         await context.client.create(kinds.ConfigMap, config).catch((error) => context.log.info("refused: " + error.code));
       }`,
      "--generation-drain-timeout=1s",
    );
    await host.until("it runs", ({ running }) => running);
    await writeFile(plugin, controller('await new Promise((done) => signal.addEventListener("abort", () => done()));'));
    host.signal("SIGHUP");
    await host.until("the next generation runs", ({ generation, running }) => generation === 2 && running);
    await host.eventually("the old one is refused", () => host.lines("refused: Fenced").length > 0);
  });

  test("a controller that fails at once, with no generation to roll back to, ends the process with status 1 and releases the lease where the policy is exit", async () => {
    const { host } = await startWith('throw new Error("never works");', "--plugin-failure-policy=exit");
    expect(await host.ended()).toBe(1);
    expect(host.lines("never works").length).toBeGreaterThan(0);
    expect(await holder()).toBe("");
  });

  test("is aborted at once by a second signal", async () => {
    const { host } = await startWith(deaf);
    await host.until("it runs", ({ running }) => running);
    host.signal("SIGTERM");
    await host.eventually("the stop has begun", async () => (await host.get("/readyz")).status === 500);
    host.signal("SIGTERM");
    expect(await host.ended()).toBe(143);
  });
});

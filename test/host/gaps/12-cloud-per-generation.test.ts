import { expect, setDefaultTimeout, test } from "bun:test";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";

import { SandboxLab } from "../sandbox-lab.ts";

setDefaultTimeout(120_000);

/** A cloud that logs its creation and disposal, and whose creation fails for one region. */
const cloud = `
  import { defineCloud, Type } from "cloud-controller-host/sdk";
  export default defineCloud({
    name: "telling",
    configSchema: Type.Object({ region: Type.String() }),
    decode: ({ region }) => typeof region === "string"
      ? { ok: true, value: region, warnings: [] }
      : { ok: false, problems: ["region: name the region"] },
    async create(region, { log, generation }) {
      await Bun.sleep(1);
      if (region === "mars") throw new Error("no data center on mars: https://x/?sig=c2VjcmV0");
      log.info("cloud made in " + region);
      return {
        name: "telling",
        hasClusterID: true,
        instances: {
          instanceExists: async () => true,
          instanceShutdown: async () => false,
          instanceMetadata: async () => ({}),
        },
        async [Symbol.asyncDispose]() { log.info("cloud disposed of in " + region); },
      };
    },
  });`;

test("creates and disposes of a cloud per generation; a failure is an error and never an exit", async () => {
  await using lab = await SandboxLab.open();
  const plugins = await lab.plugin("telling", cloud);
  const config = join(lab.azure.folder, "telling.yaml");
  await writeFile(config, "region: earth\n");
  const host = lab.start({
    flags: [plugins, "--cloud-provider=telling", `--cloud-config=${config}`, "--enable-dynamic-reloading"],
  });
  await host.until("it runs", ({ running }) => running);

  await writeFile(config, "region: mars\n");
  const { lastRefusal } = await host.until("it is refused", (status) => status.lastRefusal !== undefined);
  expect(lastRefusal?.reason).toContain('cloud "telling" cannot be created: no data center on mars');
  await writeFile(config, "regoin: earth\n");
  await host.until(
    "a config without a region is refused",
    (status) => status.lastRefusal?.reason.includes("region: name the region") === true,
  );
  expect(await host.status()).toMatchObject({ running: true, generation: 1, leading: true });
  expect(host.lines("cloud disposed of")).toEqual([]);

  await writeFile(config, "region: moon\n");
  await host.until("the moon is taken", ({ running, lastRefusal: refusal }) => running && refusal === undefined);
  await host.eventually("the first is disposed of", () => host.lines("cloud disposed of in earth").length === 1);
  expect(await host.stop()).toBe(0);
  for (const what of [
    "cloud made in earth",
    "cloud made in moon",
    "cloud disposed of in earth",
    "cloud disposed of in moon",
  ])
    expect(host.lines(`telling-cloud-provider] "${what}"`)).toHaveLength(1);
});

test("a cloud that cannot be created at startup ends the process with 1, one line and the last line, without its secret", async () => {
  await using lab = await SandboxLab.open();
  const plugins = await lab.plugin("telling", cloud);
  const config = join(lab.azure.folder, "telling.yaml");
  await writeFile(config, "region: mars\n");
  const host = lab.start({ flags: [plugins, "--cloud-provider=telling", `--cloud-config=${config}`] });
  expect(await host.ended()).toBe(1);
  expect(host.lines('"Exiting" err=')).toHaveLength(1);
  expect(host.lines('"Exiting" err=')[0]).toContain("no data center on mars");
  expect(host.stderr.trimEnd().split("\n").at(-1)).toMatch(/^Error: .*no data center on mars: .*sig=\[redacted\]$/u);
  expect(host.stderr).not.toContain("c2VjcmV0");
});

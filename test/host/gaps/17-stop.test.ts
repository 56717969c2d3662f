import { describe, expect, setDefaultTimeout, test } from "bun:test";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";

import { SandboxLab } from "../sandbox-lab.ts";

setDefaultTimeout(120_000);

/** Its controller returns only after its abort and once the file exists. */
const slowToStop = (file: string): string => `
  import { exists } from "node:fs/promises";
  import { defineController } from "cloud-controller-host/sdk";
  export default defineController({
    name: "slow-controller",
    construct: () => (context) => ({
      async run(signal) {
        while (!signal.aborted || !(await exists("${file}"))) await new Promise((done) => setTimeout(done, 50));
        context.log.info("drained");
      },
    }),
  });`;

describe("a requested stop", () => {
  test.each(["SIGTERM", "SIGINT"] as const)(
    "a requested stop by %s takes the host from its Service, drains, releases the Lease, sends what is queued, and ends with 0",
    async (signal) => {
      await using lab = await SandboxLab.open();
      const done = join(lab.azure.folder, "done");
      const flags = [await lab.plugin("slow", slowToStop(done)), "--controllers=slow-controller"];
      const host = lab.start({ flags });
      const { identity } = await host.until("it runs", ({ running }) => running);
      host.signal(signal);
      await host.eventually("it is not ready", async () => (await host.get("/readyz")).status === 500);
      expect((await host.get("/livez")).status).toBe(200);
      expect(lab.lease()?.holderIdentity).toBe(identity);
      await writeFile(done, "");
      expect(await host.ended()).toBe(0);
      expect(lab.lease()?.holderIdentity).toBe("");
      const order = ["drained", "stopped leading", "Leadership ended"].map((text) => host.stderr.indexOf(text));
      expect(order).toEqual(order.toSorted((one, other) => one - other));
      expect(order.includes(-1)).toBeFalse();
    },
  );

  test("hands over at once: the next leader does not wait for the Lease to expire", async () => {
    await using lab = await SandboxLab.open();
    const first = lab.start();
    await first.until("the first leads", ({ running }) => running);
    const second = lab.start();
    await second.until("the second stands by", ({ generation, leader }) => generation === 1 && leader !== "");
    const renewed = lab.lease()?.renewTime ?? "";
    expect(await first.stop()).toBe(0);
    await second.until("the second leads", ({ running }) => running);
    // The Lease lasts 15 s from its last renewal; a candidate that waited for that could not hold it yet.
    expect(Date.parse(lab.lease()?.acquireTime ?? "") - Date.parse(renewed)).toBeLessThan(14_000);
    expect(lab.lease()?.leaseTransitions).toBe(1);
  });

  test("works while another replica holds the Lease", async () => {
    await using lab = await SandboxLab.open();
    const first = lab.start();
    await first.until("the first leads", ({ running }) => running);
    const second = lab.start({ flags: ["--enable-leader-migration"] });
    await second.until("the second stands by", ({ generation }) => generation === 1);
    expect(await second.stop()).toBe(0);
    expect((await first.status()).leading).toBeTrue();
  });
});

test("refuses positional arguments, so that a typo in a manifest is reported", async () => {
  await using lab = await SandboxLab.open();
  const host = lab.start({ flags: ["-leader-elect=false", "profiling=false"] });
  expect(await host.ended()).toBe(1);
  expect(host.stderr).toContain("does not take any arguments");
});

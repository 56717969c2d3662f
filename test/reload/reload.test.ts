import { expect, setDefaultTimeout, test } from "bun:test";
import { appendFile, mkdir, readlink, rename, rm, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";

import { isUninitialized, kinds, type Lease, type Node } from "cloud-controller-host/sdk";

import { joinNodes } from "../kit/azure.ts";
import type { HostProcess } from "../kit/host-process.ts";
import { HostLab } from "../kit/host-under-test.ts";
import { describeOnBoth, listsAmong, type Platform, writesAmong } from "../kit/platform.ts";

setDefaultTimeout(120_000);

async function leaseOf({ admin }: Platform): Promise<Lease["spec"]> {
  const lease: Lease = await admin.get(kinds.Lease, { namespace: "kube-system", name: "cloud-controller-manager" });
  return lease.spec;
}

const running = (host: HostProcess, generation: number): Promise<unknown> =>
  host.until(`generation ${generation} runs`, (status) => status.generation === generation && status.running);

const initialized = (host: HostProcess, { admin }: Platform, names: readonly string[]): Promise<unknown> =>
  host.eventually("the nodes are initialized", async () => {
    const nodes: readonly Node[] = await admin.list(kinds.Node);
    return names.every((name) => {
      const node = nodes.find(({ metadata }) => metadata?.name === name);
      return node !== undefined && !isUninitialized(node) && (node.status?.addresses?.length ?? 0) > 1;
    });
  });

describeOnBoth("a reload", (platform) => {
  const lab = new HostLab(platform);

  test("keeps the lease, sends no LIST and repeats no write", async () => {
    const names = await joinNodes(platform().admin, await lab.azure(), 3);
    const host = await lab.start();
    await running(host, 1);
    await initialized(host, platform(), names);
    const before = await leaseOf(platform());
    const mark = await platform().mark();
    for (const generation of [2, 3, 4]) {
      await appendFile((await lab.azure()).config, `# change ${generation}\n`);
      await running(host, generation);
    }
    const [late = ""] = await joinNodes(platform().admin, await lab.azure(), 1);
    await initialized(host, platform(), [late]);

    const after = await leaseOf(platform());
    expect(after?.holderIdentity).toBe(before?.holderIdentity);
    expect(after?.leaseTransitions).toBe(before?.leaseTransitions);
    expect(after?.acquireTime).toBe(before?.acquireTime);
    const requests = await platform().requests(mark);
    expect(listsAmong(requests)).toEqual([]);
    expect(writesAmong(requests).filter(({ name }) => name !== late)).toEqual([]);
  });

  test("a reload with an invalid config keeps the old generation running and reports the reason in log, event, metric and /statusz", async () => {
    const host = await lab.start();
    await running(host, 1);
    const { config, configText } = await lab.azure();
    const bad: readonly (readonly [string, string])[] = [
      ["- a list\n", "must be a mapping"],
      ["a: [1, 2\n", "neither YAML nor JSON"],
      [`${configText}putVMSSVMBatchSize: many\n`, "putVMSSVMBatchSize"],
      ["", "it is empty"],
    ];
    for (const [text, reason] of bad) {
      await writeFile(config, text);
      const status = await host.until(
        `the refusal names: ${reason}`,
        ({ lastRefusal }) => lastRefusal?.reason.includes(reason) ?? false,
      );
      expect(status).toMatchObject({ generation: 1, running: true, leading: true });
    }
    await rm(config);
    await host.until(
      "the missing file is reported",
      ({ lastRefusal }) => lastRefusal?.reason.includes("no such file") ?? false,
    );
    const metrics = await (await host.get("/metrics")).text();
    expect(metrics).toMatch(/^host_last_reload_successful 0$/m);
    expect(metrics).toMatch(/^host_reloads_total\{result="refused"\} 5$/m);
    expect(host.lines("Reload refused; the running generation continues")).toHaveLength(5);
    await host.eventually("the event is on the Lease", async () =>
      (await platform().admin.list(kinds.Event)).some(
        ({ reason, type, involvedObject }) =>
          reason === "ReloadRefused" && type === "Warning" && involvedObject.kind === "Lease",
      ),
    );

    const names = await joinNodes(platform().admin, await lab.azure(), 1);
    await initialized(host, platform(), names);
    await writeFile(config, `${configText}# fixed\n`);
    await host.until(
      "a good config is taken again",
      ({ lastRefusal, reloads }) => lastRefusal === undefined && reloads === 1,
    );
    expect(await (await host.get("/metrics")).text()).toMatch(/^host_last_reload_successful 1$/m);
  });

  test("a reload with disableCloudProvider drains the controllers, and keeps leading and serving until a config without it", async () => {
    const host = await lab.start();
    await running(host, 1);
    const before = await leaseOf(platform());
    const { config, configText } = await lab.azure();
    await writeFile(config, `${configText}disableCloudProvider: true\n`);
    await host.until("the controllers are stopped", (status) => status.disabled && !status.running);
    const [name = ""] = await joinNodes(platform().admin, await lab.azure(), 1);
    expect(await host.status()).toMatchObject({ leading: true, controllers: [] });
    expect((await host.get("/healthz")).status).toBe(200);
    const waiting: Node = await platform().admin.get(kinds.Node, { name });
    expect(isUninitialized(waiting)).toBe(true);

    await writeFile(config, `${configText}# enabled again\n`);
    await initialized(host, platform(), [name]);
    const after = await leaseOf(platform());
    expect([after?.holderIdentity, after?.leaseTransitions]).toEqual([
      before?.holderIdentity,
      before?.leaseTransitions,
    ]);
  });

  test("happens once for each way in which editors and volumes change a file, and not for the same bytes", async () => {
    const { folder, config, configText } = await lab.azure();
    await rm(config);
    await mkdir(join(folder, "..v1"));
    await writeFile(join(folder, "..v1", "cloud-config.yaml"), configText);
    await symlink("..v1", join(folder, "..data"));
    await symlink("..data/cloud-config.yaml", config);
    const host = await lab.start();
    await running(host, 1);

    const swap = async (version: string, text: string): Promise<void> => {
      await mkdir(join(folder, version));
      await writeFile(join(folder, version, "cloud-config.yaml"), text);
      await symlink(version, join(folder, "..data_tmp"));
      await rename(join(folder, "..data_tmp"), join(folder, "..data"));
    };
    await swap("..v2", `${configText}# a volume's update\n`);
    await running(host, 2);
    expect(await readlink(join(folder, "..data"))).toBe("..v2");

    await writeFile(`${config}.new`, `${configText}# an atomic mv\n`);
    await rename(`${config}.new`, config);
    await running(host, 3);

    await writeFile(config, "");
    await Bun.sleep(50);
    await writeFile(config, `${configText}# a cp over the file\n`);
    await running(host, 4);

    await rename(config, `${config}~`);
    await Bun.sleep(50);
    await writeFile(config, `${configText}# an editor that deletes and creates\n`);
    await running(host, 5);

    await writeFile(config, `${configText}# an editor that deletes and creates\n`);
    await writeFile(`${config}.new`, `${configText}# an editor that deletes and creates\n`);
    await rename(`${config}.new`, config);
    await Bun.sleep(1500);
    expect(await host.status()).toMatchObject({ generation: 5, reloads: 4 });
    expect((await host.status()).lastRefusal).toBeUndefined();
  });
});

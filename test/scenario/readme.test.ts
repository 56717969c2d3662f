import { expect, setDefaultTimeout, test } from "bun:test";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";

import { joinNodes } from "../kit/azure.ts";
import { HostLab } from "../kit/host-under-test.ts";
import { describeOnBoth } from "../kit/platform.ts";

setDefaultTimeout(120_000);

const readmePath = join(import.meta.dir, "..", "..", "README.md");

describeOnBoth("the README's plugin", (platform) => {
  const lab = new HostLab(platform);

  test("has at most fifteen lines, and runs as printed", async () => {
    const source = /```ts plugin\n([\s\S]+?)```/.exec(await readFile(readmePath, "utf8"))?.[1] ?? "";
    expect(source.trim().split("\n").length).toBeLessThanOrEqual(15);
    const azure = await lab.azure();
    const folder = join(azure.folder, "my-plugins", "node-greeter");
    await mkdir(folder, { recursive: true });
    await writeFile(join(folder, "plugin.ts"), source);
    const [node = ""] = await joinNodes(platform().admin, azure, 1);
    const host = await lab.start({
      flags: [`--plugin-dir=${join(folder, "..")}`, "--controllers=cloud-node,node-greeter-controller"],
    });
    await host.eventually("it greets the node", () => host.lines(`Hello, ${node}`).length > 0);
    expect(await (await host.get("/healthz?verbose")).text()).toContain("[+]node-greeter-controller ok");
  });
});

import { expect, test } from "bun:test";
import { join } from "node:path";

import { parse } from "yaml";

import { manifestFiles } from "../../deploy/generated.ts";
import { readCommand } from "../../host/cli/command.ts";
import packageJson from "../../package.json";
import { describeWithHelm } from "./helm.ts";

const deploy = join(import.meta.dir, "..", "..", "deploy");
const remedy = "run `bun run reference`";

test("the static Pod has flags that the host accepts, and the version of package.json", async () => {
  const pod = parse(await Bun.file(join(deploy, "manifests", "static-pod", "cloud-controller-host.yaml")).text());
  const [container] = pod.spec.containers;
  expect(container.image).toBe(`cloud-controller-host:${packageJson.version}`);
  let problem = "";
  const read = await readCommand(container.args, {
    environment: {},
    stdout: () => undefined,
    stderr: (text) => void (problem += text),
    width: 100,
  });
  expect([problem, "status" in read]).toEqual(["", false]);
});

describeWithHelm("the plain manifests", (helm) => {
  test(`match the chart rendered with its defaults; otherwise ${remedy}`, async () => {
    for (const [path, content] of await manifestFiles(helm().path))
      expect(await Bun.file(join(deploy, "manifests", path)).text()).toBe(content);
  });
});

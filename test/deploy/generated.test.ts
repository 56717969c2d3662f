import { expect, test } from "bun:test";
import { join } from "node:path";

import { flagsFile, manifestFiles, permissionsFile } from "../../deploy/generated.ts";
import { describeWithHelm } from "./helm.ts";

const deploy = join(import.meta.dir, "..", "..", "deploy");
const remedy = "run `bun deploy/generate.ts`";

test(`the chart's table of permissions is what the plugins declare; otherwise ${remedy}`, async () => {
  expect(await Bun.file(join(deploy, "chart", "files", "permissions.yaml")).text()).toBe(await permissionsFile());
});

test(`the chart's list of flags is the host's; otherwise ${remedy}`, async () => {
  expect(await Bun.file(join(deploy, "chart", "files", "flags.yaml")).text()).toBe(await flagsFile());
});

describeWithHelm("the plain manifests", (helm) => {
  test(`are what the chart makes of its defaults; otherwise ${remedy}`, async () => {
    for (const [path, content] of await manifestFiles(helm().path))
      expect(await Bun.file(join(deploy, "manifests", path)).text()).toBe(content);
  });
});

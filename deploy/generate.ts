/**
 * Writes what is made of other files, after a change of permissions or of the chart:
 *
 *     bun deploy/generate.ts
 */
import { join } from "node:path";

import { flagsFile, manifestFiles, permissionsFile } from "./generated.ts";

await Bun.write(join(import.meta.dir, "chart", "files", "permissions.yaml"), await permissionsFile());
await Bun.write(join(import.meta.dir, "chart", "files", "flags.yaml"), await flagsFile());
const helm = process.env["HELM"] ?? Bun.which("helm");
if (helm === null) {
  process.stderr.write("deploy/manifests is not written: helm is not on the PATH; install it, or name it in HELM\n");
  process.exitCode = 1;
} else {
  for (const [path, content] of await manifestFiles(helm))
    await Bun.write(join(import.meta.dir, "manifests", path), content);
}

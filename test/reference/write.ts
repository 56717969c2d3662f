/** What `bun run reference` runs: writes every generated file. */
import { join } from "node:path";

import { manifestFiles } from "../../deploy/generated.ts";
import { pages, root } from "./pages.ts";

for (const [path, make] of Object.entries(pages)) await Bun.write(join(root, path), await make());

const helm = process.env["HELM"] ?? Bun.which("helm");
if (helm === null)
  process.stderr.write(
    "deploy/manifests is unchanged, for want of helm: install it, or set HELM, after a change of the chart\n",
  );
else
  for (const [path, content] of await manifestFiles(helm))
    await Bun.write(join(root, "deploy/manifests", path), content);
process.exit();

/**
 * Takes the screenshots of the pages: `bun test/console/screenshots.ts [DIRECTORY]` (default: .github/screenshots). A
 * sandbox with a few Services runs for it, one of them failing.
 */
import { mkdir } from "node:fs/promises";
import { join } from "node:path";

import { openSandbox } from "../../host/sandbox-host.ts";
import { createService, untilReady } from "../kit/sandbox-services.ts";
import { openBrowser, untilText, watchedPage } from "./browser.ts";

const folder = process.argv[2] ?? join(import.meta.dir, "..", "..", ".github", "screenshots");

const shots = [
  { name: "overview", path: "overview", text: "Service fails", scheme: "light" },
  { name: "service", path: "services/default/web", text: "pool kubernetes", scheme: "light" },
  { name: "services", path: "services?sort=state", text: "failing", scheme: "dark" },
] as const;

await using sandbox = await openSandbox();
for (const name of ["api", "shop", "web"]) await createService(sandbox, name);
await createService(sandbox, "blog", { "service.beta.kubernetes.io/azure-dns-label-name": "-" });
for (const name of ["api", "shop", "web"]) await untilReady(sandbox, name);
const browser = await openBrowser();
try {
  await mkdir(folder, { recursive: true });
  const origin = new URL(sandbox.consoleUrl ?? "").origin;
  for (const { name, path, text, scheme } of shots) {
    const { page } = await watchedPage(browser, origin);
    await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
    await page.setViewport({ width: 1000, height: 560 });
    await page.goto(`${origin}/ui/${path}`);
    await untilText(page, text);
    await untilText(page, "Live");
    await page.screenshot({ path: join(folder, `${name}.png`), optimizeForSpeed: false });
    await page.close();
  }
} finally {
  await browser.close();
}

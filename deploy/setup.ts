/**
 * Installs the packages of the lock file: `bun run setup`, and before each script that needs them. Silent unless it takes
 * long or fails; then it prints what failed, from where and into which folder. It runs before any package is installed.
 */
import { join } from "node:path";

const root = join(import.meta.dir, "..");
const silentMs = 3000;

const registry = process.env["BUN_CONFIG_REGISTRY"] ?? process.env["npm_config_registry"] ?? "the npm registry";
const folder = join(root, "node_modules");

const child = Bun.spawn([process.execPath, "install", "--frozen-lockfile"], {
  cwd: root,
  stdin: "ignore",
  stdout: "ignore",
  stderr: "pipe",
});
const notice = setTimeout(
  () => void process.stderr.write(`Installing packages from ${registry} into ${folder}\n`),
  silentMs,
);
const [output, status] = await Promise.all([child.stderr.text(), child.exited]);
clearTimeout(notice);
if (status !== 0) {
  process.stderr.write(`Error: cannot install packages from ${registry} into ${folder}: ${causeIn(output)}\n`);
  process.exit(1);
}

/** The first error line of the output with the number of further ones: each package fails for the same cause. */
function causeIn(text: string): string {
  const lines = text.split("\n").map((line) => line.replace(/^error: /u, "").trim());
  const causes = lines.filter((line) => /^E[A-Z]{3,}\b|^[A-Z]\w+ downloading|^(failed|no space|lockfile)/iu.test(line));
  const [first = lines.findLast((line) => line !== "") ?? `bun install exited with ${status}`, ...others] = causes;
  return others.length === 0 ? first : `${first} (and ${others.length} more)`;
}

/**
 * What `bun run check` runs: everything that can be said of the code without running it. One line for each check, then
 * the output of those that failed, all together.
 */
import { join } from "node:path";

interface Check {
  readonly name: string;
  readonly command: readonly string[];
  /** Command that fixes it, if one does. */
  readonly remedy?: string;
}

interface Result {
  readonly check: Check;
  readonly passed: boolean;
  readonly output: string;
}

const bun = process.execPath;
const root = join(import.meta.dir, "..");
const colors = process.stdout.isTTY ? { FORCE_COLOR: "1" } : { NO_COLOR: "1" };

const checks: readonly Check[] = [
  { name: "format", command: [bun, "fmt", "--check", "--no-script"], remedy: "bun fmt" },
  { name: "types and walls", command: [bun, "check", "--no-script"] },
  { name: "lint", command: [bun, "--bun", "x", "--no-install", "oxlint", "--type-aware"] },
  { name: "unused code", command: [bun, "--bun", "x", "--no-install", "knip", "--no-config-hints"] },
  { name: "house style", command: [bun, "test", "test/style", "--timeout=120000"] },
];

const results = await Promise.all(checks.map(run));
const failed = results.filter(({ passed }) => !passed);
for (const { check, output } of failed) {
  const remedy = check.remedy === undefined ? "" : ` (to fix: ${check.remedy})`;
  process.stdout.write(`\n── ${check.name}${remedy}\n${output.trim()}\n`);
}
if (failed.length > 0) process.stdout.write(`\n${failed.length} of ${checks.length} checks failed\n`);
process.exitCode = failed.length === 0 ? 0 : 1;

async function run(check: Check): Promise<Result> {
  const begun = performance.now();
  const child = Bun.spawn([...check.command], {
    cwd: root,
    env: { ...process.env, ...colors },
    stdin: "ignore",
    stdout: "pipe",
    stderr: "pipe",
  });
  const [out, err, code] = await Promise.all([child.stdout.text(), child.stderr.text(), child.exited]);
  const seconds = ((performance.now() - begun) / 1000).toFixed(1);
  process.stdout.write(`${code === 0 ? "ok    " : "FAILED"}  ${check.name.padEnd(16)} ${seconds} s\n`);
  return { check, passed: code === 0, output: `${out}\n${err}` };
}

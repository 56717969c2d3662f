#!/usr/bin/env -S bun --no-install
import type { Surroundings } from "./cli/command.ts";
import { holdReload, onSignals } from "./process/signals.ts";

const surroundings: Surroundings = {
  environment: process.env,
  stdout: (text) => void process.stdout.write(text),
  stderr: (text) => void process.stderr.write(text),
  width: process.stdout.columns ?? 100,
};

const [first = "", ...rest] = process.argv.slice(2);

/** Before the imports of a host, which take longest. */
const releaseReload = first === "" || first.startsWith("-") ? holdReload() : undefined;

/** Commands are imported on demand: a production process never loads them. */
async function main(): Promise<number> {
  if (first !== "" && !first.startsWith("-") && !(await Bun.file(`${import.meta.dir}/cli/commands.ts`).exists())) {
    surroundings.stderr(`Error: ${first}: the image has no commands; it takes flags only, see --help\n`);
    return 2;
  }
  // In the image, which has no other commands.
  const [{ runCloudCheck }, { runCommand }] = await Promise.all([
    import("./cli/cloud-checks.ts"),
    import("./cli/command.ts"),
  ]);
  const checked = await runCloudCheck(first, rest, surroundings);
  if (checked !== undefined) return checked;
  if (first !== "" && !first.startsWith("-") && first !== "sandbox") {
    const { runNamedCommand } = await import("./cli/commands.ts");
    return runNamedCommand(first, rest, surroundings);
  }
  if (first !== "sandbox")
    return runCommand(process.argv.slice(2), surroundings, (host) => {
      process.on("unhandledRejection", (error) => host.unhandled(error));
      process.on("uncaughtException", (error) => host.unhandled(error));
      const handling = onSignals({ stop: () => host.stop(), reload: () => host.reload("SIGHUP") });
      if (releaseReload?.()) host.reload("SIGHUP");
      return handling;
    });
  const [{ runSandbox }, { prepareHost }] = await Promise.all([
    import("./sandbox/command.ts"),
    import("./sandbox-host.ts"),
  ]);
  return runSandbox(rest, surroundings, prepareHost);
}

process.exit(await main());

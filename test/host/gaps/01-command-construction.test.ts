import { describe, expect, setDefaultTimeout, spyOn, test } from "bun:test";

import { eventually } from "cloud-controller-host/sdk/testing";

import { runCommand } from "../../../host/cli/command.ts";
import type { RunningHost } from "../../../host/host.ts";
import { SandboxLab } from "../sandbox-lab.ts";

setDefaultTimeout(120_000);

interface Ran {
  readonly status: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs a command in this process, which would not be here any more if the command ended it. */
async function run(argv: readonly string[], started: (host: RunningHost) => void = () => undefined): Promise<Ran> {
  let [stdout, stderr] = ["", ""];
  using silence = new DisposableStack();
  // The log of a host that starts.
  silence.use(spyOn(process.stderr, "write").mockReturnValue(true));
  const status = await runCommand(
    argv,
    { environment: {}, stdout: (text) => (stdout += text), stderr: (text) => (stderr += text), width: 100 },
    (host) => {
      started(host);
      return { [Symbol.dispose]: () => undefined };
    },
  );
  return { status, stdout, stderr };
}

describe("the command is a function from its arguments to an exit status", () => {
  test("answers --help and --version on stdout with 0", async () => {
    expect(await run(["--help"])).toMatchObject({ status: 0, stderr: "" });
    expect(await run(["--version", "--nonesuch-is-still-refused=1"])).toMatchObject({ status: 1 });
    const { status, stdout } = await run(["--version"]);
    expect([status, stdout.trim().split("\n").length]).toEqual([0, 1]);
  });

  test("reports problems on stderr with 1, and starts nothing", async () => {
    let started = 0;
    const { status, stdout, stderr } = await run(["stray", "--nonesuch"], () => started++);
    expect([status, stdout, started]).toEqual([1, "", 0]);
    expect(stderr).toStartWith(
      'Error: 2 problems:\n  - unknown flag: --nonesuch\n  - "cloud-controller-host" does not take any arguments, got ["stray"]\n',
    );
  });

  test("includes the controllers and flags of plugins", async () => {
    await using lab = await SandboxLab.open();
    const flag = await lab.plugin(
      "quota",
      `import { defineController, Type } from "cloud-controller-host/sdk";
       export default defineController({
         name: "quota-controller",
         aliases: ["quota"],
         configSchema: Type.Object({ limit: Type.Integer({ default: 5, description: "How many." }) }),
         construct: () => () => ({ run: async () => undefined }),
       });`,
    );
    const { stdout } = await run([flag, "--help"]);
    expect(stdout).toContain("--quota-controller-limit int");
    const refused = await run([...lab.flags([flag, "--controllers=quota", "--quota-controller-limit=many"])]);
    expect(refused.status).toBe(1);
  });

  test("runs until stopped, and then returns 0", async () => {
    await using lab = await SandboxLab.open();
    let host: RunningHost | undefined;
    const running = run(lab.flags(["--secure-port=0", "--log-format=text", "-v=0"]), (begun) => (host = begun));
    await eventually("it runs", () => host?.status.running === true, 30_000);
    host?.stop();
    expect((await running).status).toBe(0);
  });
});

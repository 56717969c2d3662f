import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { appendFile, mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { kinds } from "cloud-controller-host/sdk";
import { eventually } from "cloud-controller-host/sdk/testing";
import { parse } from "yaml";

setDefaultTimeout(240_000);

const main = join(import.meta.dir, "../../../host/main.ts");

const noFlags: readonly string[] = [];

/** A sandbox in a pseudo-terminal: keys go in, the screen comes out. */
class Terminal implements AsyncDisposable {
  readonly directory: string;
  readonly process: Bun.Subprocess;
  #screen = "";

  constructor(directory: string, { cols = 200, rows = 50, cwd = process.cwd(), flags = noFlags } = {}) {
    this.directory = directory;
    this.process = Bun.spawn(
      [process.execPath, "--no-install", main, "sandbox", `--directory=${directory}`, ...flags],
      {
        cwd,
        terminal: {
          cols,
          rows,
          data: (_terminal, bytes) => void (this.#screen += Buffer.from(bytes).toString()),
        },
      },
    );
  }

  press(key: string): void {
    this.process.terminal?.write(key);
  }

  /** Waits for a line and removes everything up to its end, so that the next wait is for something later. Returns it all. */
  async shows(pattern: RegExp): Promise<string> {
    const match = await eventually(
      `the screen shows ${pattern.source}`,
      () => pattern.exec(this.#screen) ?? undefined,
      60_000,
    ).catch((error: unknown) => {
      throw new Error(this.#screen, { cause: error });
    });
    const end = match.index + match[0].length;
    const shown = this.#screen.slice(0, end);
    this.#screen = this.#screen.slice(end);
    return shown;
  }

  /** What came after the last awaited line. */
  rest(): string {
    return this.#screen;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.process.kill("SIGKILL");
    await this.process.exited;
  }
}

let folder = "";
beforeAll(async () => void (folder = await mkdtemp(join(tmpdir(), "sandbox-terminal-"))));
afterAll(() => rm(folder, { recursive: true, force: true }));

async function run(...argv: readonly string[]): Promise<{ readonly status: number; readonly text: string }> {
  const child = Bun.spawn([process.execPath, "--no-install", main, "sandbox", ...argv], {
    stdout: "pipe",
    stderr: "pipe",
  });
  const [stdout, stderr, status] = await Promise.all([child.stdout.text(), child.stderr.text(), child.exited]);
  return { status, text: stdout + stderr };
}

test("keys and subcommands add, power off, deallocate, start and delete VMs, and the output shows what the controllers do", async () => {
  await using terminal = new Terminal(join(folder, "vms"));
  await terminal.shows(/3 of 3 nodes initialized/);
  await terminal.shows(/Changes:/);

  terminal.press("a");
  await terminal.shows(/Node vmss0000003 registered; waits for the cloud provider/);
  await terminal.shows(/Node vmss0000003 initialized: zone eastus-\d, azure:/);
  await terminal.shows(/Node vmss0000003 address [\d.]+/);

  for (const [key, result] of [
    ["p", /VM vmss0000003 stopped/],
    ["d", /VM vmss0000003 deallocated/],
  ] as const) {
    terminal.press(key);
    await terminal.shows(/Node vmss0000003 Ready=Unknown/);
    await terminal.shows(result);
    await terminal.shows(/Node vmss0000003 tainted node\.cloudprovider\.kubernetes\.io\/shutdown:NoSchedule/);
    const started = await run("vm", "start", "vmss0000003", `--directory=${terminal.directory}`);
    expect(started).toEqual({ status: 0, text: "VM vmss0000003 running\n" });
    await terminal.shows(/Node vmss0000003 no longer tainted node\.cloudprovider\.kubernetes\.io\/shutdown/);
  }

  expect(await run("vm", "add", "mine", `--directory=${terminal.directory}`)).toEqual({
    status: 1,
    text: "Error: the simulated cloud names its VMs itself: leave out the name\n",
  });
  terminal.press("x");
  await terminal.shows(/VM vmss0000003 deleted/);
  // In either order: the event is sent beside the deletion.
  await terminal.shows(
    /Event DeletingNode on Node vmss0000003[^]*Node vmss0000003 deleted|Node vmss0000003 deleted[^]*Event DeletingNode on Node vmss0000003/,
  );
  expect(await run("vm", "delete", "nope", `--directory=${terminal.directory}`)).toEqual({
    status: 1,
    text: 'Error: no VM is called "nope"; the nodes are vmss0000000, vmss0000001, vmss0000002\n',
  });
  terminal.press("q");
  expect(await terminal.process.exited).toBe(0);
});

test("a new node waits while the cloud is throttled or unavailable, and it is initialized when the cloud answers again", async () => {
  await using terminal = new Terminal(join(folder, "cloud"));
  await terminal.shows(/Changes:/);
  for (const { key, state, node, end } of [
    { key: "t", state: /The cloud is throttled for 20 s/, node: "vmss0000003", end: [] },
    { key: "u", state: /The cloud is unavailable for 20 s/, node: "vmss0000004", end: ["cloud", "break", "0"] },
  ]) {
    terminal.press(key);
    await terminal.shows(state);
    terminal.press("a");
    await terminal.shows(new RegExp(`Node ${node} registered; waits for the cloud provider`));
    if (end.length > 0)
      expect((await run(...end, `--directory=${terminal.directory}`)).text).toBe("The cloud answers again\n");
    expect(await terminal.shows(/The cloud answers again/)).not.toContain(`Node ${node} initialized`);
    await terminal.shows(new RegExp(`Node ${node} initialized`));
  }
});

test("a request for a reload and a changed cloud config are reported once, with the generation that runs", async () => {
  await using terminal = new Terminal(join(folder, "reload"));
  await terminal.shows(/Changes:/);
  terminal.press("r");
  await terminal.shows(/Nothing to reload|Reloaded/);
  await appendFile(join(terminal.directory, "cloud-config.yaml"), "# changed\n");
  await terminal.shows(/Generation 2 runs/);
  await appendFile(join(terminal.directory, "cloud-config.yaml"), "vmType: cluster\n");
  await terminal.shows(/Reload refused, generation 2 continues: .*vmType/s);
  terminal.press("r");
  const printed = await terminal.shows(/Reload refused, generation 2 continues/);
  terminal.press("?");
  expect(`${printed}${await terminal.shows(/Keys in this terminal/)}`).not.toContain(
    "the running generation continues",
  );
  terminal.press("q");
  expect(await terminal.process.exited).toBe(0);
});

test("a key that the simulator of the cloud does not offer is refused with the reason, and is not work that fails", async () => {
  const flags = ["--nodes=1", "--", "--plugin-dir=sdk/examples", "--cloud-provider=folder"];
  await using terminal = new Terminal(join(folder, "not-offered"), { flags });
  await terminal.shows(/Changes:/);
  terminal.press("t");
  const printed = await terminal.shows(/Error: cloud throttle: this cloud plugin's simulator does not offer it/);
  expect(printed).not.toContain("Work fails");
});

test("a taint that the controllers remove within milliseconds is printed with its writer", async () => {
  await using terminal = new Terminal(join(folder, "taint"));
  await terminal.shows(/Changes:/);
  const api = await connect(terminal.directory);
  const taints = [{ key: "node.cloudprovider.kubernetes.io/uninitialized", value: "true", effect: "NoSchedule" }];
  await api("PATCH", "/api/v1/nodes/vmss0000001", { spec: { taints } });
  await terminal.shows(/Node vmss0000001 tainted node\.cloudprovider\.kubernetes\.io\/uninitialized/);
  await terminal.shows(/admin: patch nodes vmss0000001/);
  await terminal.shows(/Node vmss0000001 initialized/);
});

test("losing the lease ends the sandbox with status 1 and a message that names the new holder", async () => {
  await using terminal = new Terminal(join(folder, "lease"));
  await terminal.shows(/Changes:/);
  const api = await connect(terminal.directory);
  const { namespaced, group, version, plural } = kinds.Lease;
  expect(namespaced).toBe(true);
  const path = `/apis/${group}/${version}/namespaces/kube-system/${plural}/cloud-controller-manager`;
  const renewTime = new Date().toISOString().replace("Z", "000Z");
  await api("PATCH", path, { spec: { holderIdentity: "thief", leaseDurationSeconds: 3600, renewTime } });
  await terminal.shows(/Error: the host stopped: the lease is now held by thief/);
  expect(await terminal.process.exited).toBe(1);
});

test("a host that refuses its cloud config ends the sandbox with status 1 and the reason", async () => {
  const { status, text } = await run(`--directory=${join(folder, "refused")}`, "--", "--cloud-config=/nowhere");
  expect([status, text]).toEqual([
    1,
    expect.stringContaining("Error: the host stopped: --cloud-config=/nowhere: no such file"),
  ]);
  expect(text).not.toContain("Changes:");
});

/** Sends a merge patch as the user of the sandbox's kubeconfig. */
async function connect(directory: string) {
  const config = parse(await readFile(join(directory, "kubeconfig"), "utf8"));
  const { server, "certificate-authority-data": ca } = config.clusters[0].cluster;
  return async (method: string, path: string, body: object): Promise<void> => {
    const reply = await fetch(`${server}${path}`, {
      method,
      body: JSON.stringify(body),
      headers: {
        authorization: `Bearer ${config.users[0].user.token}`,
        "content-type": "application/merge-patch+json",
      },
      tls: { ca: Buffer.from(ca, "base64").toString() },
    });
    expect(reply.status).toBe(200);
  };
}

test("fits a screen of 80 by 24, answers an unknown key, and ? repeats the addresses and lists the keys", async () => {
  await using terminal = new Terminal(".sandbox", { cols: 80, rows: 24, cwd: folder });
  const start = await terminal.shows(/Changes:/);
  const lines = start.split(/\r?\n/u);
  expect(lines.length).toBeLessThanOrEqual(24);
  expect(lines.filter((line) => line.length > 80)).toEqual([]);
  terminal.press("z");
  await terminal.shows(/Unknown key z; \? lists the keys/);
  terminal.press("?");
  await terminal.shows(/API server +https:/);
  await terminal.shows(/statusz/);
  await terminal.shows(/a {2}vm add/);
  await terminal.shows(/q {2} +stop the sandbox/);
  terminal.press("\u0003");
  await terminal.shows(/Stopping/);
  expect(await terminal.process.exited).toBe(0);
});

test("ignores a pasted command, arrow keys, and what is typed for the shell after q", async () => {
  await using terminal = new Terminal(join(folder, "paste"));
  await terminal.shows(/Changes:/);
  terminal.press("kubectl get pods -A\r");
  await terminal.shows(/Pasted text is ignored: type commands in another terminal; \? lists the keys/);
  terminal.press("\u001b[A");
  terminal.press("\u001bOPz");
  const shown = await terminal.shows(/Unknown key ./);
  expect(shown).toEndWith("Unknown key z");
  expect(shown).not.toContain("VM ");
  terminal.press("q");
  await terminal.shows(/Stopping/);
  for (const key of ["a", "t"]) terminal.press(key);
  expect(await terminal.process.exited).toBe(0);
  expect(terminal.rest()).not.toMatch(/VM |throttled/);
});

/** What `--check` prints with a third-party plugin of that source. */
async function checkWith(name: string, source: string, ...options: readonly string[]): ReturnType<typeof run> {
  const plugins = join(folder, `${name}-plugins`);
  await Bun.write(join(plugins, name, "plugin.ts"), source);
  return run("--check", ...options, "--", `--plugin-dir=${plugins}`, "--secure-port=0");
}

test("--check ends with 1 and the reason when a plugin is left out", async () => {
  const { status, text } = await checkWith("broken", 'throw new Error("no prices today");\n');
  expect(text).toMatch(/\u2713 .*changed config swapped in[^]*\u2717 Plugin left out: .*broken: .*no prices today/);
  expect(status).toBe(1);
});

test("--check ends with 1 and the reason as soon as the host has stopped", async () => {
  const began = performance.now();
  const { status, text } = await checkWith(
    "demanding",
    `import { defineController, Type } from "cloud-controller-host/sdk";
     const configSchema = Type.Object({ size: Type.Integer({ description: "Size." }) });
     export default defineController({ name: "demanding-controller", configSchema, construct: () => () => ({}) });`,
  );
  expect(performance.now() - began).toBeLessThan(28_000);
  expect(text.match(/\u2717.*/g)).toEqual([
    "\u2717 The host stopped: the configuration is refused: --demanding-controller-size: required, but not set",
  ]);
  expect(status).toBe(1);
});

test("--check ends with 1 and the reason when the run of a controller fails, though every step succeeds", async () => {
  const { status, text } = await checkWith(
    "failing",
    `import { defineController } from "cloud-controller-host/sdk";
     const run = async () => { throw new Error("no prices today"); };
     export default defineController({ name: "failing-controller", construct: () => () => ({ run }) });`,
  );
  expect(text).toMatch(/\u2713 .*changed config swapped in/);
  expect(text.match(/\u2717.*/g)).toEqual([
    expect.stringMatching(/^\u2717 Controller failed: failing-controller of generation \d: no prices today/),
  ]);
  expect(status).toBe(1);
});

test("--check ends with 1 and the name of a controller that does not return, though the next generation runs without it", async () => {
  const name = "endless-controller";
  const plugins = join(folder, "endless-plugins");
  await Bun.write(
    join(plugins, "endless", "plugin.ts"),
    `import { defineController } from "cloud-controller-host/sdk";
     const run = () => new Promise(() => undefined);
     export default defineController({ name: "${name}", construct: () => () => ({ run }) });`,
  );
  const flags = [`--plugin-dir=${plugins}`, "--secure-port=0", "--generation-drain-timeout=2s"];
  const { status, text } = await run("--check", "--", ...flags);
  expect(text).toMatch(/\u2713 .*changed config swapped in/);
  expect(text.match(/\u2717.*/g)).toEqual([
    `\u2717 ${name} of generation 1 did not return within 2 s (--generation-drain-timeout)`,
  ]);
  expect(status).toBe(1);
});

test("--check ends with 1 and the place of an error that a plugin does not handle, which the log has as in a host", async () => {
  const directory = join(folder, "careless");
  const { status, text } = await checkWith(
    "careless",
    `import { defineController } from "cloud-controller-host/sdk";
     const stopped = (signal) => new Promise((resolve) => signal.addEventListener("abort", resolve));
     const forget = async () => { throw new Error("no prices today"); };
     export default defineController({
       name: "careless",
       construct: () => () => ({ run: (signal) => (void forget(), stopped(signal)) }),
     });`,
    `--directory=${directory}`,
  );
  expect(text).toMatch(/\u2713 .*changed config swapped in/);
  expect(text.match(/(?:\u2717|error:).*/g)).toEqual([
    expect.stringMatching(/^\u2717 Work failed: unhandled error: no prices today at .*careless\/plugin\.ts:3:\d+$/),
  ]);
  expect(status).toBe(1);
  expect(await readFile(join(directory, "host.log"), "utf8")).toMatch(/"Unhandled error" plugin="careless" /);
});

test("--check ends with 1 and the error when the work of a controller fails, though it is tried again", async () => {
  const { status, text } = await checkWith(
    "misspelled",
    `import { defineController, keyOf, kinds } from "cloud-controller-host/sdk";
     let attempts = 0;
     export default defineController({
       name: "misspelled",
       permissions: [{ apiGroup: "", resources: ["nodes"], verbs: ["list", "watch"] }],
       construct: () => (context) => {
         const queue = context.workqueue("misspelled");
         context.informers.of(kinds.Node).handle({ added: (node) => queue.add(keyOf(node)) });
         queue.add("recovers");
         const sync = async (key) => {
           if (key !== "recovers") context.logg.info("Node", { key });
           attempts += 1;
           if (attempts === 1) throw new Error("a conflict");
         };
         return { run: (signal) => queue.process({ workers: 1, signal, sync }) };
       },
     });`,
  );
  expect(text).toMatch(/\u2713 .*changed config swapped in/);
  expect(text.match(/\u2717.*/g)).toEqual([
    expect.stringMatching(
      /^\u2717 Work failed: misspelled cannot sync "vmss\d+" and 2 more: undefined is not an object \(evaluating 'context\.logg\.info'\) at .*plugin\.ts:\d+/,
    ),
  ]);
  expect(status).toBe(1);
});

test("names the cloud config that a flag names, not its own", async () => {
  const first = join(folder, "other-config");
  await using one = new Terminal(first);
  await one.shows(/Changes/);
  const config = join(first, "cloud-config.yaml");
  await using two = new Terminal(join(folder, "with-flag"), { flags: ["--nodes=0", "--", `--cloud-config=${config}`] });
  const start = await two.shows(/Changes/);
  expect(start).toContain(`Cloud       the one that ${config} names`);
  expect(start).toContain(`Edit ${config}: `);
  expect(start).not.toContain(join(folder, "with-flag", "cloud-config.yaml"));
});

test("a sandbox ends cleanly when its terminal is closed, also while it prints", async () => {
  const directory = join(folder, "closed");
  await using terminal = new Terminal(directory);
  await terminal.shows(/Changes:/);
  terminal.press("?".repeat(200));
  await terminal.shows(/Keys in this terminal/);
  terminal.process.terminal?.close();
  expect(await Promise.race([terminal.process.exited, Bun.sleep(20_000)])).toBe(0);
  const log = await readFile(join(directory, "host.log"), "utf8");
  expect(log).toContain('"Shutdown phase completed" phase="Removing private copies of plugins"');
  expect(log).not.toContain('trigger="SIGHUP"');
});

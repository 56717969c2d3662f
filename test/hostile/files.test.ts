import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { eventually } from "cloud-controller-host/sdk/testing";

import { readBounded } from "../../host/kube/connection/bounded-text.ts";
import { SandboxLab } from "../host/sandbox-lab.ts";

setDefaultTimeout(120_000);

let lab: SandboxLab;
let folder = "";
let pipe = "";
beforeAll(async () => {
  lab = await SandboxLab.open();
  folder = await mkdtemp(join(tmpdir(), "files-"));
  pipe = join(folder, "pipe");
  expect(await Bun.spawn(["mkfifo", pipe]).exited).toBe(0);
});
afterAll(async () => {
  await lab[Symbol.asyncDispose]();
  await rm(folder, { recursive: true });
});

const source = (path: string): string => JSON.stringify(join(import.meta.dir, "../../host", path));
/** A process that wants more memory than this gets an error of the system, not all memory of the machine. */
const limited = ["bash", "-c", 'ulimit -d 3000000 && exec "$0" "$@"', process.execPath];

/** Starts a host whose log must name a flag together with a reason. */
async function expectRefusal(flags: readonly string[], flag: string, reason: string): Promise<void> {
  await using host = lab.start({ flags, program: [...limited, join(import.meta.dir, "../../host/main.ts")] });
  const refused = (): boolean => host.stderr.split("\n").some((line) => line.includes(flag) && line.includes(reason));
  await eventually("it is refused", refused, 40_000).catch(() => expect(host.stderr).toContain(`${flag} ${reason}`));
}

const plugin = (): Promise<string> => lab.plugin("quiet", "export default {};");

/** Flags that name a file, and how each is refused where that has no end. */
const endless: readonly (readonly [string, (path: string) => Promise<readonly string[]>, string])[] = [
  ["cloud config", async (path) => [`--cloud-config=${path}`], "--cloud-config="],
  [
    "migration config",
    async (path) => ["--enable-leader-migration", `--leader-migration-config=${path}`],
    "--leader-migration-config=",
  ],
  ["plugin lock", async (path) => [await plugin(), `--plugin-lock=${path}`], "--plugin-lock="],
  ["client CA", async (path) => [`--client-ca-file=${path}`], "--client-ca-file"],
];

describe.each([
  ["/dev/zero", () => "/dev/zero"],
  ["a pipe without a writer", () => pipe],
])("%s", (name, path) => {
  test.each(endless)(
    `${name} as the %s is refused at the start, within bounds of time and memory`,
    async (_, flags, flag) => {
      await expectRefusal(await flags(path()), flag, "a pipe, a socket or a device; name a regular file");
    },
  );
});

test("/dev/zero as the kubeconfig is refused at the start, within bounds of time and memory", () =>
  expectRefusal(["--kubeconfig=/dev/zero"], "--kubeconfig=/dev/zero", "/dev/zero has more than 16777216 bytes"));

test("a kubeconfig may be a pipe that is written slowly, and one that is never written to its end is refused in time", async () => {
  await using writer = Bun.spawn(["bash", "-c", 'for word in a b ü; do sleep 0.1; printf "$word"; done > "$0"', pipe]);
  expect(readBounded(pipe)).toBe("abü");
  await writer.exited;
  const unwritten = `${pipe} was not written to its end within 0.1 s`;
  expect(() => readBounded(pipe, { waitMs: 100 })).toThrow(unwritten);
  await using holder = Bun.spawn(["bash", "-c", 'exec 3<>"$0"; printf "first" >&3; read -r', pipe], { stdin: "pipe" });
  expect(() => readBounded(pipe, { waitMs: 500 })).toThrow("was not written to its end within 0.5 s");
  holder.kill();
});

/** Nine lists, mappings or merges of nine aliases each: expanded, 9⁹ of the innermost. */
const shapes: Readonly<Record<string, (previous: string | undefined) => string>> = {
  lists: (previous = "lol") => `[${Array.from({ length: 9 }, () => previous).join(", ")}]`,
  mappings: (previous = "lol") => `{${Array.from({ length: 9 }, (_, at) => `k${at}: ${previous}`).join(", ")}}`,
  merges: (previous = "{x: 1}") => `{<<: [${Array.from({ length: 9 }, () => previous).join(", ")}]}`,
  keys: (previous = "lol") => `{${Array.from({ length: 9 }, (_, at) => `? [${at}, ${previous}] : 1`).join(", ")}}`,
};
const laughs = (shape: (previous: string | undefined) => string): string =>
  Array.from({ length: 10 }, (_, at) => `a${at}: &a${at} ${shape(at === 0 ? undefined : `*a${at - 1}`)}\n`).join("");

const parsers: readonly (readonly [string, string])[] = [
  [
    "cloud config",
    `(await import(${source("generation/triggers/cloud-config.ts")})).parseCloudConfig(await Bun.file(file).text(), file)`,
  ],
  [
    "migration config",
    `(await import(${source("config/parse/migration-config.ts")})).decodeMigration(await Bun.file(file).text(), file)`,
  ],
  ["kubeconfig", `(await import(${source("kube/connection/api-server.ts")})).loadApiServer({ kubeconfig: file })`],
];

describe.each(Object.entries(shapes))("%s of YAML aliases", (name, shape) => {
  test.each(parsers)(`${name} of YAML aliases that expand to gigabytes are refused in a %s`, async (_, parse) => {
    const file = join(folder, `${name}.yaml`);
    await writeFile(file, laughs(shape));
    const script = `
      const file = ${JSON.stringify(file)};
      try { console.log(JSON.stringify(${parse})); } catch (error) { console.log(error.message); }
      console.log(await Bun.file("/proc/self/status").text());`;
    await using child = Bun.spawn([...limited, "-e", script], { stdout: "pipe", timeout: 20_000 });
    const text = await child.stdout.text();
    expect(text).toMatch(/an alias in it cannot be resolved|Excessive alias count/u);
    // The resource usage of a process begins with the peak of the one that started it.
    expect(Number(/VmHWM:\s+(\d+) kB/u.exec(text)?.[1])).toBeLessThan(300 * 1024);
  });
});

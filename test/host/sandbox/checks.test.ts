import { expect, setDefaultTimeout, test } from "bun:test";
import { mkdir, mkdtempDisposable, readFile, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { kinds, type Lease } from "cloud-controller-host/sdk";
import { eventually } from "cloud-controller-host/sdk/testing";

import { systemClock } from "../../../host/async/clock.ts";
import { openSandbox } from "../../../host/sandbox-host.ts";
import { allChecks, runChecks, unfinishedDrain } from "../../../host/sandbox/checks.ts";

setDefaultTimeout(120_000);

const lease = { namespace: "kube-system", name: "cloud-controller-manager" } as const;

test("a changed config counts as swapped in only while the lease has the holder, the transitions and the acquire time of before", async () => {
  await using sandbox = await openSandbox({ nodes: 0, flags: ["--secure-port=0", "--controllers=cloud-node"] });
  const [leads, check] = [allChecks(sandbox)[0], allChecks(sandbox).at(-1)];
  await eventually("it leads", () => leads?.result() !== undefined, 60_000);
  await eventually("it runs", () => sandbox.host.status.running, 60_000);
  await check?.begin?.();
  await eventually("it is swapped in", () => check?.result() !== undefined, 60_000);
  const { spec } = sandbox.api.get(kinds.Lease, lease) ?? {};
  const resultWith = (change: Lease["spec"]): string | undefined => {
    sandbox.api.update(kinds.Lease, lease, (held) => ({ ...held, spec: { ...spec, ...change } }));
    return check?.result();
  };
  expect(resultWith({})).toContain("same lease");
  expect(resultWith({ holderIdentity: "another" })).toBeUndefined();
  expect(resultWith({ leaseTransitions: 9 })).toBeUndefined();
  expect(resultWith({ acquireTime: "2026-01-01T00:00:00.000000Z" })).toBeUndefined();
  expect(resultWith({})).toContain("same lease");
});

test("the check changes no cloud config of the user's own, and does not wait for a reload of it", async () => {
  await using own = await mkdtempDisposable(join(tmpdir(), "own-config-"));
  const plugins = join(own.path, "plugins");
  await mkdir(join(plugins, "listed"), { recursive: true });
  const source = `import { decode, defineCloud, Type } from "cloud-controller-host/sdk";
    const configSchema = Type.Object({});
    export default defineCloud({
      name: "listed",
      configSchema,
      decode: (document) => decode(configSchema, document),
      create: async () => ({ name: "listed", hasClusterID: true, [Symbol.asyncDispose]: async () => undefined }),
    });`;
  await writeFile(join(plugins, "listed", "plugin.ts"), source);
  const config = join(own.path, "cloud.json");
  await writeFile(config, "{}");
  const flags = [`--plugin-dir=${plugins}`, "--cloud-provider=listed", `--cloud-config=${config}`, "--secure-port=0"];
  await using sandbox = await openSandbox({ flags });
  const lines: string[] = [];
  const print = (line: string): void => void lines.push(line.replace(/^.*ms {2}/u, ""));
  const options = { print, clock: systemClock, timeoutMs: 30_000, hint: "" };
  expect(await runChecks(allChecks(sandbox), options)).toBe(true);
  expect(lines).toEqual([expect.stringMatching(/^lease held: by /u)]);
  expect(await readFile(config, "utf8")).toBe("{}");
});

test("the controllers that a drain waits for, or has given up on, are named", () => {
  const overdue = { at: "2026-01-01T00:00:00.000Z", reason: "b of generation 1 did not return within 30 s" };
  expect(unfinishedDrain({ waitingFor: [], lastOverdueDrain: undefined })).toBeUndefined();
  expect(unfinishedDrain({ waitingFor: [], lastOverdueDrain: overdue })).toBe(overdue.reason);
  expect(unfinishedDrain({ waitingFor: ["a", "b"], lastOverdueDrain: undefined })).toBe(
    "Waiting for a, b to return; no controller runs meanwhile",
  );
});

import { expect, setDefaultTimeout, test } from "bun:test";
import { join } from "node:path";

setDefaultTimeout(120_000);

const main = join(import.meta.dir, "..", "..", "host", "main.ts");

/** Runs a command that prints about 200 kB, three times what a pipe holds, into a reader. */
async function printInto(reader: string) {
  const namespace = `--leader-elect-resource-namespace=${"x".repeat(100_000)}`;
  const script = `{ "$@"; echo "status $?" >&2; } | ${reader}`;
  const command = ["sh", "-c", script, "sh", process.execPath, main, "rbac", namespace];
  const child = Bun.spawn(command, { stdout: "pipe", stderr: "pipe", timeout: 50_000 });
  const [read, status] = await Promise.all([child.stdout.text(), child.stderr.text()]);
  return { read, status: status.trim() };
}

test("prints to the end before it exits, however late a pipe is read", async () => {
  const { read, status } = await printInto("(sleep 4; cat)");
  expect(read.length).toBeGreaterThan(200_000);
  expect(read).toEndWith("\n");
  expect(status).toBe("status 0");
});

test("exits with its status when a pipe is closed before its end", async () => {
  expect(await printInto("head -c 10")).toEqual({ read: expect.stringMatching(/^.{10}$/su), status: "status 0" });
});

test("fails when its output cannot be written", async () => {
  const namespace = "--leader-elect-resource-namespace=cloud";
  const command = ["sh", "-c", 'exec "$@" >/dev/full', "sh", process.execPath, main, "rbac", namespace];
  const child = Bun.spawn(command, { stderr: "pipe", timeout: 50_000 });
  const [complaint, status] = await Promise.all([child.stderr.text(), child.exited]);
  expect(complaint).toBe("Error: cannot write the output: ENOSPC: no space left on device, write\n");
  expect(status).toBe(1);
});

test("exits with its status when its terminal is closed and it prints on", async () => {
  const printed = Promise.withResolvers<void>();
  // The signal of a closed terminal would end it.
  const script = `trap '' HUP; exec "$0" "$@"`;
  const child = Bun.spawn(["sh", "-c", script, process.execPath, main, "sandbox", "--check"], {
    terminal: { data: () => printed.resolve() },
  });
  try {
    await printed.promise;
    child.terminal?.close();
    expect(await Promise.race([child.exited, Bun.sleep(50_000)])).toBe(0);
  } finally {
    child.kill("SIGKILL");
  }
});

import { describe, expect, test } from "bun:test";

import { holdReload } from "../../../host/process/signals.ts";

const script = `
  const { onSignals } = await import(${JSON.stringify(require.resolve("../../../host/process/signals.ts"))});
  const listening = onSignals({ stop: () => console.log("stop"), reload: () => console.log("reload") });
  process.stdin.once("data", () => { listening[Symbol.dispose](); process.stdin.pause(); });
  console.log("ready");
`;

interface Child {
  readonly process: Bun.Subprocess<"pipe", "pipe", "inherit">;
  /** The next line that it prints. */
  readonly line: () => Promise<string>;
}

function start(): Child {
  const child = Bun.spawn([process.execPath, "-e", script], { stdin: "pipe", stdout: "pipe", stderr: "inherit" });
  const lines = (async function* () {
    let text = "";
    for await (const chunk of child.stdout.pipeThrough(new TextDecoderStream())) {
      const parts = (text + chunk).split("\n");
      text = parts.pop() ?? "";
      yield* parts;
    }
  })();
  return { process: child, line: async () => (await lines.next()).value ?? "" };
}

describe("signals", () => {
  test("SIGHUP reloads, the first SIGTERM stops, the second exits at once with 143", async () => {
    const { process: child, line } = start();
    expect(await line()).toBe("ready");
    child.kill("SIGHUP");
    expect(await line()).toBe("reload");
    child.kill("SIGTERM");
    expect(await line()).toBe("stop");
    child.kill("SIGTERM");
    expect(await child.exited).toBe(143);
  });

  test("SIGINT after SIGTERM ends the process with 130", async () => {
    const { process: child, line } = start();
    await line();
    child.kill("SIGTERM");
    await line();
    child.kill("SIGINT");
    expect(await child.exited).toBe(130);
  });

  test("have no listener once disposed", async () => {
    const { process: child, line } = start();
    await line();
    await child.stdin.write("x");
    await child.stdin.end();
    expect(await child.exited).toBe(0);
  });
});

test("a SIGHUP is held back until the host can reload, and no longer", () => {
  const listeners = process.listenerCount("SIGHUP");
  const [without, withOne] = [holdReload(), holdReload()];
  expect(process.listenerCount("SIGHUP")).toBe(listeners + 2);
  expect(without()).toBe(false);
  process.emit("SIGHUP", "SIGHUP");
  expect([withOne(), without()]).toEqual([true, false]);
  expect(process.listenerCount("SIGHUP")).toBe(listeners);
});

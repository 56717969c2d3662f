import { expect, test } from "bun:test";
import { appendFile, mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";

import { defineController, RetryAfterError } from "cloud-controller-host/sdk";
import { eventually } from "cloud-controller-host/sdk/testing";

import { openSandbox } from "../../../host/sandbox-host.ts";
import { temporaryDirectory } from "../../../host/sandbox/directory.ts";
import { FailingWork } from "../../../host/sandbox/failing-work.ts";
import { controllerHarness } from "../../../host/sandbox/testing/harness.ts";
import { printChanges } from "../../../host/sandbox/watch-output.ts";

/** Runs a watched controller with such a queue until what is reported holds, and returns the lines after it has stopped. */
async function linesOf(
  keys: readonly string[],
  sync: (key: string, signal: AbortSignal) => Promise<void>,
  isDone: (work: FailingWork) => boolean,
): Promise<readonly string[]> {
  const plugin = defineController({
    name: "one-controller",
    construct: () => (context) => ({
      run: async (signal) => {
        const queue = context.workqueue("one", { limits: [{ type: "exponential", baseMs: 1, maxMs: 1 }] });
        for (const key of keys) queue.add(key);
        await queue.process({ workers: 1, signal, sync: (key) => sync(key, signal) });
      },
    }),
  });
  const work = new FailingWork();
  await using world = await controllerHarness().open(plugin);
  await using generation = world.generation(plugin);
  const bound = work.watch(plugin, () => " at plugin.ts:1:1").bind(undefined);
  if (!bound.ok) throw new Error("it cannot be bound");
  const cloud = { name: "none", hasClusterID: true, [Symbol.asyncDispose]: () => Promise.resolve() };
  const controller = await bound.value(world.config, cloud)(generation.context);
  if (!("run" in controller)) throw new Error("it is skipped");
  const stop = new AbortController();
  const run = controller.run(stop.signal);
  await eventually("the condition holds", () => isDone(work));
  stop.abort();
  await run;
  return work.lines;
}

const failing = (message: string) => () => Promise.reject(new Error(message));

test("keys that fail with the same error share a line, with the first key and the place in the plugin", async () => {
  let attempts = 0;
  const sync = (): Promise<void> => ((attempts += 1), failing("no prices today")());
  expect(await linesOf(["a", "b", "c"], sync, () => attempts > 5)).toEqual([
    'one-controller cannot sync "a" and 2 more: no prices today at plugin.ts:1:1',
  ]);
});

test("an error that no code has handled stays a line of its own, once per message and place, of a limited number", () => {
  const work = new FailingWork();
  for (const _ of [1, 2]) work.unhandled(new Error("no prices today"), () => " at plugin.ts:1:1");
  expect(work.isEmpty).toBe(false);
  expect(work.lines).toEqual(["unhandled error: no prices today at plugin.ts:1:1"]);
  for (let index = 0; index < 100; index++) work.unhandled(new Error(`error ${index}`), () => "");
  expect(work.lines).toHaveLength(20);
});

test("a watched controller reports the problems of its options", () => {
  const plugin = defineController({ name: "one-controller", construct: () => () => ({ run: async () => undefined }) });
  const refused = { ok: false, problems: ["--one is not a number"] } as const;
  const watched = new FailingWork().watch({ ...plugin, bind: () => refused }, () => "");
  expect(watched.bind(undefined)).toBe(refused);
});

test("a key that has succeeded after its failure is no failing work", async () => {
  let attempts = 0;
  const sync = (): Promise<void> => (attempts++ === 0 ? failing("a conflict")() : Promise.resolve());
  expect(await linesOf(["a"], sync, (work) => attempts === 2 && work.isEmpty)).toEqual([]);
});

test("a key that asks to be tried again later is no failing work", async () => {
  let attempts = 0;
  const later = (): Promise<void> =>
    Promise.reject(new Error("step", { cause: new RetryAfterError(1, `not yet ${(attempts += 1)}`) }));
  expect(await linesOf(["a"], later, () => attempts > 2)).toEqual([]);
});

test("a key that is interrupted by the stop of its controller is no failing work, and one that failed before is", async () => {
  let attempts = 0;
  const interrupted = async (key: string, signal: AbortSignal): Promise<void> => {
    attempts += 1;
    if (key === "failed") throw new DOMException("its own request was aborted", "AbortError");
    await new Promise((resolve) => {
      signal.addEventListener("abort", resolve, { once: true });
    });
    signal.throwIfAborted();
  };
  expect(await linesOf(["failed", "stopped"], interrupted, () => attempts > 1)).toEqual([
    'one-controller cannot sync "failed": its own request was aborted at plugin.ts:1:1',
  ]);
});

test("an error and a key of a plugin are printed in one line of bounded length that does not control the terminal", async () => {
  const error = `\u001B[2J\u0007first\nsecond\u202E ${"x".repeat(1_000_000)}`;
  const [line = "", ...others] = await linesOf(["a\u001B[31m\nb"], failing(error), (work) => !work.isEmpty);
  expect(others).toEqual([]);
  expect(line).toStartWith(
    String.raw`one-controller cannot sync "a\u{001b}[31m b": \u{001b}[2J\u{0007}first second\u{202e} xxx`,
  );
  expect(line).toEndWith("more characters) at plugin.ts:1:1");
  expect(line.length).toBeLessThan(2_500);
});

test.each([
  [20, "key-19"],
  [21, "and 1 more errors"],
  [1_000, "and 980 more errors"],
])("twenty of %d errors have a line, and the others their number", async (count, last) => {
  const keys = Array.from({ length: count }, (_, index) => `key-${index}`);
  let attempts = 0;
  const sync = (key: string): Promise<void> => ((attempts += 1), failing(`no ${key}`)());
  const lines = await linesOf(keys, sync, () => attempts >= keys.length);
  expect(lines).toHaveLength(count > 20 ? 21 : 20);
  expect(lines[0]).toBe('one-controller cannot sync "key-0": no key-0 at plugin.ts:1:1');
  expect(lines.at(-1)).toContain(last);
});

test("a sandbox knows and prints the work of a third-party controller that fails, from the start and after a reload", async () => {
  await using folder = await temporaryDirectory();
  const plugins = join(folder.path, "plugins");
  await mkdir(join(plugins, "prices"), { recursive: true });
  const write = (problem: string): Promise<void> =>
    writeFile(
      join(plugins, "prices", "plugin.ts"),
      `import { defineController } from "cloud-controller-host/sdk";
       const sync = async () => { throw new Error("${problem}"); };
       export default defineController({ name: "prices", construct: () => (context) => {
         const queue = context.workqueue("prices");
         queue.add("one");
         return { run: (signal) => queue.process({ workers: 1, signal, sync }) };
       } });`,
    );
  await write("no prices today");
  const flags = [`--plugin-dir=${plugins}`, "--secure-port=0", "--controllers=prices"];
  await using sandbox = await openSandbox({ nodes: 0, flags });
  const printed: string[] = [];
  using _ = printChanges(sandbox, (line) => void printed.push(line));
  const shows = (problem: string) => () => sandbox.failingWork.lines.join().includes(problem);
  await eventually("the failure is known", shows("no prices today"), 60_000);
  await write("no prices any more");
  await appendFile(sandbox.files.cloudConfig, "# changed\n");
  await eventually("the failure after the reload is known", shows("no prices any more"), 60_000);
  const failure = 'Work fails: prices cannot sync "one": no prices any more at ';
  await eventually("it is printed", () => printed.some((line) => line.startsWith(failure)), 60_000);
}, 120_000);

import { expect, setDefaultTimeout, test } from "bun:test";
import { mkdtempDisposable, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

import { systemClock } from "../../../host/async/clock.ts";
import { inThread } from "../../../host/async/in-thread.ts";
import { rejection } from "../../kit/rejection.ts";

setDefaultTimeout(30_000);

async function run(source: string, limitMs = 20_000): Promise<unknown> {
  await using folder = await mkdtempDisposable(join(tmpdir(), "in-thread-"));
  const path = join(folder.path, "thread.ts");
  await writeFile(path, `import { parentPort, workerData } from "node:worker_threads";\n${source}`);
  return await inThread({ entry: pathToFileURL(path), name: "doubles", data: { number: 21 }, limitMs }, systemClock);
}

test("a thread is given data, and its message is the answer", async () => {
  expect(await run("parentPort.postMessage({ double: 2 * workerData.number })")).toEqual({ double: 42 });
});

test("a thread that has answered is ended, whatever it still does", async () => {
  await using folder = await mkdtempDisposable(join(tmpdir(), "in-thread-"));
  const beats = JSON.stringify(join(folder.path, "beats"));
  await run(`import { appendFileSync } from "node:fs";
    setInterval(() => appendFileSync(${beats}, "."), 5);
    parentPort.postMessage(0);`);
  await Bun.sleep(200);
  const size = Bun.file(join(folder.path, "beats")).size;
  await Bun.sleep(200);
  expect(Bun.file(join(folder.path, "beats")).size).toBe(size);
});

test.each([
  ["throws", 'throw new Error("no randomness");', "no randomness"],
  ["ends without an answer", "", 'the thread "doubles" exited without a reply'],
])("a thread that %s is an error", async (_, source, problem) => {
  expect(await rejection(run(source))).toContain(problem);
});

test("a thread that does not answer in time is an error, which names it", async () => {
  expect(await rejection(run("setInterval(() => undefined, 1000);", 300))).toBe(
    'the thread "doubles" has not answered in 0.3 s',
  );
});

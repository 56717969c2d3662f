import { afterEach, describe, expect, test } from "bun:test";
import { appendFileSync } from "node:fs";
import { mkdir, mkdtemp, realpath, rename, rm, symlink, unlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import type { Clock } from "cloud-controller-host/sdk";
import { eventually, manualClock } from "cloud-controller-host/sdk/testing";

import { systemClock } from "../../../../host/async/clock.ts";
import { hashOf } from "../../../../host/generation/triggers/cloud-config.ts";
import { fileSource } from "../../../../host/generation/triggers/config-source.ts";
import {
  type Content,
  readOnce,
  settledContent,
  watchContent,
} from "../../../../host/generation/triggers/content-trigger.ts";
import { Triggers } from "../../../../host/generation/triggers/triggers.ts";
import { watchPath } from "../../../../host/generation/triggers/watch-path.ts";
import { createLogger } from "../../../../host/process/log/log.ts";

const log = createLogger({ format: "json", verbosity: 0, write: () => undefined });
const cleanups: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).toReversed()) await cleanup();
});

async function folder(): Promise<string> {
  const path = await realpath(await mkdtemp(join(tmpdir(), "content-trigger-")));
  cleanups.push(() => rm(path, { recursive: true, force: true }));
  return path;
}

/** How often a trigger reads without a hint. */
const pollMs = 5_000;
/** The pause between the two reads that must agree. */
const settleMs = 250;

/** The system clock, except that a trigger polls as often as this. */
const polling = (everyMs: number): Clock => ({
  ...systemClock,
  sleep: (ms, signal) => systemClock.sleep(ms === pollMs ? everyMs : ms, signal),
});
/** Without polls, whatever a trigger notices was hinted at by its watch. */
const unpolled = polling(3_600_000);

/** Watches a file and collects the reported content. */
function watching(path: string, known: string, clock: Clock = unpolled): readonly Content[] {
  const seen: Content[] = [];
  const stop = new AbortController();
  const ended = watchContent(
    {
      source: fileSource(path),
      clock,
      log,
      known: hashOf(known),
      changed: (content) => seen.push(content),
    },
    stop.signal,
  );
  cleanups.push(async () => {
    stop.abort();
    await ended;
  });
  return seen;
}

/** Long enough for the trigger to have settled twice over. */
const quiet = (): Promise<void> => Bun.sleep(900);
/** A watch that never hints. */
const silent = { watch: () => ({ close: () => undefined, rearm: () => undefined }) };
const texts = (seen: readonly Content[]): readonly string[] =>
  seen.map((content) => ("text" in content ? content.text : "unreadable"));

describe("a change of the cloud config's content", () => {
  test("triggers once for a truncate followed by a write, as by cp", async () => {
    const path = join(await folder(), "config.yaml");
    await writeFile(path, "one");
    const clock = manualClock();
    let pause = 0;
    const noted: Clock = {
      ...clock,
      sleep: (ms, signal) => clock.sleep((pause = ms), signal).then(() => void (pause = 0)),
    };
    const seen = watching(path, "one", noted);
    const pauses = (): Promise<unknown> => eventually("it pauses between two reads", () => pause === settleMs);
    await eventually("it waits for a hint", () => pause === pollMs);
    await writeFile(path, "");
    await pauses();
    await writeFile(path, "two");
    while (seen.length === 0) {
      await clock.advance(settleMs);
      await eventually("it pauses or has settled", () => pause > 0);
    }
    await clock.advance(2 * pollMs);
    expect(texts(seen)).toEqual(["two"]);
  });

  test("triggers once for each atomic rename over the file", async () => {
    const path = join(await folder(), "config.yaml");
    await writeFile(path, "0");
    const seen = watching(path, "0");
    for (const text of ["1", "2", "3"]) {
      await writeFile(`${path}.new`, text);
      await rename(`${path}.new`, path);
      await eventually(`content ${text} is reported`, () => texts(seen).at(-1) === text);
    }
    await quiet();
    expect(texts(seen)).toEqual(["1", "2", "3"]);
  });

  test("triggers once for the swap of a volume's ..data link", async () => {
    const root = await folder();
    const path = join(root, "config.yaml");
    for (const version of ["v1", "v2", "v3"]) {
      await mkdir(join(root, `..${version}`));
      await writeFile(join(root, `..${version}`, "config.yaml"), version);
    }
    await symlink("..v1", join(root, "..data"));
    await symlink("..data/config.yaml", path);
    const seen = watching(path, "v1");
    for (const version of ["v2", "v3"]) {
      await symlink(`..${version}`, join(root, "..data_tmp"));
      await rename(join(root, "..data_tmp"), join(root, "..data"));
      await eventually(`${version} is reported`, () => texts(seen).at(-1) === version);
    }
    expect(texts(seen)).toEqual(["v2", "v3"]);
  });

  test("triggers when the file is deleted and recreated, and the watch continues", async () => {
    const path = join(await folder(), "config.yaml");
    await writeFile(path, "one");
    const seen = watching(path, "one");
    await rename(path, `${path}~`);
    await Bun.sleep(60);
    await writeFile(path, "two");
    await eventually("the new content is reported", () => texts(seen).includes("two"));
    await unlink(path);
    await eventually("the missing file is reported", () => texts(seen).at(-1) === "unreadable");
    await writeFile(path, "three");
    await eventually("the file's return is reported", () => texts(seen).at(-1) === "three");
  });

  test("triggers through a symlink into another folder", async () => {
    const [outer, inner] = [await folder(), await folder()];
    await writeFile(join(inner, "real.yaml"), "one");
    const path = join(outer, "config.yaml");
    await symlink(join(inner, "real.yaml"), path);
    const seen = watching(path, "one");
    await writeFile(join(inner, "real.yaml"), "two");
    await eventually("the change behind the link is reported", () => texts(seen).includes("two"));
  });

  test("triggers after its folder was deleted and recreated", async () => {
    const root = await folder();
    const path = join(root, "inner", "config.yaml");
    await mkdir(join(root, "inner"));
    await writeFile(path, "one");
    const seen = watching(path, "one", polling(100));
    await rm(join(root, "inner"), { recursive: true });
    await eventually("the missing file is reported", () => texts(seen).at(-1) === "unreadable");
    await mkdir(join(root, "inner"));
    await writeFile(path, "two");
    await eventually("the file in the new folder is reported", () => texts(seen).at(-1) === "two");
  });
});

test("a change of the cloud config triggers beside files that are written all the time", async () => {
  const root = await folder();
  const path = join(root, "config.yaml");
  await writeFile(path, "one");
  const seen = watching(path, "one");
  const noise = setInterval(() => appendFileSync(join(root, "busy.log"), "line\n"), 20);
  cleanups.push(async () => clearInterval(noise));
  await quiet();
  expect(seen).toEqual([]);
  await writeFile(path, "two");
  await eventually("it is reported", () => texts(seen).at(-1) === "two", 10_000);
});

describe("a watch of the cloud config", () => {
  /** Waits for one hint, which a poll cannot give. */
  const hinted = async (path: string, change: (rearm: () => void) => Promise<void>): Promise<void> => {
    let hints = 0;
    const watcher = watchPath(path, () => void hints++);
    try {
      await change(() => {
        watcher.rearm();
        hints = 0;
      });
      await eventually("a hint comes", () => hints > 0);
    } finally {
      watcher.close();
    }
  };

  test("hints at a rename over the file", async () => {
    const path = join(await folder(), "config.yaml");
    await writeFile(path, "one");
    await writeFile(`${path}.new`, "two");
    await hinted(path, () => rename(`${path}.new`, path));
  });

  test("hints at the swap of a volume's ..data link, and at a write behind the new link", async () => {
    const root = await folder();
    const path = join(root, "config.yaml");
    for (const version of ["v1", "v2"]) {
      await mkdir(join(root, `..${version}`));
      await writeFile(join(root, `..${version}`, "config.yaml"), version);
    }
    await symlink("..v1", join(root, "..data"));
    await symlink("..data/config.yaml", path);
    await symlink("..v2", join(root, "..data_tmp"));
    const swap = (): Promise<void> => rename(join(root, "..data_tmp"), join(root, "..data"));
    await hinted(path, swap);
    await rm(join(root, "..v1"), { recursive: true });
    await hinted(path, async (rearm) => {
      rearm();
      await writeFile(join(root, "..v2", "config.yaml"), "v3");
    });
  });

  test("hints at the swap of a link that a folder above the file is", async () => {
    const root = await folder();
    for (const version of ["v1", "v2"]) {
      await mkdir(join(root, version, "inner"), { recursive: true });
      await writeFile(join(root, version, "inner", "config.yaml"), version);
    }
    await symlink("v1", join(root, "current"));
    await symlink("v2", join(root, "next"));
    await hinted(join(root, "current", "inner", "config.yaml"), () =>
      rename(join(root, "next"), join(root, "current")),
    );
  });

  test("hints at a write to the file that a link has come to lead to, under whatever name", async () => {
    const root = await folder();
    const path = join(root, "config.yaml");
    for (const name of ["one", "two"]) {
      await mkdir(join(root, name));
      await writeFile(join(root, name, `${name}.yaml`), name);
    }
    await symlink("one/one.yaml", path);
    await symlink("two/two.yaml", `${path}.new`);
    await hinted(path, async (rearm) => {
      await rename(`${path}.new`, path);
      await Bun.sleep(100);
      rearm();
      await writeFile(join(root, "two", "two.yaml"), "three");
    });
  });

  test("hints at a folder that is renamed with the file in it", async () => {
    const inner = join(await folder(), "inner");
    await mkdir(inner);
    await writeFile(join(inner, "config.yaml"), "one");
    await hinted(join(inner, "config.yaml"), () => rename(inner, `${inner}.old`));
  });

  test("begins although the links on the way to the file go round", async () => {
    const root = await folder();
    const path = join(root, "config.yaml");
    await symlink("config.yaml/inner", path);
    await hinted(path, async () => {
      await rm(path);
      await writeFile(path, "one");
    });
  });

  test("hints at a write in a folder that was deleted and recreated, whose inode number may be the old one", async () => {
    const inner = join(await folder(), "inner");
    const path = join(inner, "config.yaml");
    await mkdir(inner);
    await writeFile(path, "one");
    await hinted(path, async (rearm) => {
      await rm(inner, { recursive: true });
      await mkdir(inner);
      await writeFile(path, "one");
      await Bun.sleep(100);
      rearm();
      await writeFile(path, "two");
    });
  });

  test("starts with a read, as what was written before it began has given no hint", async () => {
    const clock = manualClock();
    const source = {
      ...silent,
      description: "a test",
      read: async () => "written meanwhile",
    };
    const seen: Content[] = [];
    const stop = new AbortController();
    const changed = (content: Content): void => void seen.push(content);
    const ended = watchContent({ source, clock, log, known: hashOf("known"), changed }, stop.signal);
    await clock.advance(0);
    await clock.advance(settleMs);
    stop.abort();
    await ended;
    expect(texts(seen)).toEqual(["written meanwhile"]);
  });

  test("is renewed before every read, and closed once at the end", async () => {
    const clock = manualClock();
    const steps: string[] = [];
    const source = {
      description: "a test",
      watch: () => ({ rearm: () => void steps.push("rearm"), close: () => void steps.push("close") }),
      async read() {
        steps.push("read");
        return "known";
      },
    };
    const stop = new AbortController();
    const changed = (): void => undefined;
    const ended = watchContent({ source, clock, log, known: hashOf("known"), changed }, stop.signal);
    await clock.advance(0);
    await clock.advance(5_000);
    expect(steps).toEqual(["rearm", "read", "rearm", "read"]);
    stop.abort();
    await ended;
    expect(steps.filter((step) => step === "close")).toHaveLength(1);
  });
});

describe("no change of content", () => {
  test("triggers when the same bytes are written again, or the file is touched", async () => {
    const path = join(await folder(), "config.yaml");
    await writeFile(path, "one");
    const seen = watching(path, "one");
    await writeFile(path, "one");
    await writeFile(`${path}.new`, "one");
    await rename(`${path}.new`, path);
    await quiet();
    expect(seen).toEqual([]);
  });
});

describe("content that is still being written", () => {
  test("is loaded only when two consecutive reads agree, with no change notice in between", async () => {
    const clock = manualClock();
    const reads = ["known", "p", "pq", "pqr"];
    let index = 0;
    const source = {
      ...silent,
      description: "a test",
      read: async () => reads[Math.min(index++, reads.length - 1)] ?? "",
    };
    const seen: Content[] = [];
    const stop = new AbortController();
    const changed = (content: Content): void => void seen.push(content);
    const ended = watchContent({ source, clock, log, known: hashOf("known"), changed }, stop.signal);
    await clock.advance(0);
    await clock.advance(12_000);
    stop.abort();
    await ended;
    expect(texts(seen)).toEqual(["pqr"]);
  });

  test("is read again when a notice came between two equal reads, of a source without versions", async () => {
    const clock = manualClock();
    const reads = ["p", "p", "pq"];
    let index = 0;
    let hint = (): void => undefined;
    const source = {
      description: "a test",
      read: async () => reads[Math.min(index++, 2)] ?? "",
      watch: (given: () => void) => ((hint = given), silent.watch()),
    };
    const seen: Content[] = [];
    const stop = new AbortController();
    const changed = (content: Content): void => void seen.push(content);
    const ended = watchContent({ source, clock, log, known: hashOf("known"), changed }, stop.signal);
    await clock.advance(0);
    hint();
    await clock.advance(3 * settleMs);
    stop.abort();
    await ended;
    expect(texts(seen)).toEqual(["pq"]);
  });

  test("content that is still being written that never stops changing is reported as such after half a minute", async () => {
    const clock = manualClock();
    let reads = 0;
    const source = { description: "a source", read: async () => String(reads++) };
    const settling = settledContent(source, clock, new AbortController().signal);
    let content: Content | undefined;
    void settling.then((settled) => (content = settled));
    await clock.advance(29_000);
    expect(content).toBeUndefined();
    await clock.advance(2_000);
    expect(content).toEqual({ unreadable: "a source: keeps changing; write it once and leave it" });
  });

  test("content that is still being written for minutes is reported once, and again when it has settled", async () => {
    const clock = manualClock();
    let reads = 0;
    let text = (): string => String(reads++);
    const source = { ...silent, description: "a source", read: async () => text() };
    const seen: Content[] = [];
    const stop = new AbortController();
    const changed = (content: Content): void => void seen.push(content);
    const ended = watchContent({ source, clock, log, known: hashOf("known"), changed }, stop.signal);
    await clock.advance(0);
    await clock.advance(120_000);
    expect(texts(seen)).toEqual(["unreadable"]);
    text = () => "known";
    await clock.advance(40_000);
    expect(texts(seen)).toEqual(["unreadable", "known"]);
    stop.abort();
    await ended;
  });

  test("content that is still being written when the process stops is unreadable, and its reason is the stop", async () => {
    const source = { description: "a source", read: async () => "half" };
    const content = await settledContent(source, manualClock(), AbortSignal.abort());
    expect(content).toEqual({ unreadable: "a source: the process is stopping" });
  });

  test("is handled by other triggers in the same way", async () => {
    const clock = manualClock();
    const reads = ["p", "pq", "pqr"];
    let index = 0;
    const source = { description: "a test", read: async () => reads[Math.min(index++, 2)] ?? "" };
    const settled = settledContent(source, clock, new AbortController().signal);
    for (let round = 0; round < 8; round++) await clock.advance(settleMs);
    expect(await settled).toEqual({ text: "pqr" });
  });

  test.each([
    [["p", "p"], 0, "p"],
    [["p", "pq", "pq"], settleMs, "pq"],
  ] as const)(
    "is compared with a first reading that was made a pause ago: %p is settled after %p ms",
    async (reads, ms, text) => {
      const clock = manualClock();
      let index = 0;
      const source = { description: "a test", read: async () => reads[Math.min(index++, reads.length - 1)] ?? "" };
      const first = readOnce(source, clock);
      await first;
      await clock.advance(settleMs);
      const began = clock.monotonic();
      const settled = settledContent(source, clock, new AbortController().signal, first);
      await clock.advance(0);
      expect(clock.sleepers).toBe(ms === 0 ? 0 : 1);
      await clock.advance(ms);
      expect(await settled).toEqual({ text });
      expect(clock.monotonic() - began).toBe(ms);
      expect(index).toBe(reads.length);
    },
  );

  test("waits out the pause after a first reading that has just been made", async () => {
    const clock = manualClock();
    let reads = 0;
    const source = { description: "a test", read: async () => `${(reads += 1) > 0}` };
    const first = readOnce(source, clock);
    await first;
    const settled = settledContent(source, clock, new AbortController().signal, first);
    await clock.advance(0);
    await clock.advance(settleMs - 1);
    expect(reads).toBe(1);
    await clock.advance(1);
    expect(await settled).toEqual({ text: "true" });
    expect(reads).toBe(2);
  });

  test("is not loaded by SIGHUP either, even when its first half is valid", async () => {
    const clock = manualClock();
    const pieces = ["first: 1\n", "first: 1\nsecond: 2\n"];
    let reads = 0;
    const config = { ...silent, description: "the config", read: async () => pieces[Math.min(reads++, 1)] ?? "" };
    const plugins = { ...silent, description: "the plugins", read: async () => "" };
    const reloads: unknown[] = [];
    const triggers = new Triggers({
      clock,
      log,
      config,
      followConfig: false,
      plugins,
      followPlugins: false,
      reload: (...reload) => void reloads.push(reload),
    });
    const stop = new AbortController();
    const ended = triggers.run({ configText: "known", pluginStamp: undefined }, stop.signal);
    triggers.request("SIGHUP");
    await clock.advance(0);
    await clock.advance(settleMs);
    expect(reloads).toEqual([]);
    await clock.advance(settleMs);
    for (let pause = 0; pause < 5; pause++) await clock.advance(settleMs);
    expect(reloads).toEqual([["SIGHUP", { text: pieces[1] }]]);
    stop.abort();
    await ended;
  });

  test("is read again when it was rewritten and torn again while the process was stopped", async () => {
    const path = join(await folder(), "config.yaml");
    const clock = manualClock();
    const [half, whole] = ["a: 1\n", "a: 1\nb: 2\n"];
    await writeFile(path, half);
    const settling = settledContent(fileSource(path), clock, new AbortController().signal);
    let isSettled = false;
    const note = async (): Promise<void> => {
      await settling;
      isSettled = true;
    };
    const noted = note();
    const pausing = (): Promise<boolean> =>
      eventually("it pauses or has settled", () => clock.sleepers === 1 || isSettled);
    await pausing();
    // Longer than the resolution of a file's times.
    await Bun.sleep(50);
    await writeFile(path, whole);
    await writeFile(path, half);
    await clock.advance(settleMs);
    await pausing();
    await writeFile(path, whole);
    for (let pause = 0; pause < 5; pause++) {
      await clock.advance(settleMs);
      await pausing();
    }
    await noted;
    expect(await settling).toEqual({ text: whole });
  });

  test("is taken when nothing was written between two reads, however far apart they are", async () => {
    const path = join(await folder(), "config.yaml");
    const clock = manualClock();
    await writeFile(path, "one");
    const settling = settledContent(fileSource(path), clock, new AbortController().signal);
    await eventually("it pauses", () => clock.sleepers === 1);
    await clock.advance(3_600_000);
    expect(await settling).toEqual({ text: "one" });
  });
});

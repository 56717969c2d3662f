import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { constants } from "node:fs";
import { mkdtemp, open, readdir, readFile, rename, rm, stat, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { eventually, manualClock } from "cloud-controller-host/sdk/testing";

import { systemClock } from "../../../../host/async/clock.ts";
import { createLogger } from "../../../../host/process/log/log.ts";
import { MetricsRegistry } from "../../../../host/process/metrics/metrics.ts";
import { openAuditLog } from "../../../../host/process/writes/audit-log.ts";

const unlimited = { maxAgeDays: 0, maxBackups: 0, maxMegabytes: 0 };

let folder = "";
let warnings: string[] = [];

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "audit-"));
  warnings = [];
});
afterEach(() => rm(folder, { recursive: true, force: true }));

const opened = (path: string, rotation = unlimited, clock = systemClock, metrics = new MetricsRegistry().root) =>
  openAuditLog({
    path,
    metrics,
    rotation,
    clock,
    log: createLogger({ format: "text", verbosity: 0, write: (line) => void warnings.push(line) }),
  });

const lines = async (path: string): Promise<readonly string[]> =>
  (await readFile(path, "utf8")).split("\n").slice(0, -1);

describe("the audit log", () => {
  test("appends one line per record to a file that only its owner may read, in a folder that it creates", async () => {
    const path = join(folder, "logs", "audit.log");
    const first = opened(path);
    for (const line of ["a", "b"]) first.write(line);
    await first.flush(5_000);
    const second = opened(path);
    second.write("c");
    await second.flush(5_000);
    expect(await lines(path)).toEqual(["a", "b", "c"]);
    expect((await stat(path)).mode & 0o777).toBe(0o600);
    expect(warnings).toEqual([]);
  });

  test("is rotated before it exceeds its size, keeps the newest backups, and leaves other files alone", async () => {
    const path = join(folder, "audit.log");
    await writeFile(join(folder, "audit-notes.log"), "mine");
    const log = opened(path, { ...unlimited, maxBackups: 2, maxMegabytes: 1 });
    for (const letter of ["a", "b", "c", "d", "e"]) {
      log.write(letter.repeat(600_000));
      await eventually("the record is written", async () => (await readFile(path, "utf8")).startsWith(letter));
    }
    await log.flush(5_000);
    const names = (await readdir(folder)).toSorted();
    const backups = names.filter((name) => /^audit-\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d\.\d{3}\.log$/u.test(name));
    expect(names.length - backups.length).toBe(2);
    expect(names).toContain("audit-notes.log");
    const kept = await Promise.all(backups.map(async (name) => (await readFile(join(folder, name), "utf8")).charAt(0)));
    expect(kept).toEqual(["c", "d"]);
    expect(warnings).toEqual([]);
  });

  test("removes backups older than the limit, and no other file", async () => {
    const others = ["audit-2026-11-01T00-00-00.000.txt", "audit-2026-11-01.log", "other-2026-11-01T00-00-00.000.log"];
    for (const other of others) await writeFile(join(folder, other), "mine");
    await writeFile(join(folder, "audit-2026-11-01T00-00-00.000.log"), "old");
    await writeFile(join(folder, "audit-2026-11-21T00-00-00.000.log"), "new");
    const clock = { ...systemClock, now: () => Date.UTC(2026, 10, 22) };
    const log = opened(join(folder, "audit.log"), { ...unlimited, maxAgeDays: 7 }, clock);
    log.write("x");
    await log.flush(5_000);
    const kept = ["audit-2026-11-21T00-00-00.000.log", "audit.log", ...others];
    expect((await readdir(folder)).toSorted()).toEqual(kept.toSorted());
  });

  test("continues in a new file, with a warning, when its file has been removed or moved away", async () => {
    const path = join(folder, "audit.log");
    const log = opened(path);
    log.write("a");
    await eventually("the record is written", async () => (await lines(path)).length === 1);
    await rename(path, join(folder, "moved"));
    log.write("b");
    await log.flush(5_000);
    expect(await lines(path)).toEqual(["b"]);
    expect(await lines(join(folder, "moved"))).toEqual(["a"]);
    expect(warnings).toHaveLength(1);
    expect(warnings[0]).toContain("removed or replaced");
  });

  test("keeps records in memory while the disk is full, warns once, and writes them at the end if it can", async () => {
    const path = join(folder, "audit.log");
    await symlink("/dev/full", path);
    const log = opened(path);
    for (let index = 0; index < 50; index += 1) log.write(`record ${index}`);
    await eventually("a warning", () => Promise.resolve(warnings.length > 0));
    await Bun.sleep(1_200);
    expect(warnings).toHaveLength(1);
    expect(warnings[0]).toContain("Failed to write to the audit log; keeping records in memory");
    expect(warnings[0]).toContain("ENOSPC");
    await rm(path);
    await log.flush(5_000);
    expect(await lines(path)).toEqual(Array.from({ length: 50 }, (_, index) => `record ${index}`));
  });

  test("says at the end how many records are missing, within its limit", async () => {
    const path = join(folder, "audit.log");
    await symlink("/dev/full", path);
    const log = opened(path);
    for (const line of ["a", "b", "c"]) log.write(line);
    const began = performance.now();
    await log.flush(2_000);
    expect(performance.now() - began).toBeLessThan(2_000);
    expect(warnings.at(-1)).toContain("missingRecords=3");
  });

  test("the records that are missing at the end are those that wait and those that are lost", async () => {
    const path = join(folder, "audit.log");
    await symlink("/dev/full", path);
    const log = opened(path);
    for (let index = 0; index < 50; index += 1) log.write("x".repeat(100_000));
    await log.flush(2_000);
    expect(warnings.at(-1)).toContain("missingRecords=50");
  });

  test("neither throws nor holds more than four megabytes while it cannot write; the file says how many are lost", async () => {
    const path = join(folder, "audit.log");
    await symlink("/dev/full", path);
    const metrics = new MetricsRegistry();
    const log = opened(path, unlimited, systemClock, metrics.root);
    const names = ["host_audit_log_waiting_records", "host_audit_log_lost_records_total"] as const;
    const counts = async (): Promise<readonly number[]> =>
      (await Promise.all(names.map((name) => metrics.samples(name)))).flatMap(([sample]) => sample?.value ?? []);
    const record = "x".repeat(100_000);
    const began = performance.now();
    for (let index = 0; index < 100; index += 1) log.write(record);
    expect(performance.now() - began).toBeLessThan(200);
    expect(await counts()).toEqual([41, 59]);
    await rm(path);
    await eventually("the disk has room again", async () => (await lines(path)).length === 41, 10_000);
    expect(await counts()).toEqual([0, 59]);
    log.write("last");
    await log.flush(5_000);
    expect((await lines(path)).slice(41)).toEqual(['{"lostRecords":59}', "last"]);
  });

  test("loses nothing of more than four megabytes as long as they are written in between", async () => {
    const path = join(folder, "audit.log");
    const log = opened(path);
    const record = "x".repeat(1_000_000);
    for (let count = 1; count <= 6; count += 1) {
      log.write(record);
      await eventually("it is written", async () => (await stat(path).catch(() => ({ size: 0 }))).size > count * 1e6);
    }
    await log.flush(5_000);
    expect((await lines(path)).map(({ length }) => length)).toEqual(Array.from({ length: 6 }, () => record.length));
  });

  test("begins a new line after a record that was cut off, and writes that record again as a whole", async () => {
    const pipe = join(folder, "pipe");
    expect(Bun.spawnSync(["mkfifo", pipe]).exitCode).toBe(0);
    await using reader = await open(pipe, constants.O_RDWR | constants.O_NONBLOCK);
    const log = opened(pipe);
    // A pipe has room for 64 KiB.
    const [whole, cutOff] = ["a".repeat(50_000), "b".repeat(50_000)];
    for (const record of [whole, cutOff]) log.write(record);
    await eventually("a record is cut off", () => Promise.resolve(warnings.length > 0));
    expect(warnings[0]).toContain("could be written");
    const read = async (): Promise<string> => (await reader.read(Buffer.alloc(100_000))).buffer.toString();
    const cut = (await read()).replaceAll("\0", "");
    await log.flush(5_000);
    const [first, partial = "", ...rest] = `${cut}${(await read()).replaceAll("\0", "")}`.split("\n");
    expect([first, rest]).toEqual([whole, [cutOff, ""]]);
    expect(partial).toMatch(/^b{1,49999}$/u);
  });

  test("warns where the path is a folder, in one without permission, or a pipe without a reader", async () => {
    const pipe = join(folder, "pipe");
    expect(Bun.spawnSync(["mkfifo", pipe]).exitCode).toBe(0);
    for (const path of [folder, pipe, "/sys/audit.log"]) {
      warnings = [];
      const log = opened(path);
      log.write("a");
      await log.flush(2_000);
      expect(warnings[0]).toMatch(/EISDIR|ENXIO|EACCES|EPERM|EROFS/u);
    }
  });

  test("warns once a minute, not once per attempt", async () => {
    const clock = manualClock();
    const pass = async (seconds: number): Promise<void> => {
      for (let second = 0; second < seconds; second += 1) {
        await eventually("it pauses", () => Promise.resolve(clock.sleepers > 0));
        await clock.advance(1_000);
      }
    };
    const log = opened(folder, unlimited, clock);
    log.write("a");
    await eventually("the first warning", () => Promise.resolve(warnings.length === 1));
    await pass(59);
    expect(warnings).toHaveLength(1);
    await pass(2);
    await eventually("the second warning", () => Promise.resolve(warnings.length === 2));
    await log.flush(1_000);
  });
});

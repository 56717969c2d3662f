import { expect, setDefaultTimeout, test } from "bun:test";

import { systemClock } from "../../../host/async/clock.ts";
import type { ConsoleSources } from "../../../host/console/sources.ts";
import { maxStreams, Streams } from "../../../host/console/stream.ts";
import { idleSources, idleStatus } from "./idle-status.ts";

setDefaultTimeout(120_000);

/** Sources whose status is another one each time that it is read. */
function changingSources(): { readonly sources: ConsoleSources; readonly reads: () => number } {
  let reads = 0;
  const sources = { ...idleSources, status: () => ({ ...idleStatus, reloads: (reads += 1) }) };
  return { sources, reads: () => reads };
}

const idIn = (bytes: Uint8Array | undefined): string =>
  /^id: (\S+)$/mu.exec(new TextDecoder().decode(bytes))?.[1] ?? "";

test("a page that does not read keeps a few messages waiting, and then gets the latest one", async () => {
  const { sources, reads } = changingSources();
  const streams = new Streams(sources);
  const slow = streams.open(new AbortController().signal, undefined);
  const fast = streams.open(new AbortController().signal, undefined);
  const [slowReader, fastReader] = [slow?.getReader(), fast?.getReader()];
  const ids: string[] = [];
  while (reads() < 8) ids.push(idIn((await fastReader?.read())?.value));
  expect(new Set(ids).size).toBeGreaterThanOrEqual(6);
  const late: string[] = [];
  for (let message = 0; message < 3; message++) late.push(idIn((await slowReader?.read())?.value));
  expect(late[1]).toBe(ids[1] ?? "");
  expect(ids.slice(0, 5)).not.toContain(late[2] ?? "");
  await slowReader?.cancel();
  await fastReader?.cancel();
  expect(streams.size).toBe(0);
});

test("a page gets a change that another page was opened with", async () => {
  let reloads = 0;
  const { sources } = changingSources();
  const clock = { ...systemClock, monotonic: () => 0 };
  const streams = new Streams({ ...sources, clock, status: () => ({ ...idleStatus, reloads }) });
  const first = streams.open(new AbortController().signal, undefined)?.getReader();
  await first?.read();
  reloads = 1;
  const second = streams.open(new AbortController().signal, undefined)?.getReader();
  const change = idIn((await second?.read())?.value);
  const next = await Promise.race([first?.read(), Bun.sleep(5_000)]);
  expect(idIn(next?.value)).toBe(change);
  await first?.cancel();
  await second?.cancel();
});

test("no version of one process is that of another, so that a page reads everything again after a hand-over", async () => {
  const clock = { ...systemClock, monotonic: () => 0 };
  const versionsOf = async (own: Partial<typeof idleStatus>): Promise<readonly unknown[]> => {
    const streams = new Streams({ ...idleSources, clock, status: () => ({ ...idleStatus, ...own }) });
    const reader = streams.open(new AbortController().signal, undefined)?.getReader();
    const text = new TextDecoder().decode((await reader?.read())?.value);
    await reader?.cancel();
    return Object.values(JSON.parse(/^data: (.*)$/mu.exec(text)?.[1] ?? "").versions);
  };
  const versions = await versionsOf({});
  expect(await versionsOf({})).toEqual(versions);
  for (const own of [{ identity: "two" }, { startedAt: "2026-11-23T02:00:00Z" }])
    expect((await versionsOf(own)).filter((version) => versions.includes(version))).toEqual([]);
});

test("a plan that begins or ends is a change of its own", async () => {
  let revision = 0;
  const clock = { ...systemClock, monotonic: () => 0 };
  const plans = {
    answer: () => "{}",
    get revision() {
      return revision;
    },
  };
  const reader = new Streams({ ...idleSources, clock, plans })
    .open(new AbortController().signal, undefined)
    ?.getReader();
  const first = idIn((await reader?.read())?.value);
  revision = 1;
  const next = await Promise.race([reader?.read(), Bun.sleep(10_000)]);
  expect(idIn(next?.value)).not.toBe("");
  expect(idIn(next?.value)).not.toBe(first);
  await reader?.cancel();
});

test("a page that has left before its stream opens takes no place, and one that leaves ends its stream", async () => {
  const streams = new Streams(changingSources().sources);
  streams.open(AbortSignal.abort(), undefined);
  expect(streams.size).toBe(0);
  const leaving = new AbortController();
  const reader = streams.open(leaving.signal, undefined)?.getReader();
  await reader?.read();
  leaving.abort();
  const next = await Promise.race([reader?.read(), Bun.sleep(5_000)]);
  expect(next?.done).toBe(true);
  expect(streams.size).toBe(0);
});

test("a page gets no message while nothing changes, and its stream stays open", async () => {
  let looks = 0;
  const looked = Promise.withResolvers<"nothing">();
  const status = () => {
    looks += 1;
    if (looks === 4) looked.resolve("nothing");
    return idleStatus;
  };
  const clock = { ...systemClock, monotonic: () => 0 };
  const streams = new Streams({ ...idleSources, clock, status });
  const reader = streams.open(new AbortController().signal, undefined)?.getReader();
  await reader?.read();
  expect(await Promise.race([reader?.read(), looked.promise])).toBe("nothing");
  expect(streams.size).toBe(1);
  await reader?.cancel();
});

test("a stream ends 100 seconds after it was opened, and not before", async () => {
  let now = 5_000;
  const streams = new Streams({ ...idleSources, clock: { ...systemClock, monotonic: () => now } });
  const reader = streams.open(new AbortController().signal, undefined)?.getReader();
  await reader?.read();
  now = 104_999;
  expect((await reader?.read())?.done).toBe(false);
  now = 105_000;
  expect((await Promise.race([reader?.read(), Bun.sleep(5_000)]))?.done).toBe(true);
  expect(streams.size).toBe(0);
});

test("20 streams are open at most, and one that ends makes room for another", () => {
  const streams = new Streams(idleSources);
  const pages = Array.from({ length: maxStreams }, () => new AbortController());
  expect(pages.map(({ signal }) => streams.open(signal, undefined) !== undefined)).toEqual(Array(20).fill(true));
  const last = new AbortController();
  expect(streams.open(last.signal, undefined)).toBeUndefined();
  pages[0]?.abort();
  expect(streams.open(last.signal, undefined)).toBeDefined();
  for (const page of [...pages, last]) page.abort();
  expect(streams.size).toBe(0);
});

import { describe, expect, test } from "bun:test";
import { once } from "node:events";

import { eventually } from "cloud-controller-host/sdk/testing";

import { systemClock } from "../../../../host/async/clock.ts";
import { takeHeapSnapshot } from "../../../../host/process/profiling/heap.ts";
import { createProfiling } from "../../../../host/process/profiling/profiling.ts";
import { rejection } from "../../../kit/rejection.ts";

// However many objects the tests before this one have left behind.
const profiling = createProfiling({ clock: systemClock, maxObjects: () => Number.POSITIVE_INFINITY });

const get = (target: string, signal?: AbortSignal): Promise<Response> => {
  const request = new Request(`https://localhost:10258/debug/pprof/${target}`, { ...(signal && { signal }) });
  return profiling.respond(target.split("?")[0] ?? "", request);
};

/** Calls itself, because the compiler moves a function that does not into its caller, where the profile cannot name it. */
function spinForTheProfile(depth = 8): number {
  if (depth > 0) return spinForTheProfile(depth - 1) + spinForTheProfile(depth - 1);
  let sum = 0;
  for (let index = 0; index < 1_200; index++) sum += Math.sqrt(index);
  return sum;
}

/** Keeps the processor busy, in small pieces, until what is given has settled. */
async function whileSpinning<T>(work: Promise<T>): Promise<T> {
  const done = new AbortController();
  const ended = work.finally(() => done.abort());
  while (!done.signal.aborted) {
    spinForTheProfile();
    await Bun.sleep(1);
  }
  return ended;
}

/** One message of protocol buffers: the values of each field, numbers or bytes. */
function fieldsOf(bytes: Uint8Array): Map<number, (number | Uint8Array)[]> {
  const fields = new Map<number, (number | Uint8Array)[]>();
  let at = 0;
  const varint = (): number => {
    let value = 0n;
    for (let shift = 0n; ; shift += 7n) {
      const byte = bytes[at++] ?? 0;
      value |= BigInt(byte & 0x7f) << shift;
      if (byte < 0x80) return Number(value);
    }
  };
  while (at < bytes.length) {
    const key = varint();
    const length = key & 7 ? varint() : 0;
    const value = key & 7 ? bytes.subarray(at, (at += length)) : varint();
    fields.set(key >> 3, [...(fields.get(key >> 3) ?? []), value]);
  }
  return fields;
}

const bytesOf = (value: number | Uint8Array | undefined): Uint8Array =>
  value instanceof Uint8Array ? value : new Uint8Array();

describe("the index of profiles", () => {
  test("lists available and missing profiles, with reasons", async () => {
    const index = await (await get("")).text();
    const [there = "", absent = ""] = index.split("Not here:");
    for (const name of ["profile", "heap"]) expect(there).toContain(`\n  ${name}: `);
    for (const name of ["goroutine", "mutex", "block", "allocs", "threadcreate", "trace", "symbol", "cmdline"])
      expect(absent).toContain(`\n  ${name}: `);
    expect(absent).toContain("--contention-profiling adds nothing");
  });

  test("is repeated for a profile that the runtime lacks", async () => {
    const mutex = await get("mutex");
    expect([mutex.status, await mutex.text()]).toEqual([501, expect.stringContaining("no thread waits for another")]);
    for (const name of ["nonesuch", "constructor"]) expect((await get(name)).status).toBe(404);
  });
});

describe("a CPU profile", () => {
  test("is readable by go tool pprof: functions by name, samples with counts and nanoseconds", async () => {
    const response = await whileSpinning(get("profile?seconds=1"));
    expect(response.headers.get("content-type")).toBe("application/octet-stream");
    const profile = fieldsOf(Bun.gunzipSync(new Uint8Array(await response.arrayBuffer())));
    const texts = (profile.get(6) ?? []).map((text) => new TextDecoder().decode(bytesOf(text)));
    expect(texts[0]).toBe("");
    const types = (profile.get(1) ?? []).map((type) => {
      const fields = fieldsOf(bytesOf(type));
      return [texts[Number(fields.get(1)?.[0])], texts[Number(fields.get(2)?.[0])]];
    });
    expect(types).toEqual([
      ["samples", "count"],
      ["cpu", "nanoseconds"],
    ]);
    const functions = (profile.get(5) ?? []).map((one) => texts[Number(fieldsOf(bytesOf(one)).get(2)?.[0])]);
    expect(functions).toContain("spinForTheProfile");
    for (const sample of profile.get(2) ?? []) {
      const [count = 0] = bytesOf(fieldsOf(bytesOf(sample)).get(2)?.[0]);
      expect(count).toBeGreaterThan(0);
    }
    expect(Math.abs(Number(profile.get(9)?.[0]) / 1e6 - Date.now())).toBeLessThan(60_000);
    expect(profile.get(12)).toEqual([10_000_000]);
  });

  test("is available in the format of browser developer tools", async () => {
    const response = await whileSpinning(get("profile?seconds=1&format=cpuprofile"));
    const profile: { nodes: { callFrame: { functionName: string } }[] } = JSON.parse(await response.text());
    expect(profile.nodes.map(({ callFrame }) => callFrame.functionName)).toContain("spinForTheProfile");
  });

  test("runs one at a time; a second request gets a Retry-After", async () => {
    const first = get("profile?seconds=1");
    const second = await get("profile?seconds=1");
    expect(second.status).toBe(503);
    expect(second.headers.get("retry-after")).toBe("1");
    expect(await second.text()).toBe("a CPU profile is being taken already; try again in 1 s\n");
    expect((await first).status).toBe(200);
    expect((await get("profile?seconds=1")).status).toBe(200);
  });

  test("ends when its client disconnects, and makes room for the next", async () => {
    const gone = new AbortController();
    const first = get("profile?seconds=30", gone.signal).catch((error: unknown) => error);
    gone.abort(new Error("the client is gone"));
    expect(String(await first)).toContain("the client is gone");
    await eventually("the next profile is taken", async () => (await get("profile?seconds=1")).status === 200);
  });

  test.each(["0", "-1", "31", "x", "", "1e1", "2.5"])(
    "a CPU profile of %p seconds is rejected with the bounds",
    async (seconds) => {
      const response = await get(`profile?seconds=${seconds}`);
      expect([response.status, await response.text()]).toEqual([400, expect.stringContaining("from 1 to 30")]);
    },
  );

  test("a CPU profile of an unknown format is rejected, listing the known ones", async () => {
    const response = await get("profile?format=svg");
    expect([response.status, await response.text()]).toEqual([400, expect.stringContaining("pprof or cpuprofile")]);
  });
});

describe("a heap snapshot", () => {
  test("shows types and property names, and no string of the process", async () => {
    const kept = {
      clientSecretOfTheTest: `hunter2-${Math.random()}`,
      more: [`a long ${Math.random()} text`, "hunter3"],
    };
    const response = await get("heap");
    const body = await response.text();
    const { snapshot, nodes, edges, strings } = JSON.parse(body);
    expect(response.headers.get("content-disposition")).toContain("heap.heapsnapshot");
    expect(nodes).toHaveLength(snapshot.node_count * snapshot.meta.node_fields.length);
    expect(edges).toHaveLength(snapshot.edge_count * snapshot.meta.edge_fields.length);
    expect(strings).toContain("clientSecretOfTheTest");
    expect(strings).toContain("(string)");
    for (const secret of [kept.clientSecretOfTheTest, ...kept.more]) expect(body).not.toContain(secret);
  });

  test("contains no string but the names of types, functions and properties", async () => {
    const worker = new Worker(new URL("../../../../host/process/profiling/heap-worker.ts", import.meta.url));
    const answered = once(worker, "message");
    const meta = {
      node_fields: ["type", "name", "id"],
      node_types: [["object", "string"]],
      edge_fields: ["type", "name_or_index", "to_node"],
      edge_types: [["property", "element"]],
    };
    const strings = ["unused", "Object", "a text", "property", "another"];
    const snapshot = { snapshot: { meta }, nodes: [0, 1, 0, 1, 2, 4], edges: [0, 3, 3, 1, 4, 0], strings };
    const { buffer } = new TextEncoder().encode(JSON.stringify(snapshot));
    worker.postMessage(buffer, [buffer]);
    const [{ data }] = await answered;
    worker.terminate();
    expect(JSON.parse(new TextDecoder().decode(data))).toEqual({
      ...snapshot,
      nodes: [0, 1, 0, 1, 5, 4],
      strings: ["", "Object", "", "property", "", "(string)"],
    });
  });

  test("is rejected with an alternative if it would block the event loop for long", async () => {
    expect(await rejection(takeHeapSnapshot(10))).toContain("ask a standby, or for ?debug=1");
  });

  test("is rejected where it cannot be read, and taken the next time", async () => {
    const { generateHeapSnapshot } = Bun;
    Reflect.set(Bun, "generateHeapSnapshot", () => new ArrayBuffer(8));
    try {
      expect(await rejection(takeHeapSnapshot(Number.POSITIVE_INFINITY))).toContain("JSON");
    } finally {
      Reflect.set(Bun, "generateHeapSnapshot", generateHeapSnapshot);
    }
    expect((await get("heap")).status).toBe(200);
  });

  test("is taken one at a time", async () => {
    const [first, second] = await Promise.all([get("heap"), get("heap")]);
    expect([first.status, second.status]).toEqual([200, 503]);
  });

  test("has a short form with counts only", async () => {
    const text = await (await get("heap?debug=1")).text();
    expect(text).toMatch(/^# rss = \d+$/m);
    expect(text).toMatch(/^ *\d+ Promise$/m);
  });
});

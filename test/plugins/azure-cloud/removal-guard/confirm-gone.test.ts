import { describe, expect, test } from "bun:test";

import { ApiError, type KubeClient } from "cloud-controller-host/sdk";

import { confirmGone } from "../../../../plugins/azure-cloud/removal-guard/confirm-gone.ts";
import type { Owner } from "../../../../plugins/azure-cloud/removal-guard/items.ts";

const node = (name: string): Owner => ({ kind: "Node", name });

function apiServer(statusOf: (name: string) => number) {
  const read: string[] = [];
  const answer = (name: string): Promise<never> => {
    read.push(name);
    const status = statusOf(name);
    return Promise.reject(new ApiError(status, status === 404 ? "NotFound" : "Error", name));
  };
  return {
    read,
    client: { get: (_kind: unknown, { name }: { readonly name: string }) => answer(name), list: () => answer("") },
  };
}

const readingWith = (read: (signal: AbortSignal | undefined) => Promise<never>): Pick<KubeClient, "get" | "list"> => ({
  get: (_kind, _name, options) => read(options?.signal),
  list: (_kind, options) => read(options?.signal),
});

function unanswered(signal: AbortSignal | undefined): Promise<never> {
  const { promise, reject } = Promise.withResolvers<never>();
  signal?.addEventListener("abort", () => reject(signal.reason));
  return promise;
}

describe("objects that a list lacks", () => {
  test("are gone one by one when one of them is there", async () => {
    const { client } = apiServer((name) => (name === "b" ? 503 : 404));
    const isGone = await confirmGone(client, ["a", "b", "c"].map(node));
    expect(["a", "b", "c"].map((name) => isGone(node(name)))).toEqual([true, false, true]);
  });

  test("are not gone when they can be read", async () => {
    const client: Pick<KubeClient, "get" | "list"> = {
      async get(kind, { name }) {
        if (name === "b") throw new ApiError(404, "NotFound", name);
        return JSON.parse(JSON.stringify({ kind: kind.kind, metadata: { name } }));
      },
      list: async () => [],
    };
    const isGone = await confirmGone(client, ["a", "b"].map(node));
    expect(["a", "b"].map((name) => isGone(node(name)))).toEqual([false, true]);
  });

  test("are all gone when those that are read are", async () => {
    const names = Array.from({ length: 1_000 }, (_, index) => `n${index}`);
    const { client, read } = apiServer(() => 404);
    const isGone = await confirmGone(client, names.map(node));
    expect(read).toHaveLength(64);
    expect(names.every((name) => isGone(node(name)))).toBe(true);
    expect(isGone(node("other"))).toBe(false);
  });

  test("are not gone when the end of the list is cut off", async () => {
    const names = Array.from({ length: 1_000 }, (_, index) => `n${index}`);
    const { client } = apiServer((name) => (Number(name.slice(1)) >= 700 ? 403 : 404));
    const isGone = await confirmGone(client, names.map(node));
    expect(names.filter((name) => isGone(node(name))).length).toBeLessThanOrEqual(64);
    expect(isGone(node("n999"))).toBe(false);
  });

  test("are not gone while the API server does not answer in time, and no more are read after that", async () => {
    const names = Array.from({ length: 64 }, (_, index) => `n${index}`);
    const end = new AbortController();
    let reads = 0;
    const client = readingWith((signal) => {
      reads += 1;
      if (reads <= 5) return Promise.reject(new ApiError(404, "NotFound", "gone"));
      if (reads === 21) queueMicrotask(() => end.abort(new DOMException("no answer", "TimeoutError")));
      return unanswered(signal);
    });
    const isGone = await confirmGone(client, names.map(node), end.signal);
    expect(reads).toBe(21);
    expect(names.filter((name) => isGone(node(name)))).toHaveLength(5);
  });

  test("are read within 10 s in all, whatever their kinds", async () => {
    const signals: (AbortSignal | undefined)[] = [];
    const client = readingWith((signal) => {
      signals.push(signal);
      return unanswered(signal);
    });
    const owners: readonly Owner[] = [
      { kind: "Service", name: "default/web" },
      { kind: "Node", name: "n" },
      { kind: "endpoint", service: "default/web", node: "n" },
    ];
    const isGone = await confirmGone(client, owners);
    expect(owners.some(isGone)).toBe(false);
    expect([signals.length, new Set(signals).size]).toEqual([3, 1]);
  }, 120_000);

  test("are not gone where the client ignores that the time is up", async () => {
    const end = new AbortController();
    let reads = 0;
    const client = readingWith(() => {
      reads += 1;
      if (reads === 3) queueMicrotask(() => end.abort(new DOMException("no answer", "TimeoutError")));
      return reads === 1 ? Promise.reject(new ApiError(404, "NotFound", "gone")) : new Promise(() => undefined);
    });
    const isGone = await confirmGone(client, ["a", "b", "c"].map(node), end.signal);
    expect(["a", "b", "c"].map((name) => isGone(node(name)))).toEqual([true, false, false]);
  });
});

import { describe, expect, test } from "bun:test";

import { messageOf } from "cloud-controller-host/sdk";

import { KeyedMutex } from "../../../plugins/service-lb/keyed-mutex.ts";
import { ServiceCache } from "../../../plugins/service-lb/service-cache.ts";
import { aService } from "./objects.ts";

const nodes = new Map([["node-1", "id-1"]]);

const cacheOf = (...names: readonly string[]): ServiceCache => {
  const cache = new ServiceCache();
  for (const name of names) cache.see(`default/${name}`, aService({ name }));
  return cache;
};

describe("the cache of Services", () => {
  test("Add", () => {
    expect(cacheOf("a").size).toBe(1);
  });

  test("Del", () => {
    const cache = cacheOf("a");
    cache.drop("default/a");
    expect(cache.size).toBe(0);
  });

  test("Set and Get", () => {
    expect(cacheOf("a").get("default/a")?.service.metadata?.name).toBe("a");
  });

  test("lists the keys of all Services", () => {
    expect(cacheOf("a", "b").keys()).toEqual(["default/a", "default/b"]);
  });

  test("finds a Service by its key", () => {
    expect(cacheOf("a", "b").get("default/b")).toBeDefined();
    expect(cacheOf("a", "b").get("default/c")).toBeUndefined();
  });

  test("returns every Service that it holds", () => {
    const cache = cacheOf("a", "b");
    expect(cache.keys().map((key) => cache.get(key)?.service.metadata?.name)).toEqual(["a", "b"]);
  });
});

describe("a cached Service", () => {
  test("keeps its nodes while its UID is the same, and drops them with the Service", () => {
    const cache = new ServiceCache();
    cache.see("default/web", aService({ meta: { uid: "1" } }));
    cache.nodesSynced("default/web", nodes);
    cache.see("default/web", aService({ meta: { uid: "1", annotations: { a: "b" } } }));
    expect(cache.get("default/web")?.synced).toBe(nodes);
    cache.see("default/web", aService({ meta: { uid: "2" } }));
    expect(cache.get("default/web")?.synced).toBeUndefined();
  });

  test("forgets what a cleanup has deleted once its nodes are synced again, or another Service has its name", () => {
    const cache = new ServiceCache();
    const deleted = { ingress: [{ ip: "20.0.0.1" }] };
    const see = (uid: string): void => cache.see("default/web", aService({ meta: { uid } }));
    see("1");
    cache.deletes("default/web", deleted);
    see("1");
    expect(cache.get("default/web")?.deleted).toBe(deleted);
    cache.nodesSynced("default/web", nodes);
    expect(cache.get("default/web")?.deleted).toBeUndefined();
    cache.deletes("default/web", deleted);
    expect(cache.get("default/web")?.synced).toBe(nodes);
    see("2");
    expect(cache.get("default/web")?.deleted).toBeUndefined();
  });

  test("is not restored by a late result after it was dropped", () => {
    const cache = new ServiceCache();
    cache.nodesSynced("default/web", nodes);
    expect(cache.size).toBe(0);
  });
});

describe("a key lock", () => {
  test("is exclusive, and wakes the other loop on release", async () => {
    const offered: string[] = [];
    const mutex = new KeyedMutex((loop, key) => offered.push(`${loop} ${key}`));
    const { promise, resolve } = Promise.withResolvers<void>();
    const first = mutex.run("a", "service", () => promise);
    expect(mutex.has("a")).toBe(true);
    for (let look = 0; look < 3; look++)
      expect(await mutex.run("a", "node", () => Promise.reject(new Error("in two hands")))).toBe(false);
    expect(await mutex.run("b", "node", () => Promise.resolve())).toBe(true);
    expect(offered).toEqual([]);
    resolve();
    expect(await first).toBe(true);
    expect(offered).toEqual(["node a"]);
    expect(mutex.has("a")).toBe(false);
  });

  test("is released when the work under it fails", async () => {
    const offered: string[] = [];
    const mutex = new KeyedMutex((loop, key) => offered.push(`${loop} ${key}`));
    const { promise, reject } = Promise.withResolvers<void>();
    const failing = mutex.run("a", "node", () => promise);
    await mutex.run("a", "service", () => Promise.resolve());
    reject(new Error("the cloud said no"));
    expect(await failing.catch(messageOf)).toBe("the cloud said no");
    expect(offered).toEqual(["service a"]);
  });
});

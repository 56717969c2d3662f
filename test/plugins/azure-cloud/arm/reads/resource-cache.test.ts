import { expect, test } from "bun:test";

import { eventually, manualClock } from "cloud-controller-host/sdk/testing";

import { ArmError } from "../../../../../plugins/azure-cloud/arm/errors.ts";
import { ResourceCache } from "../../../../../plugins/azure-cloud/arm/reads/resource-cache.ts";

interface Item {
  readonly id: string;
  readonly version: number;
}

/** A cache of one resource, `/a`, whose single reads are answered by the test. */
function oneResource(listed = { version: 1 }) {
  const reads: PromiseWithResolvers<Item>[] = [];
  const cache = new ResourceCache<Item>({
    clock: manualClock(),
    ttlMs: 60_000,
    list: () => Promise.resolve([{ id: "/a", version: listed.version }]),
    get: () => {
      const read = Promise.withResolvers<Item>();
      reads.push(read);
      return read.promise;
    },
  });
  const versions = async (): Promise<readonly number[]> => (await cache.all()).map(({ version }) => version);
  const answer = (read: number, version: number): void => reads[read]?.resolve({ id: "/a", version });
  const requested = async (count: number): Promise<void> => {
    while (reads.length < count) await Bun.sleep(1);
  };
  return { cache, reads, versions, answer, requested };
}

test("a resource whose write fails while it is being read is read again", async () => {
  const { cache, reads, versions, answer, requested } = oneResource();
  await versions();
  cache.invalidate("/a");
  const first = versions();
  await requested(1);
  // The reply is older than this write, which may have been applied although it failed.
  cache.invalidate("/A");
  answer(0, 2);
  expect(await first).toEqual([2]);
  const second = versions();
  await requested(2);
  answer(1, 3);
  expect(await second).toEqual([3]);
  expect(await versions()).toEqual([3]);
  expect(reads).toHaveLength(2);
});

test("the reply to a write is kept when a single read that began before it ends later", async () => {
  const { cache, reads, versions, answer, requested } = oneResource();
  await versions();
  cache.invalidate("/a");
  const first = versions();
  await requested(1);
  cache.store({ id: "/a", version: 3 });
  answer(0, 2);
  expect(await first).toEqual([3]);
  expect(await versions()).toEqual([3]);
  expect(reads).toHaveLength(1);
});

test("a resource that was invalidated is read beside the list, and again if that happened during the list", async () => {
  const lists: PromiseWithResolvers<readonly Item[]>[] = [];
  const reads: { readonly id: string; readonly resolve: (item: Item) => void }[] = [];
  const cache = new ResourceCache<Item>({
    clock: manualClock(),
    ttlMs: 0,
    list() {
      const list = Promise.withResolvers<readonly Item[]>();
      lists.push(list);
      return list.promise;
    },
    get(id) {
      const { promise, resolve } = Promise.withResolvers<Item>();
      reads.push({ id, resolve });
      return promise;
    },
  });
  const requested = async (count: number): Promise<void> => {
    while (lists.length + reads.length < count) await Bun.sleep(1);
  };
  const listed = ["/A", "/B"].map((id) => ({ id, version: 1 }));
  const first = cache.all();
  await requested(1);
  lists[0]?.resolve(listed);
  await first;
  cache.invalidate("/a");
  const second = cache.all();
  await requested(3);
  cache.invalidate("/b");
  reads[0]?.resolve({ id: "/A", version: 2 });
  lists[1]?.resolve(listed);
  await requested(4);
  reads[1]?.resolve({ id: "/B", version: 3 });
  expect((await second).map(({ version }) => version)).toEqual([2, 3]);
  expect(reads.map(({ id }) => id)).toEqual(["/A", "/B"]);
});

test("a list that began before a resource was deleted, and one was created, shows neither as it was", async () => {
  const lists: PromiseWithResolvers<readonly Item[]>[] = [];
  const cache = new ResourceCache<Item>({
    clock: manualClock(),
    ttlMs: 60_000,
    list() {
      const list = Promise.withResolvers<readonly Item[]>();
      lists.push(list);
      return list.promise;
    },
    get: (id) => Promise.reject(new Error(`${id} is not read alone`)),
  });
  const all = cache.all();
  await eventually("the list has begun", () => lists.length === 1);
  cache.remove("/A");
  cache.written({ id: "/b", version: 1 });
  lists[0]?.resolve([
    { id: "/a", version: 1 },
    { id: "/c", version: 1 },
  ]);
  expect((await all).map(({ id }) => id)).toEqual(["/c", "/b"]);
});

test("a list that began after a write is newer than the reply to that write", async () => {
  const listed = { version: 1 };
  const { cache, versions } = oneResource(listed);
  await versions();
  cache.store({ id: "/a", version: 2 });
  expect(await versions()).toEqual([2]);
  listed.version = 3;
  cache.forget();
  expect(await versions()).toEqual([3]);
});

test("a read that shows a resource as it was before a write, or not at all, is not believed for a minute", async () => {
  const clock = manualClock();
  const one = (version: number) => ({ id: "/a", etag: `e${version}`, version });
  let shown: ReturnType<typeof one> | undefined = one(1);
  const cache = new ResourceCache<ReturnType<typeof one>>({
    clock,
    ttlMs: 0,
    list: () => Promise.resolve(shown === undefined ? [] : [shown]),
    get: () => (shown === undefined ? Promise.reject(new ArmError(404, "NotFound", "")) : Promise.resolve(shown)),
  });
  const versions = async (): Promise<readonly number[]> => (await cache.all()).map(({ version }) => version);
  await versions();
  for (const version of [2, 3]) cache.written(one(version));
  const read = async (): Promise<unknown> => {
    const listed = await versions();
    cache.invalidate("/a");
    const refreshed = await versions();
    cache.forget();
    return [listed, refreshed, await versions(), cache.current("/A", shown)?.version];
  };
  const found = async (former: typeof shown): Promise<unknown> => {
    shown = former;
    return read();
  };
  for (const former of [one(1), one(2), undefined]) expect(await found(former)).toEqual([[3], [3], [3], 3]);
  // Another writer's, which is then what is known.
  for (const newer of [one(4), one(2)]) expect(await found(newer)).toEqual([[4], [4], [4], 4]);
  await clock.advance(60_000);
  expect(await found(undefined)).toEqual([[], [], [], undefined]);
});

test.each(["a list", "a single read", "another write"])(
  "what %s has shown of a resource since it was written is what is known of it, when all else is forgotten",
  async (way) => {
    const one = (version: number) => ({ id: "/a", etag: `e${version}`, version });
    let shown = one(1);
    const cache = new ResourceCache<typeof shown>({
      clock: manualClock(),
      ttlMs: way === "a list" ? 0 : 60_000,
      list: () => Promise.resolve([shown]),
      get: () => Promise.resolve(shown),
    });
    await cache.all();
    cache.written(one(2));
    shown = one(3);
    if (way === "another write") cache.store(shown);
    if (way === "a single read") cache.invalidate("/a");
    await cache.all();
    cache.forget();
    shown = one(1);
    expect((await cache.all()).map(({ version }) => version)).toEqual([3]);
  },
);

test("a resource that is written all the time is remembered with the versions of its last minute and no older ones", async () => {
  const clock = manualClock();
  const one = (version: number) => ({ id: "/a", etag: `e${version}`, version });
  const cache = new ResourceCache<ReturnType<typeof one>>({
    clock,
    ttlMs: 60_000,
    list: () => Promise.resolve([]),
    get: () => Promise.reject(new ArmError(404, "NotFound", "")),
  });
  // The version n is replaced after n seconds.
  for (let version = 1; version <= 120; version++) {
    cache.written(one(version));
    await clock.advance(1_000);
  }
  const shown = Array.from({ length: 120 }, (_, index) => one(index + 1));
  const believed = shown.filter((read) => cache.current("/a", read) === read).map(({ version }) => version);
  expect(believed).toEqual([...shown.slice(0, 59).map(({ version }) => version), 120]);
});

test("nothing is kept of resources that were written once and are listed no more", async () => {
  const clock = manualClock();
  const cache = new ResourceCache<Item>({
    clock,
    ttlMs: 0,
    list: () => Promise.resolve([]),
    get: () => Promise.reject(new ArmError(404, "NotFound", "")),
  });
  const write = (index: number): WeakRef<Item> => {
    const item = { id: `/${index}`, version: 1 };
    cache.written(item);
    return new WeakRef(item);
  };
  const written = Array.from({ length: 1_000 }, (_, index) => write(index));
  expect(await cache.all()).toHaveLength(1_000);
  await clock.advance(60_000);
  expect(await cache.all()).toEqual([]);
  const kept = (): number => {
    Bun.gc(true);
    return written.filter((ref) => ref.deref() !== undefined).length;
  };
  // The stack may still refer to a few.
  await eventually("they are freed", () => kept() < 10);
});

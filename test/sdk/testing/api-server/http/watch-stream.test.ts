import { expect, test } from "bun:test";

import { merge } from "../api-client.ts";
import { describeProtocol } from "../on-both.ts";

describeProtocol("watching", (protocol) => {
  /** A namespace's config maps, and how to make some. */
  const configMaps = async (): Promise<string> => `/api/v1/namespaces/${await protocol.namespace()}/configmaps`;
  const create = (path: string, name: string, labels: object = {}): Promise<unknown> =>
    protocol.api.done("POST", path, { metadata: { name, labels } });
  const revision = async (path: string): Promise<string> =>
    (await protocol.api.get(path)).body.metadata.resourceVersion ?? "";

  test("a watch from a list sends the later changes in order", async () => {
    const path = await configMaps();
    await create(path, "a");
    const since = await revision(path);
    await create(path, "b");
    await using watch = await protocol.api.watch(`${path}?watch=true&resourceVersion=${since}`);
    await protocol.api.done("PATCH", `${path}/a`, { data: { x: "1" } }, merge);
    await protocol.api.done("DELETE", `${path}/b`);
    expect(await watch.take(3)).toEqual(["ADDED b", "MODIFIED a", "DELETED b"]);
  });

  test("a watch without a resourceVersion, or from 0, starts with the existing objects", async () => {
    const path = await configMaps();
    await create(path, "a");
    await create(path, "b");
    for (const query of ["watch=true", "watch=1&resourceVersion=0"]) {
      await using watch = await protocol.api.watch(`${path}?${query}`);
      expect([...(await watch.take(2))].toSorted()).toEqual(["ADDED a", "ADDED b"]);
    }
  });

  test("an event has the whole object; a deletion its last state with a newer resourceVersion", async () => {
    const path = await configMaps();
    await using watch = await protocol.api.watch(`${path}?watch=true&resourceVersion=${await revision(path)}`);
    const created = await protocol.api.done("POST", path, { metadata: { name: "a" }, data: { x: "1" } });
    expect(await watch.next()).toEqual({ type: "ADDED", object: created });
    await protocol.api.done("DELETE", `${path}/a`);
    const { type, object } = await watch.next();
    expect(type).toBe("DELETED");
    expect(object).toMatchObject({ kind: "ConfigMap", data: { x: "1" } });
    expect(Number(object.metadata.resourceVersion)).toBeGreaterThan(Number(created.metadata.resourceVersion));
  });

  test("removing the last finalizer sends a deletion", async () => {
    const path = await configMaps();
    await protocol.api.done("POST", path, { metadata: { name: "a", finalizers: ["a.b/c"] } });
    await using watch = await protocol.api.watch(`${path}?watch=true&resourceVersion=${await revision(path)}`);
    await protocol.api.done("DELETE", `${path}/a`);
    await protocol.api.done("PATCH", `${path}/a`, { metadata: { finalizers: null } }, merge);
    const [marked, gone] = [await watch.next(), await watch.next()];
    expect([marked.type, gone.type]).toEqual(["MODIFIED", "DELETED"]);
    expect(marked.object.metadata.deletionTimestamp).toBeDefined();
  });

  test("an object that starts or stops matching a selector is sent as added or deleted", async () => {
    const path = await configMaps();
    await create(path, "a", { on: "no" });
    const query = `watch=true&labelSelector=on%3Dyes&resourceVersion=${await revision(path)}`;
    await using watch = await protocol.api.watch(`${path}?${query}`);
    const label = (on: string): Promise<unknown> =>
      protocol.api.done("PATCH", `${path}/a`, { metadata: { labels: { on } } }, merge);
    await label("yes");
    await protocol.api.done("PATCH", `${path}/a`, { data: { x: "1" } }, merge);
    await label("no");
    await label("yes");
    await protocol.api.done("DELETE", `${path}/a`);
    expect(await watch.take(5)).toEqual(["ADDED a", "MODIFIED a", "DELETED a", "ADDED a", "DELETED a"]);
  });

  test("an object that stops matching is sent in its last matching state", async () => {
    const path = await configMaps();
    await create(path, "a", { on: "yes" });
    const query = `watch=true&labelSelector=on%3Dyes&resourceVersion=${await revision(path)}`;
    await using watch = await protocol.api.watch(`${path}?${query}`);
    const changed = await protocol.api.done("PATCH", `${path}/a`, { metadata: { labels: { on: "no" } } }, merge);
    const { object } = await watch.next();
    expect(object.metadata.labels).toEqual({ on: "yes" });
    expect(object.metadata.resourceVersion).toBe(changed.metadata.resourceVersion ?? "");
  });

  test("a watch of one object sends only that object", async () => {
    const path = await configMaps();
    const query = `watch=true&fieldSelector=metadata.name%3Db&resourceVersion=${await revision(path)}`;
    await using watch = await protocol.api.watch(`${path}?${query}`);
    for (const name of ["a", "b", "c"]) await create(path, name);
    await protocol.api.done("DELETE", `${path}/b`);
    expect(await watch.take(2)).toEqual(["ADDED b", "DELETED b"]);
  });

  test("a watch of a namespace sends only its objects, a watch across namespaces sends all", async () => {
    const [one, other] = [await configMaps(), await configMaps()];
    const since = await revision(one);
    await using own = await protocol.api.watch(`${one}?watch=true&resourceVersion=${since}`);
    await using all = await protocol.api.watch(`/api/v1/configmaps?watch=true&resourceVersion=${since}`);
    await create(other, "b");
    await create(one, "a");
    expect(await own.take(1)).toEqual(["ADDED a"]);
    expect(await all.take(2)).toEqual(["ADDED b", "ADDED a"]);
  });

  test("a watch ends after its timeout", async () => {
    const path = await configMaps();
    const query = `watch=true&timeoutSeconds=1&resourceVersion=${await revision(path)}`;
    await using watch = await protocol.api.watch(`${path}?${query}`);
    await create(path, "a");
    expect((await watch.rest()).map(({ type }) => type)).toEqual(["ADDED"]);
  });

  test("a watch list ends its initial events with an annotated bookmark", async () => {
    const path = await configMaps();
    await create(path, "a");
    const query = "watch=true&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan";
    await using watch = await protocol.api.watch(`${path}?${query}`);
    expect((await watch.next()).type).toBe("ADDED");
    const { type, object } = await watch.next();
    expect(type).toBe("BOOKMARK");
    expect(object.kind).toBe("ConfigMap");
    expect(object.metadata.annotations).toEqual({ "k8s.io/initial-events-end": "true" });
    expect(Number(object.metadata.resourceVersion)).toBeGreaterThan(0);
  });

  test("a watch from a compacted revision gets an ERROR event with 410 Expired", async () => {
    const path = await configMaps();
    await create(path, "a");
    await using watch = await protocol.api.watch(`${path}?watch=true&resourceVersion=1`);
    // A server that still knows everything since then tells it instead.
    const { type, object } = await watch.next();
    if (type === "ERROR") expect(object).toMatchObject({ kind: "Status", code: 410, reason: "Expired" });
    else expect(type).toBe("ADDED");
  });

  test("a watch as a table sends the column definitions in the first event only", async () => {
    const path = await configMaps();
    const accept = "application/json;as=Table;v=v1;g=meta.k8s.io";
    await using watch = await protocol.api.watch(`${path}?watch=true&resourceVersion=${await revision(path)}`, accept);
    await create(path, "a");
    await create(path, "b");
    const [first, second] = [await watch.next(), await watch.next()];
    expect(first.object).toMatchObject({
      kind: "Table",
      columnDefinitions: [{ name: "Name" }, { name: "Data" }, { name: "Age" }],
    });
    expect(first.object).toMatchObject({
      rows: [{ cells: ["a", 0, expect.any(String)], object: { metadata: { name: "a" } } }],
    });
    expect(second.object).toMatchObject({ columnDefinitions: null });
  });
});

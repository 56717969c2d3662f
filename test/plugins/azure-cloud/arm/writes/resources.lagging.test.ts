import { expect, test } from "bun:test";

import { manualClock } from "cloud-controller-host/sdk/testing";

import { ArmError } from "../../../../../plugins/azure-cloud/arm/errors.ts";
import { type ArmResource, Resources } from "../../../../../plugins/azure-cloud/arm/writes/resources.ts";
import { errorOf } from "../../../../kit/rejection.ts";

const id = "/subscriptions/sub0/resourceGroups/rg0/providers/Microsoft.Network/loadBalancers/kubernetes";
const version = (etag: string): ArmResource => ({ id, etag });
/** What is written, which reads do not show yet. */
const changed = { ...version("1"), name: "kubernetes" };

const notFound = (method: string): ArmError => new ArmError(404, "ResourceNotFound", "not found", { method });

/** A resource of which reads show a version, whatever is written; undefined: they fail, with an error of their own. */
function resourceAt(etag: string) {
  const clock = manualClock();
  const stop = new AbortController();
  const state: { shown: string | undefined; reads: number; error?: Error; writeError?: Error } = {
    shown: etag,
    reads: 0,
  };
  const get = async (): Promise<ArmResource> => {
    state.reads += 1;
    if (state.shown === undefined) throw state.error ?? new Error("unreadable");
    return version(state.shown);
  };
  const calls = {
    noun: "load balancer",
    list: async function* () {
      yield version(etag);
    },
    get,
    put: async () => {
      if (state.writeError !== undefined) throw state.writeError;
      return state.shown === undefined ? { id } : version(state.shown);
    },
    delete: async () => undefined,
  };
  const resources = new Resources<ArmResource>(calls, { clock, ttlMs: 120_000, signal: stop.signal });
  const pass = async (seconds: number): Promise<void> => {
    for (let passed = 0; passed < seconds; passed += 0.5) await clock.advance(500);
  };
  return { resources, state, pass, stop };
}

test("a write ends when a read shows it, not one that shows the version which it has replaced", async () => {
  const { resources, state, pass } = resourceAt("1");
  await resources.all("rg0");
  const ended = resources.put(id, changed);
  await pass(4);
  expect(state.reads).toBe(3);
  state.shown = "2";
  await pass(4);
  expect(await ended).toEqual(version("2"));
  expect([await resources.all("rg0"), state.reads]).toEqual([[version("2")], 4]);
});

test("a write ends after a minute of reads that show the version which it has replaced", async () => {
  const { resources, state, pass } = resourceAt("1");
  let hasEnded = false;
  const ended = resources.put(id, changed).finally(() => (hasEnded = true));
  await pass(59);
  expect(hasEnded).toBe(false);
  await pass(5);
  expect([await ended, state.reads]).toEqual([version("1"), 7]);
});

test("a write of what reads show already ends without another read, although its version stays", async () => {
  const { resources, state } = resourceAt("1");
  expect(await resources.put(id, version("1"))).toEqual(version("1"));
  expect(state.reads).toBe(0);
});

test("a write with a new version, and a creation, end without another read", async () => {
  const { resources, state } = resourceAt("2");
  expect(await resources.put(id, changed)).toEqual(version("2"));
  expect(await resources.put(id, { id }, { isNew: true })).toEqual(version("2"));
  state.shown = undefined;
  expect(await resources.put(id, { id }, { isNew: true })).toEqual({ id });
  expect(state.reads).toBe(0);
});

test("a creation ends when a read shows it, although the read at the end of its operation has not found it", async () => {
  const { resources, state, pass } = resourceAt("1");
  Object.assign(state, { shown: undefined, error: notFound("GET"), writeError: notFound("GET") });
  const ended = resources.put(id, { id }, { isNew: true });
  await pass(4);
  expect(state.reads).toBe(3);
  state.shown = "2";
  await pass(4);
  expect(await ended).toEqual(version("2"));
});

test("a creation that no read shows for a minute fails, and one that ARM refuses with 404, or whose operation it does not find, fails at once", async () => {
  const { resources, state, pass } = resourceAt("1");
  Object.assign(state, { shown: undefined, error: notFound("GET"), writeError: notFound("GET") });
  const late = errorOf(resources.put(id, { id }, { isNew: true }));
  await pass(64);
  expect([await late, state.reads]).toEqual([state.error, 7]);
  // The other one is of the operation, which may still be in progress.
  for (const refusal of [notFound("PUT"), new ArmError(404, "OperationNotFound", "no operation", { method: "GET" })]) {
    state.writeError = refusal;
    expect([await errorOf(resources.put(id, { id }, { isNew: true })), state.reads]).toEqual([refusal, 7]);
  }
});

test("a write whose result cannot be read fails, and its resource is read again", async () => {
  const { resources, state, pass } = resourceAt("1");
  await resources.all("rg0");
  const failed = errorOf(resources.put(id, changed));
  state.shown = undefined;
  await pass(1);
  expect(await failed).toMatchObject({ message: "unreadable" });
  state.shown = "2";
  expect(await resources.all("rg0")).toEqual([version("2")]);
});

test("a write that waits for a read to show it ends with the process, without another read", async () => {
  const { resources, state, pass, stop } = resourceAt("1");
  const failed = errorOf(resources.put(id, changed));
  await pass(4);
  stop.abort(new Error("the process ends"));
  expect(await failed).toMatchObject({ message: "the process ends" });
  expect(state.reads).toBe(3);
});

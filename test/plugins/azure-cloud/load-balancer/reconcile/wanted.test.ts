import { describe, expect, test } from "bun:test";

import { RefusedError } from "cloud-controller-host/sdk";

import type { ServiceIntent } from "../../../../../plugins/azure-cloud/load-balancer/model/model.ts";
import type { Write } from "../../../../../plugins/azure-cloud/load-balancer/model/plan-model.ts";
import { doneKey, Wanted } from "../../../../../plugins/azure-cloud/load-balancer/reconcile/wanted.ts";
import { errorOf } from "../../../../kit/rejection.ts";
import { serviceOf } from "../cluster.ts";

const intent = (action: ServiceIntent["action"] = "ensure", name = "web"): ServiceIntent => ({
  service: serviceOf(name),
  action,
  nodes: [],
});
const write = (id: string): Write => ({
  kind: "delete-load-balancer",
  id,
  resourceGroup: "rg0",
  name: id,
  services: ["default/web"],
});

describe("a wanted Service", () => {
  test("is refused for a problem of its settings, with its code and every message, and not for zones that were not read", () => {
    const [refused, unread] = [new Wanted(intent()), new Wanted(intent())];
    refused.refuse({ code: "PortConflict", messages: ["port 80 is taken", "port 81 is taken"] });
    unread.refuse({ code: "ZonesNotRead", messages: ["503"] });
    const message = "port 80 is taken; port 81 is taken";
    expect(refused.failure?.error).toBeInstanceOf(RefusedError);
    expect(refused.failure?.error).toMatchObject({ code: "PortConflict", message });
    expect(unread.failure?.error).not.toBeInstanceOf(RefusedError);
    expect(unread.failure?.error).toMatchObject({ code: "ZonesNotRead", message: "503" });
  });

  test("is superseded by its newest intent, but not its deletion by an ensure that has crossed it", () => {
    const entry = new Wanted(intent());
    const [again, deletion] = [intent(), intent("delete")];
    entry.want(again);
    expect(entry.intent).toBe(again);
    entry.want(deletion);
    entry.want(again);
    expect(entry.intent).toBe(deletion);
    const later = intent("delete");
    entry.want(later);
    expect(entry.intent).toBe(later);
  });

  test("fails when a resource is written a seventh time for it; a new intent begins from the start", () => {
    const entry = new Wanted(intent());
    const starts = (id: string): readonly boolean[] => Array.from({ length: 6 }, () => entry.countStart(write(id)));
    expect([...starts("/a"), ...starts("/b")]).not.toContain(false);
    entry.want(intent());
    expect(starts("/A")).not.toContain(false);
    expect(entry.failure).toBeUndefined();
    expect(entry.countStart(write("/a"))).toBe(false);
    expect(String(entry.failure?.error)).toContain(
      "default/web: Azure does not return the written state yet; /a is read again later",
    );
  });

  test("keeps its first error", () => {
    const entry = new Wanted(intent());
    for (const text of ["one", "two"]) entry.fail(new Error(text));
    expect(String(entry.failure?.error)).toContain("one");
    expect(entry.isEnded).toBe(true);
  });

  test("ends with its status and the number of its requests, for all who wait", async () => {
    const entry = new Wanted(intent());
    const waits = [1, 2].map(() => entry.wait(undefined, () => undefined));
    for (const requests of [1, 2]) entry.wrote(requests);
    expect(entry.isEnded).toBe(false);
    const status = { ingress: [{ ip: "20.0.0.1" }] };
    entry.finish(status, true);
    expect([entry.isEnded, entry.failure]).toEqual([true, undefined]);
    entry.settle(undefined);
    expect(await Promise.all(waits)).toEqual([1, 2].map(() => ({ status, writes: 3 })));
  });

  test("fails when nothing is left to write and Azure does not show its address, or when a member has failed", async () => {
    for (const [isSettled, memberError, text] of [
      [false, undefined, "does not return the written state yet"],
      [true, new Error("No VM."), "No VM."],
    ] as const) {
      const entry = new Wanted(intent());
      const work = errorOf(entry.wait(undefined, () => undefined));
      if (memberError !== undefined) entry.memberFailed(memberError);
      entry.finish({}, isSettled);
      entry.settle(undefined);
      expect(String(await work)).toContain(text);
    }
  });

  test("fails with the error of a lock that could not be released only if something was written for it", async () => {
    const unlock = new Error("Locked.");
    const outcomes: string[] = [];
    for (const [requests, error] of [
      [0, undefined],
      [1, undefined],
      [1, new Error("No.")],
    ] as const) {
      const entry = new Wanted(intent());
      const work = entry.wait(undefined, () => undefined).then(() => "done", String);
      entry.wrote(requests);
      if (error === undefined) entry.finish({}, true);
      else entry.fail(error);
      entry.settle(unlock);
      outcomes.push(await work);
    }
    expect(outcomes.slice(0, 2)).toEqual(["done", "Error: Locked."]);
    expect(outcomes[2]).toContain(
      "failed due to No., and when unlocking azure resources another error happened: Locked.",
    );
  });
});

describe("a caller that gives up", () => {
  test("is let go as long as nothing was planned, and the last one takes the intent with it", async () => {
    const entry = new Wanted(intent());
    const [one, two] = [new AbortController(), new AbortController()];
    let abandoned = 0;
    const waits = [one, two].map(({ signal }) => errorOf(entry.wait(signal, () => (abandoned += 1))));
    one.abort(new Error("first"));
    expect([String(await waits[0]), abandoned]).toEqual(["Error: first", 0]);
    two.abort(new Error("second"));
    expect([String(await waits[1]), abandoned]).toEqual(["Error: second", 1]);
  });

  test("waits for the result once its writes are planned", async () => {
    const entry = new Wanted(intent());
    const caller = new AbortController();
    const work = entry.wait(caller.signal, () => undefined);
    entry.planned();
    caller.abort(new Error("too late"));
    entry.finish({}, true);
    entry.settle(undefined);
    expect(await work).toEqual({ status: {}, writes: 0 });
  });
});

describe("a write that is done", () => {
  const members = (join: readonly string[], leave: readonly string[] = []): Write => ({
    ...write("/pool"),
    kind: "update-members",
    loadBalancer: "kubernetes",
    family: "IPv4",
    join,
    leave,
  });

  test("is distinguished by its nodes", () => {
    const entry = new Wanted(intent());
    entry.done(members(["a"], ["b"]));
    expect(entry.isDone(members(["A"], ["B"]))).toBe(true);
    for (const other of [members(["a"]), members(["a", "b"]), members([], ["b"])])
      expect(entry.isDone(other)).toBe(false);
  });

  test("is forgotten once it is not planned any more", () => {
    const entry = new Wanted(intent());
    const [first, second] = [members(["a"]), members(["b"])];
    for (const one of [first, second]) entry.done(one);
    expect(entry.takeDone(new Set([doneKey(first)]))).toEqual([second]);
    expect([entry.isDone(first), entry.isDone(second)]).toEqual([true, false]);
  });
});

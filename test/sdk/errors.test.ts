import { describe, expect, test } from "bun:test";

import {
  CodedError,
  errorChain,
  isRefusal,
  messageOf,
  recurringMessageOf,
  RefusedError,
  RetryAfterError,
  retryAfterOf,
} from "cloud-controller-host/sdk";

const refused = (id: string): CodedError => new CodedError("InvalidRequest", `PUT lb: 400${id}`, { occurrence: id });

describe("the message of an error without what differs each time", () => {
  test.each([
    ["of the error itself", refused(" (ID 1)"), "PUT lb: 400 (ID 1)", "PUT lb: 400"],
    [
      "of its cause",
      new Error("failed", { cause: refused(" (ID 1)") }),
      "failed: PUT lb: 400 (ID 1)",
      "failed: PUT lb: 400",
    ],
    [
      "of two causes",
      new CodedError("X", "failed (try 3)", { occurrence: " (try 3)", cause: refused(" (ID $&)") }),
      "failed (try 3): PUT lb: 400 (ID $&)",
      "failed: PUT lb: 400",
    ],
    ["of an error that has no such part", new Error("no"), "no", "no"],
    ["of a value that is not an error", "no", "no", "no"],
  ])("lacks that %s", (_, error, whole, recurring) => {
    expect([messageOf(error), recurringMessageOf(error)]).toEqual([whole, recurring]);
  });
});

test("the message of an error lacks Bun's advice to developers, which a closed connection has", async () => {
  const server = Bun.listen({ hostname: "127.0.0.1", port: 0, socket: { data: (socket) => socket.terminate() } });
  const failure: unknown = await fetch(`http://127.0.0.1:${server.port}/`).catch((error: unknown) => error);
  server.stop(true);
  expect(String(failure)).toContain("verbose: true");
  const message = messageOf(new Error("GET failed", { cause: failure }));
  expect(message).toBe("GET failed: ECONNRESET: The socket connection was closed unexpectedly");
});

test("the message of an error lacks Bun's question to its reader, which a refused connection has", async () => {
  const server = Bun.listen({ hostname: "127.0.0.1", port: 0, socket: { data: () => undefined } });
  const { port } = server;
  server.stop(true);
  const failure: unknown = await fetch(`http://127.0.0.1:${port}/`).catch((error: unknown) => error);
  expect(String(failure)).toContain("able to access the url?");
  expect(messageOf(failure)).toBe("ECONNREFUSED: Unable to connect");
});

test("an error is a refusal when one in its chain of causes is, and a text is not", () => {
  const refusal = new RefusedError("PortConflict", "port 80 is taken");
  const wrapped = new CodedError("ServiceSyncFailed", "failed", { cause: new Error("step", { cause: refusal }) });
  const rows = [refusal, wrapped, new CodedError("PortConflict", "read"), "PortConflict", undefined];
  expect(rows.map(isRefusal)).toEqual([true, true, false, false, false]);
});

test("the delay of an error is that of the first error with one in its chain of causes", () => {
  const last = new RetryAfterError(5_000, "throttled");
  const first = new RetryAfterError(60_000, "paused", { cause: last });
  const wrapped = new CodedError("ServiceSyncFailed", "failed", { cause: new Error("step", { cause: first }) });
  const rows = [last, first, wrapped, new Error("no", { cause: "throttled" }), "throttled", undefined];
  expect(rows.map(retryAfterOf)).toEqual([5_000, 60_000, 60_000, undefined, undefined, undefined]);
});

test("a chain of causes that leads back to itself ends there, for every reader of it", () => {
  const inner = new Error("inner");
  const outer = new Error("outer", { cause: new Error("middle", { cause: inner }) });
  inner.cause = outer;
  expect(errorChain(outer).map(({ message }) => message)).toEqual(["outer", "middle", "inner"]);
  expect([messageOf(outer), recurringMessageOf(outer)]).toEqual(["outer: middle: inner", "outer: middle: inner"]);
  expect([isRefusal(outer), retryAfterOf(outer)]).toEqual([false, undefined]);
  expect([errorChain("text"), errorChain(undefined)]).toEqual([[], []]);
});

test("a value that throws when it is read as text has a message all the same", () => {
  const getter = Object.defineProperty(new Error(), "message", {
    get: () => {
      throw new Error("boom");
    },
  });
  const plain: unknown = Object.create(null);
  const rows = [getter, plain, new Error("outer", { cause: plain })];
  expect(rows.map(messageOf)).toEqual(rows.map(() => "an error without a readable message"));
});

test("a cause that throws when it is read, or that has another cause each time, ends the chain of an error", () => {
  const thrower = Object.defineProperty(new Error("outer"), "cause", {
    get: () => {
      throw new Error("boom");
    },
  });
  const endless = (): Error => Object.defineProperty(new Error("outer"), "cause", { get: endless });
  const proxy = new Proxy(new Error("outer"), {
    getPrototypeOf: () => {
      throw new Error("boom");
    },
  });
  expect(errorChain(thrower)).toEqual([thrower]);
  expect(errorChain(endless())).toHaveLength(100);
  expect(errorChain(proxy)).toEqual([]);
  for (const error of [thrower, endless(), proxy])
    expect([isRefusal(error), retryAfterOf(error), typeof messageOf(error)]).toEqual([false, undefined, "string"]);
});

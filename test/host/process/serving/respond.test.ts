import { afterEach, beforeEach, describe, expect, jest, test } from "bun:test";
import { Socket } from "node:net";
import { Readable, Writable } from "node:stream";

import { createLogger } from "../../../../host/process/log/log.ts";
import { type Handler, type Incoming, type Outgoing, respond } from "../../../../host/process/serving/respond.ts";

beforeEach(() => void jest.useFakeTimers());
afterEach(() => void jest.useRealTimers());

/** A GET over HTTP/1, with streams that a test can break. */
function exchange(handler: Handler) {
  const head = {
    method: "GET",
    url: "/",
    headers: {},
    rawHeaders: ["Host", "x"],
    httpVersionMajor: 1,
    httpVersionMinor: 1,
    complete: true,
    socket: new Socket(),
  };
  const incoming: Incoming = Object.assign(new Readable({ read: () => undefined }), head);
  const reply = new Writable({ write: (_chunk, _encoding, done) => done() });
  const outgoing: Outgoing = Object.assign(reply, { headersSent: false, writeHead: () => undefined });
  const log = createLogger({ format: "text", verbosity: 0, write: () => undefined });
  const request = { certificate: () => undefined, authenticated: () => undefined, hold: () => undefined };
  const limits = { maxBodyBytes: 1_000, bodyTimeMs: 1_000, requestTimeMs: 1_000 };
  return { incoming, outgoing, after: respond(incoming, outgoing, { handler, log, request, limits }) };
}

describe("a request", () => {
  test("is over for its handler once the reply is written, and leaves no timer", async () => {
    let signal: AbortSignal | undefined;
    const { after } = exchange(async (request) => {
      signal = request.signal;
      return new Response("hello");
    });
    expect([await after, signal?.aborted, jest.getTimerCount()]).toEqual(["keep", true, 0]);
  });

  for (const side of ["incoming", "outgoing"] as const)
    test(`ends for its handler with an error of the ${side} stream, which no other listener has`, async () => {
      const asked = Promise.withResolvers<AbortSignal>();
      const parts = exchange((request) => {
        asked.resolve(request.signal);
        return new Promise(() => undefined);
      });
      const signal = await asked.promise;
      parts[side].emit("error", new Error("reset"));
      await parts.after;
      expect(signal.reason).toMatchObject({ code: "ClientGone" });
    });
});

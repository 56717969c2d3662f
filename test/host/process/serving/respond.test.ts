import { afterEach, beforeEach, describe, expect, jest, test } from "bun:test";
import type { OutgoingHttpHeaders } from "node:http";
import { Socket } from "node:net";
import { Readable, Writable } from "node:stream";

import { createLogger } from "../../../../host/process/log/log.ts";
import { type Handler, type Incoming, type Outgoing, respond } from "../../../../host/process/serving/respond.ts";

beforeEach(() => void jest.useFakeTimers());
afterEach(() => void jest.useRealTimers());

type Head = Partial<Pick<Incoming, "method" | "url" | "complete" | "stream">>;

/** A GET over HTTP/1 unless the test says otherwise, with streams that it can break. */
function exchange(handler: Handler, given: Head = {}) {
  const head = {
    method: "GET",
    url: "/",
    headers: {},
    rawHeaders: ["Host", "x"],
    httpVersionMajor: 1,
    httpVersionMinor: 1,
    complete: true,
    socket: new Socket(),
    ...given,
  };
  const heads: { readonly status: number; readonly headers: OutgoingHttpHeaders }[] = [];
  const incoming: Incoming = Object.assign(new Readable({ read: () => undefined }), head);
  const reply = new Writable({ write: (_chunk, _encoding, done) => done() });
  const outgoing: Outgoing = Object.assign(reply, {
    headersSent: false,
    writeHead: (status: number, headers: OutgoingHttpHeaders) => void heads.push({ status, headers }),
  });
  const logged: string[] = [];
  const log = createLogger({ format: "text", verbosity: 0, write: (line) => void logged.push(line) });
  const request = { certificate: () => undefined, authenticated: () => undefined, hold: () => undefined };
  const limits = { maxBodyBytes: 1_000, bodyTimeMs: 1_000, requestTimeMs: 1_000 };
  return { incoming, outgoing, heads, logged, after: respond(incoming, outgoing, { handler, log, request, limits }) };
}

const overHttp2: Head = { stream: { destroyed: false } };

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
    test(`ends for its handler with an error of the ${side} stream, which no other listener has, and is not logged`, async () => {
      const asked = Promise.withResolvers<AbortSignal>();
      const parts = exchange((request) => {
        asked.resolve(request.signal);
        return new Promise(() => undefined);
      });
      const signal = await asked.promise;
      parts[side].emit("error", new Error("reset"));
      await parts.after;
      expect(signal.reason).toMatchObject({ code: "ClientGone" });
      expect(parts.logged).toEqual([]);
    });

  for (const url of ["", "?verbose", "*", "healthz", "@localhost/healthz", "https://localhost/healthz"])
    test(`a request with the target "${url}" is rejected over both protocols, since it is not a path`, async () => {
      const asked: string[] = [];
      for (const protocol of [{}, overHttp2]) {
        const { after, heads } = exchange(
          async (request) => {
            asked.push(request.url);
            return new Response("hello");
          },
          { url, ...protocol },
        );
        await after;
        expect(heads).toMatchObject([{ status: 400 }]);
      }
      expect(asked).toEqual([]);
    });

  test("has the headers of its handler's reply, over HTTP/2 without those of a connection", async () => {
    const headers = { connection: "close", upgrade: "none", "keep-alive": "timeout=5", "x-kept": "yes" };
    const [http1, http2] = [{}, overHttp2].map((protocol) =>
      exchange(async () => new Response("hello", { headers }), protocol),
    );
    expect([await http1?.after, await http2?.after]).toEqual(["last", "last"]);
    expect(http1?.heads[0]?.headers).toMatchObject(headers);
    expect(Object.keys(http2?.heads[0]?.headers ?? {}).toSorted()).toEqual(["content-length", "x-kept"]);
  });

  for (const [what, bytes, expected] of [
    ["of 256 KiB, is read, and the connection kept", 256 * 1024, "keep"],
    ["of a byte more, ends the connection", 256 * 1024 + 1, "cut"],
  ] as const)
    test(`a body that the handler leaves, ${what}`, async () => {
      const { incoming, after } = exchange(async () => new Response("hello"), { method: "POST", complete: false });
      incoming.push(Buffer.alloc(bytes));
      if (expected === "keep") incoming.push(null);
      expect(await after).toBe(expected);
    });

  test("a body that the handler leaves over HTTP/2 ends its stream, not the connection", async () => {
    const { incoming, after } = exchange(async () => new Response("hello"), {
      method: "POST",
      complete: false,
      ...overHttp2,
    });
    expect([await after, incoming.destroyed]).toEqual(["keep", true]);
  });
});

import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { once } from "node:events";
import { connect as connectHttp2 } from "node:http2";
import { connect as connectTls, type TLSSocket } from "node:tls";

import { FrameMeter } from "../../../../host/process/serving/frame-meter.ts";
import type { Served } from "../../../../host/process/serving/tls-server.ts";
import { frame, headers, preface } from "../../../kit/http2-frames.ts";
import { serveLocally } from "../../../kit/serve.ts";

setDefaultTimeout(120_000);

let served: Served;
beforeAll(async () => {
  served = await serveLocally({
    handler: async (request) => new Response("x".repeat(request.url.endsWith("/large") ? 8_000_000 : 1)),
  });
});
afterAll(() => served.close());

const priority = frame(2, 0, 3, Buffer.from([0, 0, 0, 0, 16]));
const request = (stream: number): Buffer => frame(1, 5, stream, headers);
const times = (count: number, bytes: Buffer): Buffer => Buffer.concat(Array.from({ length: count }, () => bytes));

/** A meter, with time and bytes written that a test sets. */
function metered() {
  const standing = { bytesWritten: 0, nowMs: 0 };
  const meter = new FrameMeter(0);
  const send = (bytes: Buffer): boolean => meter.read(bytes, { ...standing });
  send(preface);
  return { standing, send };
}

describe("frames of one connection", () => {
  test("are read up to a burst, which comes back with time, and no further", () => {
    const { send, standing } = metered();
    expect(send(times(1_000, priority))).toBeTrue();
    standing.nowMs += 5_000;
    expect([send(times(500, priority)), send(times(100, priority))]).toEqual([true, false]);
    const idle = metered();
    idle.standing.nowMs += 3_600_000;
    expect(idle.send(times(1_100, priority))).toBeFalse();
  });

  test("are counted however they are cut into reads", () => {
    const { send } = metered();
    const bytes = times(1_050, frame(0, 0, 1, Buffer.alloc(20)));
    for (const byte of bytes.subarray(0, 29 * 900)) expect(send(Buffer.from([byte]))).toBeTrue();
    expect(send(bytes)).toBeFalse();
  });

  test("may be as many as requests need", () => {
    const { send, standing } = metered();
    for (let i = 0; i < 1_000; i++) expect(send(Buffer.concat([request(1), times(16, priority)]))).toBeTrue();
    // What requests have paid for does not run out with time.
    for (let i = 0; i < 200; i++) send(request(1));
    standing.nowMs += 1;
    expect(send(times(3_000, priority))).toBeTrue();
  });

  test("may be as many as data needs that is received or sent", () => {
    const received = metered();
    for (let i = 0; i < 1_000; i++) expect(received.send(times(4, frame(0, 0, 1, Buffer.alloc(1_024))))).toBeTrue();
    const { standing, send } = metered();
    for (let i = 0; i < 1_000; i++) {
      standing.bytesWritten += 4_096;
      expect(send(times(4, frame(8, 0, 0, Buffer.alloc(4))))).toBeTrue();
    }
  });
});

describe("a client", () => {
  const floods = {
    "PRIORITY frames": [priority],
    "empty CONTINUATION frames": [frame(9, 0, 3), frame(1, 0, 3, headers)],
    "window updates": [frame(8, 0, 0, Buffer.from([0, 0, 0, 1]))],
    "frames of an unknown type": [frame(77, 0, 0)],
  } satisfies Record<string, readonly [each: Buffer, first?: Buffer]>;
  for (const [what, [each, first = Buffer.alloc(0)]] of Object.entries(floods))
    test(`a client that floods with ${what} after a request is cut off long before its idle time, and others are served`, async () => {
      const socket: TLSSocket = connectTls({
        host: "127.0.0.1",
        port: served.port,
        rejectUnauthorized: false,
        ALPNProtocols: ["h2"],
      });
      const closed = new Promise((resolve) => socket.on("error", () => undefined).once("close", resolve));
      socket.write(Buffer.concat([preface, request(1)]));
      await once(socket, "data");
      socket.resume().write(Buffer.concat([first, times(20_000, each)]));
      await closed;
      const reply = await fetch(`https://127.0.0.1:${served.port}/`, { tls: { rejectUnauthorized: false } });
      expect(reply.status).toBe(200);
    });

  test("a client that reads large replies and sends thousands of requests over one connection keeps it", async () => {
    const session = connectHttp2(`https://127.0.0.1:${served.port}`, { rejectUnauthorized: false });
    const get = async (path: string): Promise<number> => {
      const stream = session.request({ ":path": path });
      let bytes = 0;
      stream.on("data", (chunk: Buffer) => (bytes += chunk.length));
      await once(stream, "end");
      return bytes;
    };
    expect(await get("/large")).toBe(8_000_000);
    for (let i = 0; i < 2_000; i++) expect(await get("/")).toBe(1);
    session.destroy();
  });
});

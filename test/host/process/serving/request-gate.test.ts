import { afterEach, describe, expect, test } from "bun:test";
import { once } from "node:events";
import { connect, type TLSSocket } from "node:tls";

import { eventually } from "cloud-controller-host/sdk/testing";
import * as fc from "fast-check";

import type { ServeOptions } from "../../../../host/process/serving/tls-server.ts";
import { serveLocally } from "../../../kit/serve.ts";

let stack = new AsyncDisposableStack();
afterEach(async () => {
  await stack.disposeAsync();
  stack = new AsyncDisposableStack();
});

/** A connection to a server, and what it received so far. */
interface Client {
  readonly socket: TLSSocket;
  readonly received: () => string;
}

async function connected(handler: ServeOptions["handler"]): Promise<() => Promise<Client>> {
  const served = await serveLocally({ handler });
  stack.defer(() => served.close());
  return async () => {
    const socket = connect({ port: served.port, host: "127.0.0.1", rejectUnauthorized: false });
    socket.on("error", () => undefined);
    stack.defer(() => void socket.destroy());
    let text = "";
    socket.on("data", (chunk: Buffer) => (text += chunk.toString()));
    await once(socket, "secureConnect");
    socket.setNoDelay(true);
    return { socket, received: () => text };
  };
}

const get = (path: string, headers = ""): string => `GET /${path} HTTP/1.1\r\nHost: x\r\n${headers}\r\n`;
const post = (body: string): string => `POST / HTTP/1.1\r\nHost: x\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
const chunked = (body: string): string =>
  `POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n`;

/** Answers with what each request was, and records how many ran at once. */
function recorder(): { readonly handler: ServeOptions["handler"]; readonly most: () => number } {
  let [running, most] = [0, 0];
  return {
    most: () => most,
    handler: async (request) => {
      running++;
      most = Math.max(most, running);
      const body = await request.text();
      await Bun.sleep(0);
      running--;
      return new Response(`<${new URL(request.url).pathname}:${JSON.stringify(body)}>`);
    },
  };
}

describe("pipelined requests of a connection", () => {
  test("run one at a time and are answered in order, wherever the network splits them", async () => {
    const { handler, most } = recorder();
    const open = await connected(handler);
    const body = fc.stringMatching(/^[a\r\n]{1,12}$/);
    const request = fc.oneof(
      fc.nat(99).map((id) => ({ text: get(String(id)), reply: `</${id}:"">` })),
      body.map((text) => ({ text: post(text), reply: `</:${JSON.stringify(text)}>` })),
      body.map((text) => ({ text: chunked(text), reply: `</:${JSON.stringify(text)}>` })),
    );
    const requests = fc.array(request, { minLength: 1, maxLength: 12 });
    const cuts = fc.array(fc.nat(600), { maxLength: 6 });
    await fc.assert(
      fc.asyncProperty(requests, cuts, async (sent, splits) => {
        const { socket, received } = await open();
        const text = sent.map((one) => one.text).join("");
        const bounds = [0, ...splits.filter((at) => at < text.length).toSorted((a, b) => a - b), text.length];
        for (const [i, start] of bounds.slice(0, -1).entries()) {
          socket.write(text.slice(start, bounds[i + 1]));
          await Bun.sleep(1);
        }
        const replies = (): readonly string[] => received().match(/<[^>]*>/g) ?? [];
        await eventually("all are answered", () => replies().length >= sent.length);
        expect(replies()).toEqual(sent.map(({ reply }) => reply));
        socket.destroy();
      }),
      { seed: 7, numRuns: 40 },
    );
    expect(most()).toBe(1);
  });

  test("are cut off when more than 16 KB of them wait for one reply", async () => {
    const release = Promise.withResolvers<void>();
    let handled = 0;
    const open = await connected(async () => {
      handled++;
      await release.promise;
      return new Response("hello");
    });
    const many = await open();
    many.socket.write(get("").repeat(5_000));
    await eventually("it is cut off", () => many.socket.closed);
    expect(handled).toBe(1);
    const few = await open();
    few.socket.write(get("").repeat(100));
    await eventually("the first request runs", () => handled === 2);
    release.resolve();
    await eventually("all are answered", () => few.received().split("200 OK").length === 101);
  });

  test("stay unread in the kernel while one is in progress", async () => {
    const release = Promise.withResolvers<void>();
    let handled = 0;
    const open = await connected(async () => {
      handled++;
      await release.promise;
      return new Response("hello");
    });
    const { socket } = await open();
    socket.write(get("first"));
    await eventually("the first request runs", () => handled === 1);
    socket.write(get("second"));
    await Bun.sleep(20);
    const chunk = Buffer.from(get("").repeat(30_000));
    for (let i = 0; i < 50; i++) socket.write(chunk);
    await Bun.sleep(1_000);
    expect(socket.writableLength).toBeGreaterThan(20 * 1024 * 1024);
    expect([handled, socket.closed]).toEqual([1, false]);
    release.resolve();
    await eventually("the second request runs, and the others are too many", () => socket.closed);
    expect(handled).toBeLessThan(4);
  });

  test("are not run after one whose reply is the last of the connection", async () => {
    const { handler } = recorder();
    const paths: string[] = [];
    const open = await connected((request, peer) => {
      paths.push(new URL(request.url).pathname);
      return handler(request, peer);
    });
    const { socket } = await open();
    socket.write(get("1") + get("2", "Connection: close\r\n") + get("3"));
    await eventually("it is closed", () => socket.closed);
    expect(paths).toEqual(["/1", "/2"]);
  });

  test("run one at a time with an Expect header too", async () => {
    const { handler, most } = recorder();
    const open = await connected(handler);
    const { socket, received } = await open();
    socket.write(get("", "Expect: nothing\r\n").repeat(20));
    await eventually("all are answered", () => received().split("200 OK").length === 21);
    expect(most()).toBe(1);
  });
});

test.each(["\r\n\r\n", "\r\n", "\r\n\r\n\r\n"])(
  "requests run one at a time on a connection that begins with %j",
  async (begin) => {
    const { handler, most } = recorder();
    const { socket, received } = await (await connected(handler))();
    socket.write(`${begin}${get("a")}${get("b")}${get("c")}`);
    await eventually("three replies", () => received().split("HTTP/1.1 200").length === 4);
    expect(most()).toBe(1);
  },
);

import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { connect } from "node:net";

import { eventually } from "cloud-controller-host/sdk/testing";

import { type Loopback, refusalOf, serveLoopback } from "../../../host/console/loopback.ts";

setDefaultTimeout(120_000);

describe("the address on loopback", () => {
  let loopback: Loopback;
  let canceled = 0;

  beforeAll(() => {
    loopback = serveLoopback(0, () => {
      const endless = new ReadableStream({ cancel: () => void (canceled += 1) });
      return Promise.resolve(new Response(endless, { headers: { "Content-Type": "text/event-stream" } }));
    });
  });

  afterAll(() => loopback[Symbol.asyncDispose]());

  /** The answer to bytes that no well-behaved client sends. */
  function send(head: string): Promise<string> {
    const { promise, resolve, reject } = Promise.withResolvers<string>();
    let reply = "";
    const socket = connect(Number(new URL(loopback.url).port), "127.0.0.1", () => socket.write(`${head}\r\n\r\n`));
    socket.on("error", reject);
    socket.on("data", (data) => {
      reply += data.toString();
      if (reply.includes("\n\r\n")) socket.end();
    });
    socket.on("close", () => resolve(reply));
    return promise;
  }

  test.each(["GET /ui/ HTTP/1.1\r\nHost: [", "GET /ui/ HTTP/1.1\r\nHost: 127.0.0.1:1@evil", "GET /ui/ HTTP/1.0"])(
    "refuses a host name that is not valid or missing, and shows nothing of its code: %j",
    async (head) => {
      const reply = await send(head);
      expect(reply).toStartWith("HTTP/1.1 403 ");
      expect(reply).not.toContain("html");
    },
  );

  test("answers HEAD as GET without the body, and ends the host's answer", async () => {
    const reply = await fetch(loopback.url, { method: "HEAD" });
    expect([reply.status, reply.headers.get("content-type"), await reply.text()]).toEqual([
      200,
      "text/event-stream",
      "",
    ]);
    await eventually("the host's answer is canceled", () => canceled === 1, 5_000);
    expect(canceled).toBe(1);
  });

  test("answers other methods with 405 and the methods that it has, and nothing stores its refusals", async () => {
    const reply = await fetch(loopback.url, { method: "DELETE" });
    expect([reply.status, reply.headers.get("allow")]).toEqual([405, "GET, HEAD"]);
    const refusals = [reply, await fetch(new URL("/none", loopback.url))];
    expect(refusals.map(({ headers }) => headers.get("cache-control"))).toEqual(["no-store", "no-store"]);
  });

  test("refuses pages of other sites, also of the same domain, and serves its own page and what the user opens", () => {
    const refusal = (site: string) =>
      refusalOf({ headers: new Headers({ Host: "localhost:8080", "Sec-Fetch-Site": site }) }, 8080);
    const refused = "the request comes from a page of another site";
    expect(["cross-site", "same-site", "same-origin", "none"].map(refusal)).toEqual([
      refused,
      refused,
      undefined,
      undefined,
    ]);
  });

  test("passes on the event after which a stream resumes and no other header, and sets no cookie", async () => {
    const passedOn: Record<string, string>[] = [];
    await using recording = serveLoopback(0, (_path, headers) => {
      passedOn.push(Object.fromEntries(headers));
      return Promise.resolve(new Response("", { headers: { "Set-Cookie": "a=b", "X-Frame-Options": "DENY" } }));
    });
    const reply = await fetch(recording.url, { headers: { "Last-Event-ID": "7", Cookie: "c=d", Authorization: "e" } });
    await fetch(recording.url);
    expect(passedOn).toEqual([{ "last-event-id": "7" }, {}]);
    expect([reply.headers.get("set-cookie"), reply.headers.get("x-frame-options")]).toEqual([null, "DENY"]);
  });

  test("is not shared: a port that another console has is refused", () => {
    const port = Number(new URL(loopback.url).port);
    expect(() => serveLoopback(port, () => Promise.resolve(new Response("another")))).toThrow(String(port));
  });

  test("is known by its name without the port on the port of the scheme", () => {
    const refused = (host: string, port: number) => refusalOf({ headers: new Headers({ Host: host }) }, port);
    expect(refused("127.0.0.1", 80)).toBeUndefined();
    expect(refused("localhost", 80)).toBeUndefined();
    expect(refused("127.0.0.1", 8080)).toBe("the request is for another host name");
  });
});

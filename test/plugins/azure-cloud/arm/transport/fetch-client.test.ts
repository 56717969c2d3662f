import { expect, spyOn, test } from "bun:test";
import { getEventListeners, once } from "node:events";
import { createServer } from "node:https";
import { gzipSync } from "node:zlib";

import { createHttpHeaders, createPipelineRequest } from "@azure/core-rest-pipeline";

import { fetchClient, send, TransportError } from "../../../../../plugins/azure-cloud/arm/transport/fetch-client.ts";
import { makeCertificate } from "../../../../../plugins/azure-cloud/simulator/http/certificate.ts";
import { errorOf } from "../../../../kit/rejection.ts";

const request = {
  url: "https://management.example/list",
  method: "GET",
  headers: {},
  ca: undefined,
  signal: new AbortController().signal,
};

test.each([
  ["a page of a list", 65_536, 5],
  ["a short reply", 65_535, 0],
])("turns of the event loop that others get before %s that has arrived is handed on", async (_, length, atLeast) => {
  // Replies of a real server take turns of their own to arrive.
  using fetched = spyOn(globalThis, "fetch").mockImplementation(
    Object.assign(async () => new Response("x".repeat(length)), { preconnect: fetch.preconnect }),
  );
  let [turns, over] = [0, false];
  const count = (): void => {
    turns += 1;
    if (!over) setImmediate(count);
  };
  setImmediate(count);
  for (let page = 0; page < 5; page++) await send(request);
  over = true;
  expect(fetched).toHaveBeenCalledTimes(5);
  if (atLeast > 0) expect(turns).toBeGreaterThanOrEqual(atLeast);
  else expect(turns).toBe(0);
});

test("a compressed reply above the limit is refused as too large, and one that is broken off may be tried again", async () => {
  const compressed = gzipSync("x".repeat(2_000));
  const errorFor = async (body: Uint8Array<ArrayBuffer>): Promise<unknown> => {
    using _ = spyOn(globalThis, "fetch").mockImplementation(
      Object.assign(async () => new Response(body, { headers: { "content-encoding": "gzip" } }), {
        preconnect: fetch.preconnect,
      }),
    );
    return errorOf(send({ ...request, maxBytes: 1_000 }));
  };
  expect(await errorFor(compressed)).toMatchObject({ code: "ReplyTooLarge" });
  expect(await errorFor(compressed.subarray(0, 12))).toBeInstanceOf(TransportError);
});

test("requests with the same authorities share connections, and authorities of others do not verify the server", async () => {
  const [{ ca, certificate: cert, key }, other] = await Promise.all([makeCertificate(), makeCertificate()]);
  let connections = 0;
  const server = createServer({ cert, key }, (_, reply) => void reply.end("{}"));
  server.on("secureConnection", () => (connections += 1)).listen(0, "127.0.0.1");
  await once(server, "listening");
  try {
    const address = server.address();
    const url = `https://127.0.0.1:${typeof address === "object" ? address?.port : ""}/`;
    const trusted = [ca];
    for (let sent = 0; sent < 3; sent += 1)
      expect(await send({ ...request, url, ca: trusted })).toMatchObject({ status: 200, text: "{}" });
    expect(connections).toBe(1);
    expect(await errorOf(send({ ...request, url, ca: [other.ca] }))).toBeInstanceOf(TransportError);
    expect(await errorOf(send({ ...request, url }))).toBeInstanceOf(TransportError);
  } finally {
    server.closeAllConnections();
    server.close();
  }
});

test("a request leaves nothing at the signal of the process, however it ends", async () => {
  const answers = [new Response("{}"), new Error("no reply")];
  using _ = spyOn(globalThis, "fetch").mockImplementation(
    Object.assign(
      async () => {
        const answer = answers.shift();
        if (answer instanceof Response) return answer;
        throw answer;
      },
      { preconnect: fetch.preconnect },
    ),
  );
  const [process, own] = [new AbortController().signal, new AbortController().signal];
  const client = fetchClient({ ca: undefined, signal: process, createHeaders: createHttpHeaders });
  const sent = createPipelineRequest({ url: request.url, abortSignal: own });
  expect((await client.sendRequest(sent)).status).toBe(200);
  expect(await errorOf(client.sendRequest(sent))).toBeInstanceOf(TransportError);
  for (const signal of [process, own]) expect(getEventListeners(signal, "abort")).toEqual([]);
});

import { afterAll, expect, test } from "bun:test";
import { once } from "node:events";
import { createServer, type Socket } from "node:net";

/** Methods of the requests received. */
const received: string[] = [];
const open = new Set<Socket>();

/** Answers the first request of each connection, and closes it as it receives the second one. */
const server = createServer((socket) => {
  let requests = 0;
  open.add(socket);
  socket.on("error", () => undefined);
  socket.on("data", (data) => {
    received.push(data.toString().split(" ", 1)[0] ?? "");
    if (++requests === 1) socket.write("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
    else socket.destroy();
  });
}).listen(0, "127.0.0.1");
await once(server, "listening");

afterAll(() => {
  for (const socket of open) socket.destroy();
  server.close();
});

function origin(): string {
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("the server has no port");
  return `http://127.0.0.1:${address.port}/`;
}

/** The status of a request on a connection that was used before, and that closes without a reply. */
async function sent(method: string): Promise<number | undefined> {
  await (await fetch(origin())).text();
  received.length = 0;
  const reply = await fetch(origin(), { method, body: "{}" }).catch(() => undefined);
  await reply?.text();
  return reply?.status;
}

// The lease, the writes to ARM and deletions rest on their preconditions: the first of two equal requests may be carried out.
for (const method of ["PUT", "DELETE"])
  test(`a ${method} is sent again by fetch itself if a connection of its pool closes before the reply`, async () => {
    expect(await sent(method)).toBe(200);
    expect(received).toEqual([method, method]);
  });

for (const method of ["PATCH", "POST"])
  test(`a ${method} is not sent again by fetch itself`, async () => {
    expect(await sent(method)).toBeUndefined();
    expect(received).toEqual([method]);
  });

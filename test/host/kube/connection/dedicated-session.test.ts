import { expect, test } from "bun:test";
import { once } from "node:events";
import { createServer, type Socket } from "node:net";

import { dedicatedSession } from "../../../../host/kube/connection/dedicated-session.ts";
import { errorOf } from "../../../kit/rejection.ts";

/** What a request gets from a server that answers by itself. */
async function replyOf(answer: (socket: Socket) => void): Promise<Response> {
  const server = createServer((socket) => void socket.once("data", () => answer(socket)));
  await once(server.listen(0, "127.0.0.1"), "listening");
  const address = server.address();
  const session = dedicatedSession({});
  try {
    return await session.fetch(`http://127.0.0.1:${typeof address === "object" ? address?.port : ""}/`, {});
  } finally {
    session.close();
    server.close();
  }
}

test("a reply that arrives in pieces is read whole, also where a character is cut in two", async () => {
  const body = JSON.stringify({ kind: "Lease", spec: { holderIdentity: "one_ü_two" } });
  const bytes = Buffer.from(body);
  const middle = bytes.indexOf("ü") + 1;
  const reply = await replyOf((socket) => {
    socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${bytes.length}\r\n\r\n`);
    setTimeout(() => socket.write(bytes.subarray(0, middle)), 50);
    setTimeout(() => socket.write(bytes.subarray(middle)), 100);
  });
  expect([reply.status, await reply.text()]).toEqual([200, body]);
});

test("a reply with a status that HTTP does not have is a failure of the request, not of the process", async () => {
  const odd = replyOf((socket) => socket.end("HTTP/1.1 999 Odd\r\nContent-Length: 2\r\n\r\nno"));
  expect(await errorOf(odd)).toBeInstanceOf(RangeError);
});

test("a connection that is cut within a reply is a failure of the request, not of the process", async () => {
  const cut = replyOf((socket) => {
    socket.write("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf");
    setTimeout(() => socket.destroy(), 50);
  });
  expect(await errorOf(cut)).toMatchObject({ code: "ECONNRESET" });
});

test("a switch to another protocol is a failure of the request, which would otherwise never end", async () => {
  const switched = replyOf((socket) => socket.write("HTTP/1.1 101 X\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"));
  expect(await errorOf(switched)).toMatchObject({ message: "unexpected status 101" });
});

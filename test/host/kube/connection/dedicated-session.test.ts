import { expect, test } from "bun:test";
import { once } from "node:events";
import { createServer } from "node:net";

import { dedicatedSession } from "../../../../host/kube/connection/dedicated-session.ts";

test("a reply that arrives in pieces is read whole, also where a character is cut in two", async () => {
  const body = JSON.stringify({ kind: "Lease", spec: { holderIdentity: "one_ü_two" } });
  const bytes = Buffer.from(body);
  const middle = bytes.indexOf("ü") + 1;
  const server = createServer((socket) => {
    socket.once("data", () => {
      socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${bytes.length}\r\n\r\n`);
      setTimeout(() => socket.write(bytes.subarray(0, middle)), 50);
      setTimeout(() => socket.write(bytes.subarray(middle)), 100);
    });
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  const address = server.address();
  const session = dedicatedSession({});
  try {
    const reply = await session.fetch(`http://127.0.0.1:${typeof address === "object" ? address?.port : ""}/`, {});
    expect([reply.status, await reply.text()]).toEqual([200, body]);
  } finally {
    session.close();
    server.close();
  }
});

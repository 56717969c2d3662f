import { expect, test } from "bun:test";
import { once } from "node:events";
import { Socket } from "node:net";

import { Connections } from "../../../../host/process/serving/connections.ts";

test("a client that uses its port again before its last connection is noticed to be closed counts once", async () => {
  const connections = new Connections({
    headerTimeMs: 60_000,
    idleTimeMs: 60_000,
    maxConnections: 10,
    maxConnectionsPerAddress: 2,
    maxHeldBytes: 1_000,
  });
  const open = (remotePort: number): Socket => {
    const socket = new Socket();
    Object.defineProperties(socket, { remoteAddress: { value: "10.0.0.1" }, remotePort: { value: remotePort } });
    connections.opened(socket);
    return socket;
  };
  const first = open(1_000);
  const closed = once(first, "close");
  const again = open(1_000);
  first.destroy();
  await closed;
  const other = open(2_000);
  expect([first, again, other].map(({ destroyed }) => destroyed)).toEqual([true, false, false]);
  connections.closeAll(0);
  expect([again, other].every(({ destroyed }) => destroyed)).toBeTrue();
});

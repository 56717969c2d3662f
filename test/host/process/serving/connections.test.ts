import { expect, jest, test } from "bun:test";
import { once } from "node:events";
import { Socket } from "node:net";

import { Connections } from "../../../../host/process/serving/connections.ts";

const remoteAddress = "10.0.0.1";
/** What a request is counted with before anything else is. */
const requestBytes = 32 * 1024;

function setup(maxConnectionsPerAddress: number, maxHeldBytes: number) {
  const connections = new Connections({
    headerTimeMs: 60_000,
    idleTimeMs: 60_000,
    maxConnections: 10,
    maxConnectionsPerAddress,
    maxHeldBytes,
  });
  const open = (remotePort: number): Socket => {
    const socket = new Socket();
    Object.defineProperties(socket, { remoteAddress: { value: remoteAddress }, remotePort: { value: remotePort } });
    connections.opened(socket);
    return socket;
  };
  return { connections, open };
}

test("what a request holds after its connection is closed is not counted, and costs no other its connection", async () => {
  const { connections, open } = setup(10, 3 * requestBytes);
  const [gone, other] = [open(1_000), open(2_000)];
  const late = connections.requestBegan({ remoteAddress, remotePort: 1_000 }, 0);
  connections.requestBegan({ remoteAddress, remotePort: 2_000 }, 0);
  const closed = once(gone, "close");
  gone.destroy();
  await closed;
  late.hold(3 * requestBytes);
  expect(other.destroyed).toBeFalse();
  connections.closeAll(0);
});

test("the connection that holds much is closed, not an older one that holds little beside many that hold nothing", () => {
  const { connections, open } = setup(10, 6 * requestBytes);
  const [small, large, ...idle] = Array.from({ length: 10 }, (_, index) => open(1_000 + index));
  connections.requestBegan({ remoteAddress, remotePort: 1_000 }, 0);
  connections.requestBegan({ remoteAddress, remotePort: 1_001 }, 5 * requestBytes);
  expect([small, large, ...idle].map((socket) => socket?.destroyed)).toEqual([false, true, ...idle.map(() => false)]);
  connections.closeAll(0);
});

test("a client that uses its port again before its last connection is noticed to be closed counts once", async () => {
  const { connections, open } = setup(2, 1_000);
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

test("a connection that is closed leaves no timer", () => {
  jest.useFakeTimers();
  try {
    const { connections, open } = setup(2, 10 * requestBytes);
    const [closed, evicted] = [open(1_000), open(2_000)];
    const request = connections.requestBegan({ remoteAddress, remotePort: 2_000 }, 0);
    expect(jest.getTimerCount()).toBe(1);
    request.ended("keep");
    expect(jest.getTimerCount()).toBe(2);
    closed.emit("close");
    const [next] = [open(3_000), open(4_000)];
    expect([evicted.destroyed, jest.getTimerCount()]).toEqual([true, 2]);
    connections.sessionBegan({ remoteAddress, remotePort: 3_000 }, () => undefined);
    connections.closeAll(0);
    next.emit("close");
    expect(jest.getTimerCount()).toBe(1);
  } finally {
    jest.useRealTimers();
  }
});

test("the certificate of a connection is read once, also where the client has none", () => {
  const { connections, open } = setup(10, 10 * requestBytes);
  open(1_000);
  let reads = 0;
  const read = (): undefined => void (reads += 1);
  for (let request = 0; request < 3; request++) {
    const begun = connections.requestBegan({ remoteAddress, remotePort: 1_000 }, 0);
    expect(begun.certificate(read)).toBeUndefined();
    begun.ended("keep");
  }
  expect(reads).toBe(1);
  connections.closeAll(0);
});

import { expect, test } from "bun:test";
import { once } from "node:events";
import { createServer } from "node:net";

import { createLogger } from "../../../host/process/log/log.ts";
import { listen } from "../../../host/process/serving/listener.ts";
import { type HostPorts, reservePorts, startOn } from "../../../host/sandbox/ports.ts";
import { errorOf } from "../../kit/rejection.ts";

const log = createLogger({ format: "text", verbosity: 0, write: () => undefined });

/** Listens as a host does, and stops. */
async function listenFor(port: number): Promise<number> {
  const listener = await listen(createServer(), { address: "127.0.0.1", port, log });
  await listener.close();
  return listener.port;
}

/** A process that has the port. */
async function occupied(port: number): Promise<AsyncDisposable> {
  const server = createServer().listen(port, "127.0.0.1");
  await once(server, "listening");
  return { [Symbol.asyncDispose]: () => new Promise((resolve) => void server.close(() => resolve())) };
}

/** Starts a host on free ports; `listens` gets those of each try. Resolves with the reserved port and those tried. */
async function started(listens: (ports: HostPorts, tries: number) => Promise<number>) {
  await using reserved = await reservePorts({ secure: 0, webhooks: 0 });
  const tried: number[] = [];
  const on = (ports: HostPorts) => (): Promise<number> => listens(ports, tried.push(ports.secure));
  const work = startOn(reserved, on(reserved.ports), (ports) => Promise.resolve(on(ports)));
  const error = await errorOf(work);
  return { reserved: reserved.ports.secure, tried, error };
}

const whileTaken = async (ports: HostPorts): Promise<number> => {
  await using taken = new AsyncDisposableStack();
  taken.use(await occupied(ports.secure));
  return await listenFor(ports.secure);
};

test("a sandbox whose port another process has for a moment starts on that port", async () => {
  const { reserved, tried, error } = await started((ports, tries) =>
    tries < 3 ? whileTaken(ports) : listenFor(ports.secure),
  );
  expect([error, tried]).toEqual([undefined, [reserved, reserved, reserved]]);
});

test("a sandbox whose port another process keeps starts on another one", async () => {
  await using others = new AsyncDisposableStack();
  const { reserved, tried, error } = await started(async ({ secure }, tries) => {
    if (tries === 1) others.use(await occupied(secure));
    return await listenFor(secure);
  });
  expect([error, tried.length, tried[0]]).toEqual([undefined, 2, reserved]);
  expect(tried[1]).not.toBe(reserved);
});

test("a sandbox whose port for webhooks another process keeps starts on another one", async () => {
  await using others = new AsyncDisposableStack();
  const { tried, error } = await started(async ({ webhooks }, tries) => {
    if (tries === 1) others.use(await occupied(webhooks));
    return await listenFor(webhooks);
  });
  expect([error, tried.length]).toEqual([undefined, 2]);
});

test("a sandbox whose ports are taken again and again gives up", async () => {
  const { tried, error } = await started(whileTaken);
  expect([tried.length, error]).toEqual([5, expect.objectContaining({ code: "ListenFailed" })]);
});

test("a sandbox does not start again where a port that the user names is taken", async () => {
  await using named = await reservePorts({ secure: 0, webhooks: 0 });
  const { tried, error } = await started(() => listenFor(named.ports.secure));
  expect([tried.length, error]).toEqual([1, expect.objectContaining({ code: "ListenFailed" })]);
});

import { createServer } from "node:net";

import { CodedError, isObject } from "cloud-controller-host/sdk";

/** Ports of the host, on loopback. */
export interface HostPorts {
  readonly secure: number;
  readonly webhooks: number;
}

export interface ReservedPorts extends AsyncDisposable {
  readonly ports: HostPorts;
  release(): Promise<void>;
}

/** The wanted ports, or any free one for each that is taken. No other process can have them until they are released. */
export async function reservePorts(wanted: HostPorts): Promise<ReservedPorts> {
  const [secure, webhooks] = [await reservePort(wanted.secure), await reservePort(wanted.webhooks)];
  const release = async (): Promise<void> => void (await Promise.all([secure.release(), webhooks.release()]));
  return { ports: { secure: secure.number, webhooks: webhooks.number }, release, [Symbol.asyncDispose]: release };
}

async function reservePort(wanted: number) {
  const server = createServer();
  const listen = (port: number): Promise<boolean> =>
    new Promise((resolve) => {
      server.once("error", () => resolve(false));
      server.listen(port, "127.0.0.1", () => resolve(true));
    });
  if (!(await listen(wanted))) await listen(0);
  const address = server.address();
  return {
    number: typeof address === "object" && address !== null ? address.port : wanted,
    release: () => new Promise<void>((resolve) => void server.close(() => resolve())),
  };
}

const maxTries = 5;

/**
 * Starts a host on reserved ports. Another process may take one after its release and before the host listens: then a
 * host is prepared again, on others or, where that process has ended, on the same ones. A port that the user's flags name
 * is not replaced.
 */
export async function startOn<T>(
  reserved: ReservedPorts,
  start: () => Promise<T>,
  prepareAgain: (ports: HostPorts) => Promise<() => Promise<T>>,
  tries = maxTries,
): Promise<T> {
  await reserved.release();
  try {
    return await start();
  } catch (error) {
    if (tries === 1 || !isTaken(error, reserved.ports)) throw error;
    await using next = await reservePorts(reserved.ports);
    return await startOn(next, await prepareAgain(next.ports), prepareAgain, tries - 1);
  }
}

/** True for the error of a host that could not listen on one of the ports. */
const isTaken = (error: unknown, { secure, webhooks }: HostPorts): boolean =>
  error instanceof CodedError &&
  error.code === "ListenFailed" &&
  isObject(error.cause) &&
  (error.cause["port"] === secure || error.cause["port"] === webhooks);

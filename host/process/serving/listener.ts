import { closeSync, openSync, readFileSync } from "node:fs";
import { isIPv6, type Server } from "node:net";

import { CodedError, type Logger } from "cloud-controller-host/sdk";

import { systemClock } from "../../async/clock.ts";

export interface ListenOptions {
  /** An IP address; the unspecified one serves both families. */
  readonly address: string;
  /** 0 takes any free port. */
  readonly port: number;
  /** Of port and address, for errors. Default: those of the secure port. */
  readonly flags?: ListenFlags;
  /** SO_REUSEPORT. */
  readonly sharePort?: boolean;
  readonly log: Logger;
}

interface ListenFlags {
  readonly port: string;
  readonly address: string;
}

const secureFlags: ListenFlags = { port: "--secure-port", address: "--bind-address" };

export interface Listener {
  readonly address: string;
  readonly port: number;
  /** Accepts no more; resolves once all connections have ended. */
  close(): Promise<void>;
}

/** File descriptors for everything else: files, watches, connections to the API server and to Azure. */
const ownDescriptors = 48;
const fewestConnections = 4;
/** Two servers share the process's limit. */
export const affordableConnections = (limit = descriptorLimit()): number =>
  Math.max(fewestConnections, Math.floor((limit - ownDescriptors) / 2));

/** This process's limit of file descriptors, where the system publishes it as Linux does. */
export function descriptorLimit(file = "/proc/self/limits"): number {
  try {
    const [, limit] = /^Max open files\s+(\d+)/m.exec(readFileSync(file, "utf8")) ?? [];
    return Number(limit ?? Number.POSITIVE_INFINITY);
  } catch {
    return Number.POSITIVE_INFINITY;
  }
}

/**
 * Listens, except while the process has no file descriptors left: the runtime would try to accept the connections that
 * wait in a busy loop, without an error.
 */
export async function listen(server: Server, options: ListenOptions): Promise<Listener> {
  await listenOn(server, options);
  server.on("error", (error) => options.log.error("Listener failed", { error }));
  const bound = server.address();
  if (bound === null || typeof bound === "string") throw new CodedError("ListenFailed", "the listener has no address");
  const { address, port } = bound;
  const stop = new AbortController();
  const watching = watchDescriptors(server, { ...options, port }, stop.signal);
  return {
    address,
    port,
    async close() {
      stop.abort();
      await watching;
      if (server.listening) await new Promise<void>((resolve) => server.close(() => resolve()));
    },
  };
}

const checkMs = 1_000;
const logMs = 60_000;

async function watchDescriptors(server: Server, options: ListenOptions, signal: AbortSignal): Promise<void> {
  let loggedMs = Number.NEGATIVE_INFINITY;
  while (true) {
    await systemClock.sleep(checkMs, signal);
    if (signal.aborted) return;
    const exhausted = areExhausted();
    if (exhausted && systemClock.monotonic() - loggedMs >= logMs) {
      options.log.error("File descriptors are exhausted; no connection is accepted until some are closed");
      loggedMs = systemClock.monotonic();
    }
    if (exhausted && server.listening) server.close();
    if (!exhausted && !server.listening) await listenOn(server, options).catch(() => undefined);
  }
}

/** Must be available to listen, which itself takes one or two. */
const spareDescriptors = 4;

function areExhausted(): boolean {
  const opened: number[] = [];
  try {
    while (opened.length < spareDescriptors) opened.push(openSync("/dev/null", "r"));
    return false;
  } catch (error) {
    return error instanceof Error && "code" in error && (error.code === "EMFILE" || error.code === "ENFILE");
  } finally {
    opened.forEach(closeSync);
  }
}

/** Go serves both families on `0.0.0.0`; so do we, where the machine has IPv6. */
async function listenOn(server: Server, options: ListenOptions): Promise<void> {
  const { address, port, sharePort = false } = options;
  const hosts = address === "0.0.0.0" ? ["::", "0.0.0.0"] : [address];
  for (const host of hosts) {
    const error = await tryListen(server, { host, port, reusePort: sharePort });
    if (error === undefined) return;
    if (host !== hosts.at(-1) && (error.code === "EAFNOSUPPORT" || error.code === "EADDRNOTAVAIL")) continue;
    throw cannotListen(error, options);
  }
}

function tryListen(
  server: Server,
  where: { readonly host: string; readonly port: number; readonly reusePort: boolean },
): Promise<NodeJS.ErrnoException | undefined> {
  return new Promise((resolve) => {
    const end = (error?: NodeJS.ErrnoException): void => {
      server.off("error", end);
      resolve(error);
    };
    server.once("error", end);
    server.listen(where, () => end());
  });
}

function cannotListen(error: NodeJS.ErrnoException, options: ListenOptions): CodedError {
  const { address, port, flags = secureFlags } = options;
  const where = isIPv6(address) ? `[${address}]:${port}` : `${address}:${port}`;
  const why = {
    EADDRINUSE: `${flags.port}: ${where} is already in use by another process; stop that, or choose another port`,
    EACCES: `${flags.port}: this process may not listen on ${where}`,
    EADDRNOTAVAIL: `${flags.address}: ${address} is not an address of this machine`,
  }[error.code ?? ""];
  return new CodedError("ListenFailed", why ?? `${flags.port}: cannot listen on ${where}`, { cause: error });
}

import { once } from "node:events";
import { createServer, type Socket } from "node:net";

import { ApiError, CodedError, messageOf } from "cloud-controller-host/sdk";

import type { ApiServer } from "./credentials.ts";
import { createTransport } from "./transport.ts";

/** For a user whose requests find the leader and forward its port, as those of `console` do. */
export const consoleHint = "grant it with a role: `cloud-controller-host rbac --console` prints that of the console";

/** A port of a Pod on loopback, for as long as it is open. */
export interface PortForward extends AsyncDisposable {
  readonly port: number;
  /** Why the latest connection that failed could not reach the Pod: the words of the API server or the kubelet. */
  readonly failure: string | undefined;
}

export interface ForwardedPod {
  readonly namespace: string;
  readonly pod: string;
  readonly port: number;
}

export interface ForwardLimits {
  /** From a connection until the Pod can be reached. */
  readonly openMs: number;
  /** Bytes that the Pod has sent on a connection and its client has not read. */
  readonly maxUnreadBytes: number;
  /** A client that has sent more than the Pod has read waits. */
  readonly maxUnsentBytes: number;
}

const megabyte = 1024 * 1024;
const defaultLimits: ForwardLimits = { openMs: 30_000, maxUnreadBytes: 16 * megabyte, maxUnsentBytes: 4 * megabyte };
/** A WebSocket does not say when it has sent. */
const unsentCheckMs = 20;
const maxFailure = 500;

const protocol = "v4.channel.k8s.io";
/** Channels of one forwarded port, the first byte of each message. */
const [dataChannel, errorChannel] = [0, 1];
/** Each channel begins with the port's number. */
const prefixBytes = 2;

/**
 * Forwards connections to a Pod through the API server, as `kubectl port-forward` does: one WebSocket per connection. Source:
 * kubelet `server/portforward/websocket.go`. What is sent over it is not for the API server: the Pod speaks TLS.
 */
export async function forwardPort(api: ApiServer, target: ForwardedPod, limits = defaultLimits): Promise<PortForward> {
  const open = new Set<Socket>();
  let failure: string | undefined;
  const server = createServer((socket) => {
    open.add(socket);
    socket.once("close", () => open.delete(socket));
    socket.on("error", () => socket.destroy());
    tunnel(api, target, socket, limits, (reason) => (failure = reason.trim().slice(0, maxFailure))).catch(
      (error: unknown) => socket.destroy(error instanceof Error ? error : undefined),
    );
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  const address = server.address();
  if (address === null || typeof address === "string")
    throw new CodedError("ListenFailed", "the forwarded port has no address");
  return {
    port: address.port,
    get failure() {
      return failure;
    },
    async [Symbol.asyncDispose]() {
      for (const socket of open) socket.destroy();
      await new Promise((resolve) => void server.close(resolve));
    },
  };
}

async function tunnel(
  api: ApiServer,
  { namespace, pod, port }: ForwardedPod,
  socket: Socket,
  { openMs, maxUnreadBytes, maxUnsentBytes }: ForwardLimits,
  failed: (reason: string) => void,
): Promise<void> {
  socket.pause();
  const timer = setTimeout(() => socket.destroy(), openMs);
  socket.once("close", () => clearTimeout(timer));
  const { headers, tls } = await api.credentials();
  if (socket.destroyed) return;
  const path = `/api/v1/namespaces/${encodeURIComponent(namespace)}/pods/${encodeURIComponent(pod)}/portforward`;
  const url = `${api.url.replace(/^http/u, "ws")}${path}?ports=${port}`;
  const { proxy } = api;
  const remote = new WebSocket(url, { protocols: [protocol], headers: { ...headers }, tls, ...(proxy && { proxy }) });
  remote.binaryType = "arraybuffer";
  let isOpen = false;
  socket.once("close", () => remote.close());
  const ended = async (): Promise<void> => {
    if (!isOpen && !socket.destroyed) failed(await refusalOf(api, path, port));
    // The client may have to read on: what the Pod has sent is complete.
    socket.destroySoon();
  };
  remote.addEventListener("close", () => void ended());
  remote.addEventListener("open", () => {
    isOpen = true;
    clearTimeout(timer);
    socket.on("data", (chunk: Buffer) => {
      remote.send(Buffer.concat([Buffer.of(dataChannel), chunk]));
      if (remote.bufferedAmount <= maxUnsentBytes) return;
      socket.pause();
      const resume = (): unknown =>
        remote.bufferedAmount > maxUnsentBytes && !socket.destroyed
          ? setTimeout(resume, unsentCheckMs)
          : socket.resume();
      resume();
    });
    socket.resume();
  });
  const seen = new Map<number, number>();
  remote.addEventListener("message", ({ data }) => {
    if (!(data instanceof ArrayBuffer)) return;
    const [channel = dataChannel] = new Uint8Array(data, 0, 1);
    const skipped = Math.min(data.byteLength - 1, prefixBytes - (seen.get(channel) ?? 0));
    seen.set(channel, (seen.get(channel) ?? 0) + skipped);
    const content = Buffer.from(data, 1 + skipped);
    if (content.length === 0) return;
    if (channel === errorChannel) {
      failed(content.toString("utf8"));
      socket.destroy();
    } else if (channel === dataChannel) socket.write(content);
    // A WebSocket cannot be paused.
    if (socket.writableLength > maxUnreadBytes) socket.destroy();
  });
}

/** Why a WebSocket was refused, which does not say it: the same request without one gets the same answer, as text. */
async function refusalOf(api: ApiServer, path: string, port: number): Promise<string> {
  const transport = createTransport(api, {
    userAgent: "cloud-controller-host/port-forward",
    qps: -1,
    timeoutMs: 5_000,
    permissionHint: consoleHint,
  });
  try {
    await transport.send({ method: "GET", path, query: { ports: `${port}` } });
  } catch (error) {
    if (!(error instanceof ApiError && error.status === 400)) return messageOf(error);
  } finally {
    transport.close();
  }
  return "the API server opens no WebSocket to it";
}

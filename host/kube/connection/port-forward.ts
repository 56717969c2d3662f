import { createServer, type Socket } from "node:net";

import { CodedError } from "cloud-controller-host/sdk";

import type { ApiServer } from "./credentials.ts";

/** A port of a Pod on loopback, for as long as it is open. */
export interface PortForward extends AsyncDisposable {
  readonly port: number;
}

export interface ForwardedPod {
  readonly namespace: string;
  readonly pod: string;
  readonly port: number;
}

export interface ForwardLimits {
  /** From a connection until the Pod can be reached. */
  readonly openMs: number;
  /** What the Pod has sent on a connection and its client has not read. */
  readonly maxUnreadBytes: number;
}

const defaultLimits: ForwardLimits = { openMs: 30_000, maxUnreadBytes: 16 * 1024 * 1024 };

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
  const server = createServer((socket) => {
    open.add(socket);
    socket.once("close", () => open.delete(socket));
    socket.on("error", () => socket.destroy());
    tunnel(api, target, socket, limits).catch((error: unknown) =>
      socket.destroy(error instanceof Error ? error : undefined),
    );
  });
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(0, "127.0.0.1", resolve);
  });
  const address = server.address();
  if (address === null || typeof address === "string")
    throw new CodedError("ListenFailed", "the forwarded port has no address");
  return {
    port: address.port,
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
  { openMs, maxUnreadBytes }: ForwardLimits,
): Promise<void> {
  socket.pause();
  const timer = setTimeout(() => socket.destroy(), openMs);
  socket.once("close", () => clearTimeout(timer));
  const { headers, tls } = await api.credentials();
  if (socket.destroyed) return;
  const path = `/api/v1/namespaces/${encodeURIComponent(namespace)}/pods/${encodeURIComponent(pod)}/portforward`;
  const url = `${api.url.replace(/^http/u, "ws")}${path}?ports=${port}`;
  const remote = new WebSocket(url, { protocols: [protocol], headers: { ...headers }, tls });
  remote.binaryType = "arraybuffer";
  socket.once("close", () => remote.close());
  // The client may have to read on: what the Pod has sent is complete.
  remote.addEventListener("close", () => socket.destroySoon());
  remote.addEventListener("error", () => socket.destroy());
  remote.addEventListener("open", () => {
    clearTimeout(timer);
    socket.on("data", (chunk: Buffer) => remote.send(Buffer.concat([Buffer.of(dataChannel), chunk])));
    socket.resume();
  });
  const seen = new Map<number, number>();
  remote.addEventListener("message", ({ data }) => {
    if (!(data instanceof ArrayBuffer)) return;
    const [channel = dataChannel] = new Uint8Array(data, 0, 1);
    const skipped = Math.min(data.byteLength - 1, prefixBytes - (seen.get(channel) ?? 0));
    seen.set(channel, (seen.get(channel) ?? 0) + skipped);
    const content = Buffer.from(data, 1 + skipped);
    if (channel === errorChannel && content.length > 0) socket.destroy();
    else if (channel === dataChannel && content.length > 0) socket.write(content);
    // A WebSocket cannot be paused.
    if (socket.writableLength > maxUnreadBytes) socket.destroy();
  });
}

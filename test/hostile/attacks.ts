import { once } from "node:events";
import { connect as connectTcp, type Socket } from "node:net";
import { connect as connectTls } from "node:tls";

import type { KeyPair } from "../../host/process/serving/self-signed.ts";
import { frame, headers, preface } from "../kit/http2-frames.ts";

/**
 * One attack on a port of this machine. It is bounded in connections and time, and closes what it opened. Returns the
 * number of its connections.
 */
export type Attack = (target: Target) => Promise<number>;

export interface Target {
  readonly port: number;
  /** Of admission webhooks. */
  readonly webhookPort: number;
  readonly durationMs: number;
  /** A client certificate with the intermediates to send along. */
  readonly certificate: KeyPair;
}

/** An address of its own: the liveness probes come from another. */
const from = { host: "127.0.0.1", localAddress: "127.0.0.9" } as const;
const tls = { ...from, rejectUnauthorized: false } as const;

/** The server holds 256 in all: with more, it has to close connections. */
const minConnections = 300;
const maxConnections = 1_000;
/** For the fewest connections, on a machine that is too busy to open them in time. */
const maxOpeningMs = 20_000;

/** Opens connections, a few at a time, and holds what the server leaves open until the time is over. */
async function flood({ durationMs }: Target, open: () => Promise<Socket | undefined>): Promise<number> {
  const startedAt = performance.now();
  const elapsedMs = (): number => performance.now() - startedAt;
  const held = new Set<Socket>();
  let opened = 0;
  const worker = async (): Promise<void> => {
    while (opened < maxConnections && elapsedMs() < (opened < minConnections ? maxOpeningMs : durationMs)) {
      opened++;
      const socket = await open();
      socket?.resume();
      if (socket !== undefined) held.add(socket);
    }
  };
  await Promise.all(Array.from({ length: 10 }, worker));
  await Bun.sleep(Math.max(0, durationMs - elapsedMs()));
  for (const socket of held) socket.destroy();
  return held.size;
}

/** Runs an attack again and again from eight clients; returns how often it reached the server. */
async function repeated(durationMs: number, attempt: () => Promise<boolean>): Promise<number> {
  const until = performance.now() + durationMs;
  let count = 0;
  const client = async (): Promise<void> => {
    while (performance.now() < until) if (await attempt()) count++;
  };
  await Promise.all(Array.from({ length: 8 }, client));
  return count;
}

async function connected(socket: Socket, event: string): Promise<Socket | undefined> {
  socket.on("error", () => undefined);
  return once(socket, event).then(
    () => socket,
    () => undefined,
  );
}

const overTls = (port: number, more: object = {}): Promise<Socket | undefined> =>
  connected(connectTls({ ...tls, port, ...more }), "secureConnect");

const saying =
  (text: string) =>
  (target: Target): Promise<number> =>
    flood(target, async () => {
      const socket = await overTls(target.port);
      socket?.write(text);
      return socket;
    });

/**
 * Pipelines requests over a few connections, so many at a time; a cut connection is replaced. A client that reads no
 * reply leaves them to the server's memory.
 */
const pipelining =
  (atATime: number, reads: boolean) =>
  async ({ port, durationMs }: Target): Promise<number> => {
    const until = performance.now() + durationMs;
    const requests = "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n".repeat(atATime);
    let opened = 0;
    const attacker = async (): Promise<void> => {
      while (performance.now() < until) {
        const socket = await overTls(port);
        if (socket === undefined) continue;
        opened++;
        if (reads) socket.resume();
        for (let left = 40_000; left > 0 && !socket.destroyed && performance.now() < until; left -= atATime) {
          const goesOn = socket.write(requests) ? Bun.sleep(1) : once(socket, "drain");
          await Promise.race([goesOn, Bun.sleep(50)]).catch(() => undefined);
        }
        if (!reads && !socket.destroyed) await Bun.sleep(Math.max(0, until - performance.now()));
        socket.destroy();
      }
    };
    await Promise.all(Array.from({ length: 8 }, attacker));
    return opened;
  };

/** A header of 3,000 bytes that the decoder is to keep, and a list that names it 8,000 times: 24 MB when expanded. */
const largeHeader = Buffer.concat([headers, Buffer.from([0x40, 1, 0x61, 0x7f, 0xb9, 0x16]), Buffer.alloc(3_000, "a")]);
const references = Buffer.concat([headers, Buffer.alloc(8_000, 0xbe)]);
/** Fields that the decoder is not to keep, 10,000 bytes of them. */
const manyFields = Buffer.alloc(10_000, Buffer.from([0x00, 1, 0x61, 1, 0x62]));
/** 2,000 times the same setting. */
const manySettings = Buffer.alloc(12_000, Buffer.from([0, 3, 0, 0, 0, 100]));
const endStream = 0x1;
const endHeaders = 0x4;

/** Sends frames over a few HTTP/2 connections as fast as the server takes them; a cut connection is replaced. */
const http2Flood =
  (frames: (stream: number) => Buffer) =>
  async ({ port, durationMs }: Target): Promise<number> => {
    const until = performance.now() + durationMs;
    let opened = 0;
    const attacker = async (): Promise<void> => {
      while (performance.now() < until) {
        const socket = await overTls(port, { ALPNProtocols: ["h2"] });
        if (socket === undefined) continue;
        opened++;
        socket.setMaxListeners(0);
        socket.resume();
        socket.write(preface);
        for (let stream = 1; !socket.destroyed && performance.now() < until; stream += 2 * 64) {
          const batch = Array.from({ length: 64 }, (_, i) => frames(stream + 2 * i));
          if (!socket.write(Buffer.concat(batch)))
            await Promise.race([once(socket, "drain"), Bun.sleep(50)]).catch(() => undefined);
        }
        socket.destroy();
      }
    };
    await Promise.all([attacker(), attacker()]);
    return opened;
  };

/** Thirty reviews of 3 MB at a time, again and again. */
const webhookBodies =
  (object: string): Attack =>
  async ({ webhookPort, durationMs }) => {
    const until = performance.now() + durationMs;
    const kind = '"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"';
    const body = `{${kind},"request":{"uid":"u","object":${object}}}`;
    let sent = 0;
    const client = async (): Promise<void> => {
      while (performance.now() < until) {
        const signal = AbortSignal.timeout(Math.max(1, until - performance.now()));
        await fetch(`https://127.0.0.1:${webhookPort}/any`, {
          method: "POST",
          keepalive: false,
          headers: { "content-type": "application/json" },
          body,
          signal,
          tls: { rejectUnauthorized: false },
        }).catch(() => undefined);
        sent++;
      }
    };
    await Promise.all(Array.from({ length: 30 }, client));
    return sent;
  };

export const attacks = {
  "idle TCP connections": (target) =>
    flood(target, () => connected(connectTcp({ ...from, port: target.port }), "connect")),
  "requests whose body never arrives": saying("POST /livez HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n"),
  "bodies in endless chunks of a byte": saying(
    `POST /livez HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n${"1\r\na\r\n".repeat(10_000)}`,
  ),
  "unfinished headers of 60 KB": saying(`GET /livez HTTP/1.1\r\nHost: x\r\nX-Long: ${"x".repeat(60_000)}`),
  "unfinished headers of 900 KB": saying(`GET /livez HTTP/1.1\r\nHost: x\r\nX-Long: ${"x".repeat(900_000)}`),
  "60 KB of many headers": saying(`GET /livez HTTP/1.1\r\nHost: x\r\n${"a: b\r\n".repeat(10_000)}`),
  "handshakes that are never finished": (target) =>
    flood(target, async () => {
      const socket = await connected(connectTcp({ ...from, port: target.port }), "connect");
      // The head of a record with a ClientHello of 512 bytes, and a part of that.
      socket?.write(Buffer.from([0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3]));
      return socket;
    }),
  "handshakes one after another": ({ port, durationMs }) =>
    repeated(durationMs, async () => {
      const socket = await overTls(port);
      socket?.destroy();
      return socket !== undefined;
    }),
  "unknown tokens of 50 KB": ({ port, durationMs }) =>
    repeated(durationMs, async () => {
      const socket = await overTls(port);
      const token = crypto.randomUUID().repeat(1_400);
      socket?.write(`GET /metrics HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${token}\r\nConnection: close\r\n\r\n`);
      socket?.resume();
      if (socket !== undefined) await Promise.race([once(socket, "close"), Bun.sleep(1_000)]).catch(() => undefined);
      socket?.destroy();
      return socket !== undefined;
    }),
  "requests with eight intermediates of one subject": async ({ port, durationMs, certificate }) => {
    const until = performance.now() + durationMs;
    let opened = 0;
    const client = async (): Promise<void> => {
      while (performance.now() < until) {
        const socket = await overTls(port, { cert: certificate.certPem, key: certificate.keyPem });
        if (socket !== undefined) opened++;
        socket?.write("GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        socket?.resume();
        if (socket !== undefined) await Promise.race([once(socket, "close"), Bun.sleep(1_000)]);
        socket?.destroy();
      }
    };
    await Promise.all(Array.from({ length: 4 }, client));
    return opened;
  },
  "40,000 pipelined requests at once": pipelining(40_000, true),
  "40,000 pipelined requests at once and reads no reply": pipelining(40_000, false),
  "40,000 pipelined requests, a few at a time": pipelining(100, true),
  "40,000 pipelined requests, a few at a time, and reads no reply": pipelining(100, false),
  "webhook bodies of 1,500,000 nested arrays": webhookBodies(`${"[".repeat(1_500_000)}${"]".repeat(1_500_000)}`),
  "webhook bodies of a million objects": webhookBodies(`[${"{},".repeat(1_000_000)}{}]`),
  "webhook bodies of as many objects as are accepted": webhookBodies(
    `[${"{},".repeat(74_000)}"${"x".repeat(2_700_000)}"]`,
  ),
  "webhook bodies of one text": webhookBodies(`"${"x".repeat(3_000_000)}"`),
  "HTTP/2 rapid reset": http2Flood((stream) =>
    Buffer.concat([frame(1, endStream | endHeaders, stream, headers), frame(3, 0, stream, Buffer.alloc(4))]),
  ),
  "HTTP/2 pings": http2Flood(() => frame(6, 0, 0, Buffer.alloc(8))),
  "HTTP/2 settings": http2Flood(() => frame(4, 0, 0)),
  "HTTP/2 empty data": http2Flood((stream) => (stream === 1 ? frame(1, endHeaders, 1, headers) : frame(0, 0, 1))),
  "HTTP/2 continuations": http2Flood((stream) => (stream === 1 ? frame(1, 0, 1, headers) : frame(9, 0, 1))),
  "HTTP/2 continuations of 10,000 bytes": http2Flood((stream) =>
    stream === 1 ? frame(1, 0, 1, headers) : frame(9, 0, 1, manyFields),
  ),
  "HTTP/2 settings, 2,000 in a frame": http2Flood(() => frame(4, 0, 0, manySettings)),
  "HTTP/2 priorities": http2Flood((stream) => frame(2, 0, stream, Buffer.from([0, 0, 0, 0, 16]))),
  "HTTP/2 window updates": http2Flood(() => frame(8, 0, 0, Buffer.from([0, 0, 0, 1]))),
  "HTTP/2 frames of an unknown type": http2Flood(() => frame(77, 0, 0)),
  "HTTP/2 requests whose replies have no window": http2Flood((stream) =>
    Buffer.concat([
      ...(stream === 1 ? [frame(4, 0, 0, Buffer.from([0, 4, 0, 0, 0, 0]))] : []),
      frame(1, endStream | endHeaders, stream, headers),
    ]),
  ),
  "HTTP/2 headers that refer to a large one many times": http2Flood((stream) =>
    frame(1, endStream | endHeaders, stream, stream === 1 ? largeHeader : references),
  ),
  "HTTP/2 streams that are never finished": http2Flood((stream) => frame(1, endHeaders, stream, headers)),
} satisfies Readonly<Record<string, Attack>>;

export type AttackName = keyof typeof attacks;

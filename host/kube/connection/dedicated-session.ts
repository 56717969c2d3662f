import { type IncomingMessage, request as httpRequest } from "node:http";
import { Agent, request as httpsRequest, type RequestOptions } from "node:https";

import type { Credentials } from "./credentials.ts";

/** The part of `Bun.FetchSession` that requests need. */
export interface Session {
  fetch(url: string, init: BunFetchRequestInit): Promise<Response>;
  /** Closes idle connections; those of requests in flight are closed once these have ended. */
  close(): void;
}

/**
 * A session on node:https, for requests that must get through whatever the rest of the process does: `fetch` has one
 * process-wide limit of requests in flight (256 by default), sessions included, and a plugin that fills it would
 * starve the lease. Replies are read whole; it is not for streams.
 */
export function dedicatedSession(tls: Credentials["tls"]): Session {
  const { serverName, ...rest } = tls;
  const agent = new Agent({ keepAlive: true, maxSockets: 4, ...rest, ...(serverName && { servername: serverName }) });
  let inFlight = 0;
  let closed = false;
  // `destroy` cuts requests in flight too, such as the renewal of another lease while the certificate changes.
  const closeIdle = (): void => {
    if (closed && inFlight === 0) agent.destroy();
  };
  return {
    async fetch(url, init) {
      inFlight += 1;
      try {
        return await send(url, init, agent);
      } finally {
        inFlight -= 1;
        closeIdle();
      }
    },
    close() {
      closed = true;
      closeIdle();
    },
  };
}

function send(url: string, { method = "GET", headers, body, signal }: BunFetchRequestInit, agent: Agent) {
  return new Promise<Response>((resolve, reject) => {
    const secure = url.startsWith("https:");
    const options: RequestOptions = {
      method,
      headers: Object.fromEntries(new Headers(headers)),
      ...(secure && { agent }),
      ...(signal && { signal }),
    };
    const call = (secure ? httpsRequest : httpRequest)(url, options, (reply) => {
      const chunks: Buffer[] = [];
      reply.on("data", (chunk: Buffer) => chunks.push(chunk));
      reply.on("error", reject);
      // Thrown in an event handler, an error would end the process.
      reply.on("end", () => resolve(Promise.try(() => responseOf(reply, Buffer.concat(chunks)))));
    });
    call.on("error", reject);
    // It has no reply, and without a handler neither its end nor the signal would settle the promise.
    call.on("upgrade", (reply, socket) => {
      socket.destroy();
      reject(new Error(`unexpected status ${reply.statusCode}`));
    });
    call.end(typeof body === "string" ? body : undefined);
  });
}

/** Throws for a status that HTTP does not have. */
function responseOf({ statusCode: status = 502, headers }: IncomingMessage, bytes: Buffer): Response {
  const empty = bytes.length === 0 || status === 204 || status === 304;
  return new Response(empty ? null : bytes, { status, headers: singleValued(headers) });
}

const singleValued = (headers: NodeJS.Dict<string | string[]>): Record<string, string> =>
  Object.fromEntries(
    Object.entries(headers).flatMap(([name, value]) =>
      value === undefined ? [] : [[name, typeof value === "string" ? value : value.join(", ")]],
    ),
  );

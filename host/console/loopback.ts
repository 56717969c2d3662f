import { messageOf } from "cloud-controller-host/sdk";

/** Sends a request for `/ui/…` to a host, with credentials. */
export type Forward = (path: string, headers: Headers, signal: AbortSignal) => Promise<Response>;

export interface Loopback extends AsyncDisposable {
  /** URL for a browser on this machine. */
  readonly url: string;
}

/** Event streams may be idle for several seconds. */
const idleSeconds = 120;

/**
 * Serves the console of a host on loopback, so that a browser needs no credentials; they appear in no reply, URL
 * or cookie. Pages of other sites are refused by `Sec-Fetch-Site`, and host names bound to this address by `Host`.
 */
export function serveLoopback(port: number, forward: Forward): Loopback {
  const server = Bun.serve({
    hostname: "127.0.0.1",
    port,
    idleTimeout: idleSeconds,
    // The runtime's own page about an error shows source code.
    development: false,
    // Without development, the runtime would share the port, and answer for one console with another.
    reusePort: false,
    async fetch(request) {
      // Checked first: the URL contains the client's Host header, which may be invalid.
      const refusal = refusalOf(request, server.port ?? 0);
      if (refusal !== undefined) return plain(403, refusal);
      const { pathname, search } = new URL(request.url);
      if (pathname === "/") return new Response(null, { status: 302, headers: { Location: "/ui/" } });
      if (!/^\/ui(?:\/|$)/u.test(pathname)) return plain(404, "only /ui/ is served here");
      if (request.method !== "GET" && request.method !== "HEAD")
        return plain(405, "the console is read-only", { Allow: "GET, HEAD" });
      const lastId = request.headers.get("last-event-id");
      const headers = new Headers(lastId === null ? {} : { "Last-Event-ID": lastId });
      try {
        const reply = await forward(`${pathname}${search}`, headers, request.signal);
        // The runtime cancels the body in answer to HEAD.
        return new Response(reply.body, { status: reply.status, headers: passedOn(reply.headers) });
      } catch (error) {
        const body = JSON.stringify({ error: `the host cannot be reached: ${messageOf(error)}` });
        return new Response(body, { status: 502, headers: { "Content-Type": "application/json", ...noStore } });
      }
    },
  });
  return {
    url: `http://127.0.0.1:${server.port}/ui/`,
    async [Symbol.asyncDispose]() {
      await server.stop(true);
    },
  };
}

const noStore = { "Cache-Control": "no-store", "X-Content-Type-Options": "nosniff" };

const plain = (status: number, text: string, more: Record<string, string> = {}): Response =>
  new Response(`${text}\n`, { status, headers: { "Content-Type": "text/plain", ...noStore, ...more } });

/** Reason to refuse a request that is for another host name or comes from another site; undefined to serve it. */
export function refusalOf({ headers }: Pick<Request, "headers">, port: number): string | undefined {
  // Without the port where it is that of the scheme, as browsers write it.
  const own = ["127.0.0.1", "localhost"].map((name) => new URL(`http://${name}:${port}`).host);
  if (!own.includes(headers.get("host") ?? "")) return "the request is for another host name";
  const site = headers.get("sec-fetch-site") ?? "none";
  return site === "same-origin" || site === "none" ? undefined : "the request comes from a page of another site";
}

/** Headers of the host's reply, without those of its connection and of its encoding: `fetch` has decoded the body. */
function passedOn(headers: Headers): Headers {
  const passed = new Headers(headers);
  for (const name of [
    "connection",
    "content-encoding",
    "content-length",
    "keep-alive",
    "set-cookie",
    "transfer-encoding",
  ])
    passed.delete(name);
  return passed;
}

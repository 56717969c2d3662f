import { writeFile } from "node:fs/promises";
import { join } from "node:path";

import type { Cluster } from "../envtest/cluster.ts";

/** One request as it was sent, and the status of its reply. */
export interface TappedRequest {
  readonly method: string;
  /** Path and query. */
  readonly uri: string;
  readonly contentType: string;
  readonly userAgent: string;
  readonly body: unknown;
  /** Undefined until the reply. */
  readonly status: number | undefined;
}

/** A proxy between a host and the real API server that records all requests. */
export interface Wiretap extends AsyncDisposable {
  /** Kubeconfig of a host that uses the proxy. */
  readonly kubeconfig: string;
  /** Oldest first. */
  readonly requests: readonly TappedRequest[];
}

/** Serves plain HTTP to the host, and authenticates to the API server as that user. */
export async function tapWire(cluster: Cluster, user: string, folder: string): Promise<Wiretap> {
  const [{ server, caPem }, pair] = await Promise.all([cluster.endpoint(), cluster.certificate(user)]);
  const tls = { ca: caPem, cert: pair.certPem, key: pair.keyPem };
  const requests: TappedRequest[] = [];
  const tap = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    idleTimeout: 0,
    async fetch(request) {
      const { pathname, search } = new URL(request.url);
      const text = await request.text();
      const note = {
        method: request.method,
        uri: pathname + search,
        contentType: request.headers.get("content-type") ?? "",
        userAgent: request.headers.get("user-agent") ?? "",
        body: bodyOf(text),
        status: undefined,
      };
      const place = requests.push(note) - 1;
      const headers = new Headers(request.headers);
      headers.delete("host");
      const response = await fetch(server + note.uri, {
        method: request.method,
        headers,
        tls,
        signal: request.signal,
        ...(text === "" ? {} : { body: text }),
      });
      requests[place] = { ...note, status: response.status };
      return response;
    },
  });
  const kubeconfig = join(folder, "wiretap.kubeconfig");
  await writeFile(kubeconfig, kubeconfigOf(tap.url.origin));
  return { kubeconfig, requests, [Symbol.asyncDispose]: () => tap.stop(true) };
}

const bodyOf = (text: string): unknown => (text === "" ? undefined : JSON.parse(text));

/** For a server that asks for no credentials. */
export const kubeconfigOf = (server: string): string =>
  JSON.stringify({
    apiVersion: "v1",
    kind: "Config",
    clusters: [{ name: "tap", cluster: { server } }],
    users: [{ name: "tap", user: {} }],
    contexts: [{ name: "tap", context: { cluster: "tap", user: "tap" } }],
    "current-context": "tap",
  });

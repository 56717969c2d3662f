import { ApiError } from "cloud-controller-host/sdk";

import type { Transport } from "../../kube/connection/transport.ts";

/** One request of a controller's client and the status of its reply. */
export interface SentRequest {
  readonly client: string;
  readonly method: string;
  /** Without the query. */
  readonly path: string;
  readonly query: Readonly<Record<string, string | undefined>>;
  readonly contentType: string;
  readonly body: unknown;
  /** Undefined before the reply. */
  readonly status: number | undefined;
}

/** Selects the requests that match every field given. */
export type SentMatch = Partial<Pick<SentRequest, "client" | "method" | "path" | "status">>;

export const matchesSent = (match: SentMatch, sent: SentRequest): boolean =>
  (match.client === undefined || match.client === sent.client) &&
  (match.method === undefined || match.method === sent.method) &&
  (match.path === undefined || match.path === sent.path) &&
  (match.status === undefined || match.status === sent.status);

/** A transport that appends every request to `sent`. */
export function recordSent(transport: Transport, client: string, sent: SentRequest[]): Transport {
  return {
    url: transport.url,
    userAgent: transport.userAgent,
    close: () => transport.close(),
    async send(request) {
      const entry: { status: number | undefined } & Omit<SentRequest, "status"> = {
        client,
        method: request.method,
        path: request.path,
        query: request.query ?? {},
        contentType: request.contentType ?? "application/json",
        body: structuredClone(request.body),
        status: undefined,
      };
      sent.push(entry);
      try {
        const response = await transport.send(request);
        entry.status = response.status;
        return response;
      } catch (error) {
        if (error instanceof ApiError) entry.status = error.status;
        throw error;
      }
    },
  };
}

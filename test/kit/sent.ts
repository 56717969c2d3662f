import { ApiError } from "cloud-controller-host/sdk";

import type { Transport } from "../../host/kube/connection/transport.ts";

/** One request of a controller's own client, as it was handed to the transport, and the code of its reply. */
export interface SentRequest {
  readonly client: string;
  readonly method: string;
  /** Without the query. */
  readonly path: string;
  readonly query: Readonly<Record<string, string | undefined>>;
  readonly contentType: string;
  readonly body: unknown;
  /** Undefined while there is no reply. */
  readonly status: number | undefined;
}

/** Which requests are meant: those that agree with every field given. */
export type SentMatch = Partial<Pick<SentRequest, "client" | "method" | "path" | "status">>;

export const matchesSent = (match: SentMatch, sent: SentRequest): boolean =>
  (match.client === undefined || match.client === sent.client) &&
  (match.method === undefined || match.method === sent.method) &&
  (match.path === undefined || match.path === sent.path) &&
  (match.status === undefined || match.status === sent.status);

/** The transport, with a note of all that is sent over it. */
export function noted(transport: Transport, client: string, sent: SentRequest[]): Transport {
  return {
    url: transport.url,
    userAgent: transport.userAgent,
    close: () => transport.close(),
    async send(request) {
      const note: { status: number | undefined } & Omit<SentRequest, "status"> = {
        client,
        method: request.method,
        path: request.path,
        query: request.query ?? {},
        contentType: request.contentType ?? "application/json",
        body: structuredClone(request.body),
        status: undefined,
      };
      sent.push(note);
      try {
        const response = await transport.send(request);
        note.status = response.status;
        return response;
      } catch (error) {
        if (error instanceof ApiError) note.status = error.status;
        throw error;
      }
    },
  };
}

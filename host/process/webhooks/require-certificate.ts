import type { Clock, Logger } from "cloud-controller-host/sdk";

import type { ClientCAs } from "../access/client-ca.ts";
import { ThrottledLog } from "../log/throttled-log.ts";
import type { Handler } from "../serving/respond.ts";

/** Rejects requests without a certificate from one of the client CAs with 401, before their bodies are read. */
export function requireCertificate(
  cas: Pick<ClientCAs, "clients">,
  handler: Handler,
  { clock, log }: { readonly clock: Clock; readonly log: Logger },
): Handler {
  const failures = new ThrottledLog(log, clock);
  return async (request, peer) => {
    try {
      if (cas.clients === undefined || peer.certificate === undefined)
        return refused("a client certificate is required");
      await cas.clients.verify(peer.certificate);
    } catch (error) {
      failures.error("Unable to authenticate the webhook's client", { error, srcIP: `${peer.address}:${peer.port}` });
      return refused("the client certificate is not trusted");
    }
    peer.authenticated();
    return handler(request, peer);
  };
}

const refused = (why: string): Response => new Response(`${why}\n`, { status: 401, headers: { connection: "close" } });

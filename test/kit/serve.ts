import { connect } from "node:tls";

import { createLogger } from "../../host/process/log/log.ts";
import { selfSigned } from "../../host/process/serving/self-signed.ts";
import { serve, type Served, type ServeOptions } from "../../host/process/serving/tls-server.ts";

/** A log that is not read. */
const silentLog = createLogger({ format: "text", verbosity: 0, write: () => undefined });

/** Serves on a free port of the loopback interface, by default with a certificate of its own and a silent log. */
export const serveLocally = async (options: Partial<ServeOptions> & Pick<ServeOptions, "handler">): Promise<Served> =>
  serve({ address: "127.0.0.1", port: 0, certificate: await selfSigned("", Date.now()), log: silentLog, ...options });

interface ExchangeOptions {
  /** Offered by ALPN. */
  readonly protocols?: readonly string[];
  /** Ends the connection when the server is silent for this long. */
  readonly silenceMs?: number;
}

/** Sends bytes over one TLS connection, and returns the whole reply until the connection ends. */
export function exchange(
  { port }: Served,
  bytes: Uint8Array,
  { protocols = [], silenceMs = 0 }: ExchangeOptions = {},
): Promise<string> {
  return new Promise((resolve) => {
    let reply = "";
    const socket = connect({ host: "127.0.0.1", port, rejectUnauthorized: false, ALPNProtocols: [...protocols] });
    socket.on("secureConnect", () => {
      socket.write(bytes);
      socket.setTimeout(silenceMs, () => socket.destroy());
    });
    socket.on("data", (chunk: Buffer) => (reply += chunk.toString("latin1")));
    socket.on("error", () => undefined);
    socket.on("close", () => resolve(reply));
  });
}

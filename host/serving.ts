import { configz, flagz } from "./config/configz.ts";
import { tlsSettings } from "./config/tls-names.ts";
import type { HostStatus } from "./host.ts";
import type { HostInput, ProcessParts } from "./process-parts.ts";
import { followCertificate, openCertificate } from "./process/certificates.ts";
import { createEndpoints } from "./process/endpoints.ts";
import { serve } from "./process/serving.ts";

export interface OpenServing {
  readonly url: string;
  close(): Promise<void>;
}

/** Serves health, metrics and status over TLS from the first moment on; undefined with `--secure-port=0`. */
export async function openServing(
  { options, settings }: HostInput,
  parts: ProcessParts,
  status: () => HostStatus,
): Promise<OpenServing | undefined> {
  if (options.securePort === 0) return undefined;
  const { log, clock, health, metrics, slis } = parts;
  const certificate = await openCertificate({
    certFile: options.tlsCertFile,
    keyFile: options.tlsPrivateKeyFile,
    certDir: options.certDir,
    bindAddress: options.bindAddress,
    clock,
  });
  const endpoints = createEndpoints({
    health,
    metrics,
    slis,
    configz: () => configz(options, { generation: status().generation }),
    flagz: () => flagz(settings),
    statusz: status,
  });
  const server = await serve({
    address: options.bindAddress,
    port: options.securePort,
    certificate: certificate.pair,
    handler: (request) => endpoints.handle(request),
    log,
    tls: tlsSettings(options),
    http2: !options.disableHttp2Serving,
    sharePort: options.permitPortSharing,
  });
  const stop = new AbortController();
  const { files, pair: current } = certificate;
  const changed = (pair: typeof current): void => server.setCertificate(pair);
  const following = files && followCertificate({ files, current, clock, log, changed, signal: stop.signal });
  return {
    url: `https://${urlHost(server.address)}:${server.port}`,
    async close() {
      stop.abort();
      await following;
      await server.close();
    },
  };
}

/** An address that a client on this machine can use, IPv6 in brackets. */
function urlHost(address: string): string {
  if (address === "0.0.0.0" || address === "::") return "127.0.0.1";
  return address.includes(":") ? `[${address}]` : address;
}

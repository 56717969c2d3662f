import type { Clock, Logger, WebhookPlugin } from "cloud-controller-host/sdk";

import type { Options } from "../config/flags/options.ts";
import { complete } from "../config/validate/complete.ts";
import { keyTypeFor, tlsSettings } from "../config/values/tls-names.ts";
import { isWebhookEnabled } from "../generation/plugins/enabled.ts";
import { ClientCAs } from "../process/access/client-ca.ts";
import { ThrottledLog } from "../process/log/throttled-log.ts";
import { followCertificate, openCertificate } from "../process/serving/certificates.ts";
import { openNamedCertificates } from "../process/serving/named-certificates.ts";
import type { Handler } from "../process/serving/respond.ts";
import { serve } from "../process/serving/tls-server.ts";
import { admissionHandler } from "../process/webhooks/admission.ts";
import type { ProcessParts } from "./process-parts.ts";
import { type OpenServing, urlHost } from "./secure-serving.ts";

/** Base name of the pair in `--webhook-cert-dir`, as upstream. */
const pairName = "cloud-controller-manager-webhook";

/**
 * Serves the admission webhooks in every replica, with the plugins of the generation that runs or stands by. Undefined
 * when `--webhooks` is empty or the feature gate is off. upstream: clients are not authenticated, as here without
 * `--webhook-client-ca-file`.
 */
export async function openWebhookServing(
  options: Options,
  { clock, log, metrics }: ProcessParts,
  current: () => readonly WebhookPlugin[] | undefined,
): Promise<OpenServing | undefined> {
  if (options.webhooks.length === 0) return undefined;
  if (!complete(options).featureEnabled("CloudControllerManagerWebhook")) {
    log.warn("Webhooks are not served: the feature gate CloudControllerManagerWebhook is off");
    return undefined;
  }
  const tls = {
    tlsCipherSuites: options.webhookTlsCipherSuites,
    tlsCurvePreferences: options.webhookTlsCurvePreferences,
    tlsMinVersion: options.webhookTlsMinVersion,
  };
  const names = await openNamedCertificates(options.webhookTlsSniCertKey, {
    clock,
    log,
    flag: "--webhook-tls-sni-cert-key",
  });
  const certificate = await openCertificate({
    certFile: options.webhookTlsCertFile,
    keyFile: options.webhookTlsPrivateKeyFile,
    certDir: options.webhookCertDir,
    bindAddress: options.webhookBindAddress,
    pairName,
    flagPrefix: "--webhook-",
    keyType: keyTypeFor(tls),
    clock,
  });
  const cas = await openClientCAs(options, { clock, log });
  const webhooks = (): readonly WebhookPlugin[] | undefined =>
    current()?.filter(({ name }) => isWebhookEnabled(name, options.webhooks));
  const admit: Handler = admissionHandler({ webhooks, log, clock, metrics: metrics.root });
  const server = await serve({
    address: options.webhookBindAddress,
    port: options.webhookSecurePort,
    flags: { port: "--webhook-secure-port", address: "--webhook-bind-address" },
    certificate: certificate.pair,
    handler: cas === undefined ? admit : requireCertificate(cas, admit, { clock, log }),
    log,
    tls: { ...tlsSettings(tls), byServerName: (name) => names.byServerName(name) },
    // An object with its old state, each up to etcd's limit of 1.5 MiB.
    limits: { maxBodyBytes: 4 * 1024 * 1024 },
    http2: !options.webhookDisableHttp2Serving,
  });
  const stop = new AbortController();
  const { files, pair } = certificate;
  const changed = (next: typeof pair): void => server.setCertificate(next);
  const following = Promise.all([
    names.run(stop.signal),
    cas?.follow(stop.signal),
    files && followCertificate({ files, current: pair, clock, log, changed, signal: stop.signal }),
  ]);
  const url = `https://${urlHost(server.address)}:${server.port}`;
  log.info("Serving admission webhooks", { url });
  return {
    url,
    async close() {
      stop.abort();
      await following;
      await server.close(closeGraceMs);
    },
  };
}

/** Undefined without `--webhook-client-ca-file`. */
async function openClientCAs(
  options: Options,
  context: Pick<ProcessParts, "clock" | "log">,
): Promise<ClientCAs | undefined> {
  const clientCaFile = options.webhookClientCaFile;
  if (clientCaFile === "") return undefined;
  return ClientCAs.open({
    ...context,
    flags: { ...options, clientCaFile, requestheaderClientCaFile: "" },
    clientCaFlag: "--webhook-client-ca-file",
    client: undefined,
  });
}

/** Admission requests in flight may end. */
const closeGraceMs = 5_000;

/** Rejects requests without a certificate from one of the client CAs with 401, before their bodies are read. */
function requireCertificate(
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

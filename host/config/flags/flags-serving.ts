import {
  cipherSuiteNotice,
  cipherSuiteProblem,
  cipherSuites,
  curveProblem,
  curves,
  tlsVersionProblem,
  tlsVersions,
} from "../values/tls-names.ts";
import { atLeast, port } from "./checks.ts";
import { bool, certKeys, int, int32s, ip, string, strings } from "./flag-types.ts";
import { flag } from "./flag.ts";

const suites = {
  preferred: [...cipherSuites].filter(([, suite]) => suite.insecure !== true).map(([name]) => name),
  insecure: [...cipherSuites].filter(([, suite]) => suite.insecure === true && suite.openssl).map(([name]) => name),
};
const groups = [...curves].flatMap(([id, name]) => (name === undefined ? [] : [`${id} (${name})`]));

const tlsChecks = {
  suites: { check: cipherSuiteProblem, notice: cipherSuiteNotice },
  curves: { check: curveProblem },
  version: { check: tlsVersionProblem },
} as const;

export const servingFlags = {
  "bind-address": flag(
    ip,
    "0.0.0.0",
    "IP address to serve on. 0.0.0.0 and :: stand for all interfaces and both address families.",
  ),
  "secure-port": flag(int, 10_258, "Port for HTTPS with authentication and authorization. 0 disables serving.", {
    check: port,
  }),
  "disable-http2-serving": flag(bool, false, "Disables HTTP/2; serves HTTP/1.1 only."),
  "cert-dir": flag(
    string,
    "",
    "Directory of the serving certificate; a self-signed one is created there if missing. If empty, it is created in memory. Ignored with --tls-cert-file.",
  ),
  "tls-cert-file": flag(string, "", "File with the PEM-encoded serving certificate, followed by its chain."),
  "tls-private-key-file": flag(string, "", "File with the PEM-encoded private key for --tls-cert-file."),
  "tls-cipher-suites": flag(
    strings,
    [],
    `TLS 1.2 cipher suites to offer. If empty, the ECDHE suites with AES-GCM or ChaCha20-Poly1305 are offered. TLS 1.3 suites are always enabled. Preferred: ${suites.preferred.join(", ")}. Insecure: ${suites.insecure.join(", ")}.`,
    tlsChecks.suites,
  ),
  "tls-curve-preferences": flag(
    int32s,
    [],
    `Key exchange groups to offer, by number: ${groups.join(", ")}. If empty, the runtime's defaults are used. The order has no effect.`,
    tlsChecks.curves,
  ),
  "tls-min-version": flag(
    string,
    "",
    `Minimum TLS version: ${[...tlsVersions.keys()].join(", ")}. If empty, VersionTLS12.`,
    tlsChecks.version,
  ),
  "tls-sni-cert-key": flag(
    certKeys,
    [],
    "Certificate and key for SNI, as cert,key or cert,key:name1,name2; a name may begin with '*.'. Without names, the certificate's names apply. May be repeated.",
  ),
  "http2-max-streams-per-connection": flag(
    int,
    0,
    "Maximum number of concurrent requests per HTTP/2 connection. 0 means 16.",
    { check: atLeast(0) },
  ),
  "permit-port-sharing": flag(bool, false, "Sets SO_REUSEPORT, so that several processes can listen on the same port."),
  "permit-address-sharing": flag(bool, false, "Accepted without effect: the runtime always sets SO_REUSEADDR.", {
    notice: (on) => (on ? "is accepted without effect: the runtime always sets SO_REUSEADDR" : undefined),
  }),
};

const inherited = { from: "upstream" } as const;

export const webhookFlags = {
  webhooks: flag(
    strings,
    [],
    "Admission webhooks to serve: '*' for all, 'foo' for the webhook plugin foo, '-foo' to exclude it. None is served by default. Requires the feature gate CloudControllerManagerWebhook.",
    inherited,
  ),
};

export const webhookServingFlags = {
  "webhook-bind-address": flag(ip, "0.0.0.0", "IP address on which admission webhooks are served.", inherited),
  "webhook-secure-port": flag(int, 10_260, "Port on which admission webhooks are served.", {
    ...inherited,
    check: port,
  }),
  "webhook-disable-http2-serving": flag(bool, false, "Serves admission webhooks over HTTP/1.1 only.", inherited),
  "webhook-cert-dir": flag(
    string,
    "",
    "Directory of the webhook server's certificate: cloud-controller-manager-webhook.crt and .key, created if missing. If empty, the certificate is created in memory.",
    inherited,
  ),
  "webhook-client-ca-file": flag(
    string,
    "",
    "CA bundle for client certificates, such as the one that the API server presents if its AdmissionConfiguration names it. If set, requests without a certificate from one of these CAs are rejected with 401.",
  ),
  "webhook-tls-cert-file": flag(
    string,
    "",
    "Certificate of the webhook server in PEM, followed by its intermediates.",
    inherited,
  ),
  "webhook-tls-private-key-file": flag(string, "", "Private key for --webhook-tls-cert-file.", inherited),
  "webhook-tls-cipher-suites": flag(strings, [], "TLS 1.2 cipher suites of the webhook server, by Go's names.", {
    ...inherited,
    ...tlsChecks.suites,
  }),
  "webhook-tls-curve-preferences": flag(int32s, [], "Key exchange groups of the webhook server, by Go's numbers.", {
    ...inherited,
    ...tlsChecks.curves,
  }),
  "webhook-tls-min-version": flag(
    string,
    "",
    "Minimum TLS version of the webhook server: VersionTLS12 or VersionTLS13.",
    { ...inherited, ...tlsChecks.version },
  ),
  "webhook-tls-sni-cert-key": flag(
    certKeys,
    [],
    "Certificate and key of the webhook server for SNI, as for --tls-sni-cert-key.",
    inherited,
  ),
};

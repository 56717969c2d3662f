import { atLeast, port } from "./checks.ts";
import { bool, certKeys, int, int32s, ip, string, strings } from "./flag-types.ts";
import { flag } from "./flag.ts";
import {
  cipherSuiteNotice,
  cipherSuiteProblem,
  cipherSuites,
  curveProblem,
  curves,
  tlsVersionProblem,
  tlsVersions,
} from "./tls-names.ts";

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
    "Address to serve on. 0.0.0.0 and :: mean all interfaces and both address families.",
  ),
  "secure-port": flag(
    int,
    10_258,
    "Port to serve HTTPS on, with authentication and authorization. 0 turns serving off.",
    { check: port },
  ),
  "disable-http2-serving": flag(bool, false, "Serves HTTP/1.1 only."),
  "cert-dir": flag(
    string,
    "",
    "Folder where the serving certificate is read, or made when there is none. Empty: it is made and kept in memory. Not used with --tls-cert-file.",
  ),
  "tls-cert-file": flag(string, "", "File with the serving certificate, its chain after it, in PEM."),
  "tls-private-key-file": flag(string, "", "File with the private key of --tls-cert-file, in PEM."),
  "tls-cipher-suites": flag(
    strings,
    [],
    `Cipher suites of TLS 1.2 to offer; empty means the runtime's own choice. Those of TLS 1.3 are always on. Preferred: ${suites.preferred.join(", ")}. Insecure: ${suites.insecure.join(", ")}.`,
    tlsChecks.suites,
  ),
  "tls-curve-preferences": flag(
    int32s,
    [],
    `Key exchange groups to offer, by number: ${groups.join(", ")}. Empty means the runtime's own choice. Their order does not matter.`,
    tlsChecks.curves,
  ),
  "tls-min-version": flag(
    string,
    "",
    `Lowest TLS version to accept: ${[...tlsVersions.keys()].join(", ")}. Empty means VersionTLS12.`,
    tlsChecks.version,
  ),
  "tls-sni-cert-key": flag(
    certKeys,
    [],
    "Certificate and key for some host names, as cert,key or cert,key:name1,name2; a name may begin with '*.'. Without names, those in the certificate. May be repeated.",
  ),
  "http2-max-streams-per-connection": flag(
    int,
    0,
    "Requests that one HTTP/2 connection may have open at once. 0 means 100.",
    { check: atLeast(0) },
  ),
  "permit-port-sharing": flag(bool, false, "Sets SO_REUSEPORT, so that several processes may listen on one port."),
  "permit-address-sharing": flag(
    bool,
    false,
    "Sets SO_REUSEADDR, so that a port can be taken again at once after it was closed.",
  ),
};

const forWebhooks = "For admission webhooks, which this program does not offer; without --webhooks it has no effect.";

export const webhookFlags = {
  webhooks: flag(
    strings,
    [],
    "Admission webhooks to serve. This program has none and refuses to start when one is asked for.",
    {
      from: "upstream",
      check: (names) =>
        names.length === 0
          ? undefined
          : `asks for ${names.join(", ")}, but this program offers no admission webhooks; remove the flag`,
    },
  ),
};

const unused = { from: "upstream", hidden: true } as const;

export const webhookServingFlags = {
  "webhook-bind-address": flag(ip, "0.0.0.0", forWebhooks, unused),
  "webhook-secure-port": flag(int, 10_260, forWebhooks, { ...unused, check: port }),
  "webhook-disable-http2-serving": flag(bool, false, forWebhooks, unused),
  "webhook-cert-dir": flag(string, "", forWebhooks, unused),
  "webhook-tls-cert-file": flag(string, "", forWebhooks, unused),
  "webhook-tls-private-key-file": flag(string, "", forWebhooks, unused),
  "webhook-tls-cipher-suites": flag(strings, [], forWebhooks, { ...unused, ...tlsChecks.suites }),
  "webhook-tls-curve-preferences": flag(int32s, [], forWebhooks, { ...unused, ...tlsChecks.curves }),
  "webhook-tls-min-version": flag(string, "", forWebhooks, { ...unused, ...tlsChecks.version }),
  "webhook-tls-sni-cert-key": flag(certKeys, [], forWebhooks, unused),
};

import { noBlankItem } from "./checks.ts";
import { second } from "./durations.ts";
import { bool, duration, string, strings } from "./flag-types.ts";
import { flag } from "./flag.ts";

const without =
  (standard: string) =>
  (values: readonly string[]): string | undefined =>
    values.length === 0 || values.some((value) => value.toLowerCase() === standard.toLowerCase())
      ? undefined
      : `does not name ${standard}; requests through an API aggregator will not work`;

export const authenticationFlags = {
  "authentication-kubeconfig": flag(
    string,
    "",
    "kubeconfig of the API server that reviews tokens and holds the client CA. Empty: that of --kubeconfig, then the cluster's own. The Azure Go binary replaces any value with --kubeconfig; here the value counts.",
  ),
  "authentication-token-webhook-cache-ttl": flag(
    duration,
    10 * second,
    "How long the answer about a token is kept. 0s or less: not at all.",
  ),
  "client-ca-file": flag(
    string,
    "",
    "File with the CAs of client certificates, in PEM; replaces the client CA that the cluster publishes.",
  ),
  "requestheader-client-ca-file": flag(
    string,
    "",
    "File with the CAs of trusted proxies, in PEM. With it the requestheader flags count, in place of what the cluster publishes.",
  ),
  "requestheader-username-headers": flag(
    strings,
    ["x-remote-user"],
    "Headers in which a trusted proxy names the user.",
    {
      check: noBlankItem,
      notice: without("X-Remote-User"),
    },
  ),
  "requestheader-group-headers": flag(
    strings,
    ["x-remote-group"],
    "Headers in which a trusted proxy names the user's groups.",
    { check: noBlankItem, notice: without("X-Remote-Group") },
  ),
  "requestheader-extra-headers-prefix": flag(
    strings,
    ["x-remote-extra-"],
    "Beginnings of headers in which a trusted proxy passes on more about the user.",
    { check: noBlankItem, notice: without("X-Remote-Extra-") },
  ),
  "requestheader-uid-headers": flag(
    strings,
    [],
    "Headers in which a trusted proxy names the user's UID; X-Remote-Uid has to be among them. Needs the feature gate RemoteRequestHeaderUID.",
    { check: (names) => noBlankItem(names) ?? without("X-Remote-Uid")(names) },
  ),
  "requestheader-allowed-names": flag(
    strings,
    [],
    "Common names of the certificates that trusted proxies show. Empty: any that --requestheader-client-ca-file has signed.",
    { check: noBlankItem },
  ),
  "authentication-skip-lookup": flag(bool, false, "Never reads from the cluster what the other flags leave open."),
  "authentication-tolerate-lookup-failure": flag(
    bool,
    false,
    "Starts with a warning when the cluster's settings for authentication cannot be read. Requests may then all count as anonymous.",
  ),
};

export const authorizationFlags = {
  "authorization-kubeconfig": flag(
    string,
    "",
    "kubeconfig of the API server that decides on requests. Empty: that of --kubeconfig, then the cluster's own. The Azure Go binary replaces any value with --kubeconfig; here the value counts.",
  ),
  "authorization-webhook-cache-authorized-ttl": flag(
    duration,
    10 * second,
    "How long a decision that allows is kept. 0s or less: not at all.",
  ),
  "authorization-webhook-cache-unauthorized-ttl": flag(
    duration,
    10 * second,
    "How long a decision that refuses is kept. 0s or less: not at all.",
  ),
  "authorization-always-allow-paths": flag(
    strings,
    ["/healthz", "/readyz", "/livez"],
    "Paths that everybody may read; one '*' at the end stands for anything. An empty value allows none.",
    { check: pathsProblem },
  ),
};

function pathsProblem(paths: readonly string[]): string | undefined {
  const wrong = paths.filter((path) => path.slice(0, -1).includes("*"));
  return wrong.length === 0 ? undefined : `allows '*' only at the end of a path, got ${wrong.join(", ")}`;
}

import { second } from "../values/durations.ts";
import { noBlankItem } from "./checks.ts";
import { bool, duration, string, strings } from "./flag-types.ts";
import { flag } from "./flag.ts";

const without =
  (standard: string) =>
  (values: readonly string[]): string | undefined =>
    values.length === 0 || values.some((value) => value.toLowerCase() === standard.toLowerCase())
      ? undefined
      : `does not include ${standard}; requests through an API aggregator will not work`;

export const authenticationFlags = {
  "authentication-kubeconfig": flag(
    string,
    "",
    "Path to a kubeconfig for TokenReviews and the client CA lookup. If empty, --kubeconfig is used, then the in-cluster config. The Azure Go binary overrides it with --kubeconfig; here the flag takes precedence.",
  ),
  "authentication-token-webhook-cache-ttl": flag(
    duration,
    10 * second,
    "Time to cache TokenReview results. 0s or less disables the cache.",
  ),
  "client-ca-file": flag(
    string,
    "",
    "File with PEM-encoded client CAs; overrides the client CA published by the cluster.",
  ),
  "requestheader-client-ca-file": flag(
    string,
    "",
    "File with PEM-encoded CAs of trusted proxies. With it the requestheader flags apply instead of the cluster's settings.",
  ),
  "requestheader-username-headers": flag(
    strings,
    ["x-remote-user"],
    "Request headers for user names set by a trusted proxy.",
    {
      check: noBlankItem,
      notice: without("X-Remote-User"),
    },
  ),
  "requestheader-group-headers": flag(
    strings,
    ["x-remote-group"],
    "Request headers for groups set by a trusted proxy.",
    { check: noBlankItem, notice: without("X-Remote-Group") },
  ),
  "requestheader-extra-headers-prefix": flag(
    strings,
    ["x-remote-extra-"],
    "Prefixes of request headers for extra user attributes set by a trusted proxy.",
    { check: noBlankItem, notice: without("X-Remote-Extra-") },
  ),
  "requestheader-uid-headers": flag(
    strings,
    [],
    "Request headers for UIDs set by a trusted proxy; must include X-Remote-Uid. Requires the feature gate RemoteRequestHeaderUID.",
    { check: (names) => noBlankItem(names) ?? without("X-Remote-Uid")(names) },
  ),
  "requestheader-allowed-names": flag(
    strings,
    [],
    "Common names allowed in the client certificates of trusted proxies. If empty, any certificate signed by --requestheader-client-ca-file is allowed.",
    { check: noBlankItem },
  ),
  "authentication-skip-lookup": flag(
    bool,
    false,
    "Disables the lookup of missing authentication settings in the cluster.",
  ),
  "authentication-tolerate-lookup-failure": flag(
    bool,
    false,
    "Starts with a warning if authentication settings cannot be looked up in the cluster. All requests may then be treated as anonymous.",
  ),
};

export const authorizationFlags = {
  "authorization-kubeconfig": flag(
    string,
    "",
    "Path to a kubeconfig for SubjectAccessReviews. If empty, --kubeconfig is used, then the in-cluster config. The Azure Go binary overrides it with --kubeconfig; here the flag takes precedence.",
  ),
  "authorization-webhook-cache-authorized-ttl": flag(
    duration,
    10 * second,
    "Time to cache allowed decisions. 0s or less disables the cache.",
  ),
  "authorization-webhook-cache-unauthorized-ttl": flag(
    duration,
    10 * second,
    "Time to cache denied decisions. 0s or less disables the cache.",
  ),
  "authorization-always-allow-paths": flag(
    strings,
    ["/healthz", "/readyz", "/livez"],
    "Paths allowed without authorization; a trailing '*' matches any suffix. An empty value allows none.",
    { check: pathsProblem },
  ),
};

function pathsProblem(paths: readonly string[]): string | undefined {
  const wrong = paths.filter((path) => path.slice(0, -1).includes("*"));
  return wrong.length === 0 ? undefined : `allows '*' only at the end of a path, got ${wrong.join(", ")}`;
}

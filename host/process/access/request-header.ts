import { CodedError } from "cloud-controller-host/sdk";

import type { CertificateVerifier } from "./client-certificate.ts";
import type { FrontProxyConfig } from "./delegated-auth-config.ts";
import type { Authenticator } from "./user.ts";

/** The headers in which a trusted proxy names its user, with the verifier for the proxy's certificate. */
export interface RequestHeaderConfig extends Omit<FrontProxyConfig, "caPem"> {
  readonly verifier: CertificateVerifier;
}

/**
 * Authenticates a proxy by its certificate and takes the user from the headers it sends. `uids`: the proxy may name
 * the user's UID (gate `RemoteRequestHeaderUID`).
 * Source: kubernetes/apiserver `authentication/request/headerrequest`.
 */
export function requestHeaders(
  config: () => RequestHeaderConfig | undefined,
  { uids }: { readonly uids: boolean },
): Authenticator {
  return async (request, { certificate, headerValues }) => {
    const current = config();
    if (current === undefined || certificate === undefined) return undefined;
    const { subject } = await current.verifier.verify(certificate);
    if (current.allowedNames.length > 0 && !current.allowedNames.includes(subject.commonName ?? ""))
      throw new CodedError("UntrustedCertificate", "the client certificate's common name is not an allowed proxy name");
    const first = (headers: readonly string[]): string =>
      headers.flatMap((header) => headerValues(header)).find((value) => value !== "") ?? "";
    const name = first(current.usernameHeaders);
    if (name === "") return undefined;
    return {
      name,
      uid: uids ? first(current.uidHeaders) : "",
      groups: current.groupHeaders.flatMap((header) => headerValues(header)).filter((group) => group !== ""),
      extra: extraOf(request.headers, headerValues, current.extraHeaderPrefixes),
    };
  };
}

function extraOf(
  headers: Headers,
  headerValues: (name: string) => readonly string[],
  prefixes: readonly string[],
): Readonly<Record<string, readonly string[]>> {
  // Keys come from the network: "constructor" must not resolve to Object.prototype.
  const extra = new Map<string, readonly string[]>();
  for (const prefix of prefixes.map((one) => one.toLowerCase()))
    for (const header of headers.keys())
      if (header.startsWith(prefix)) {
        const key = decodeKey(header.slice(prefix.length));
        extra.set(key, [...(extra.get(key) ?? []), ...headerValues(header)]);
      }
  return Object.fromEntries(extra);
}

/** Header names cannot contain every character, so keys arrive percent-encoded; an invalid encoding is kept as it is. */
function decodeKey(key: string): string {
  try {
    return decodeURIComponent(key);
  } catch {
    return key;
  }
}

/**
 * Those of a request's headers that carry credentials or identity; they are removed before the handler sees it. A setting
 * may be no header's name, such as one with a blank, which cannot be removed.
 */
export function identityHeaders(config: RequestHeaderConfig | undefined, headers: Headers): readonly string[] {
  const chosen = [...(config?.usernameHeaders ?? []), ...(config?.uidHeaders ?? []), ...(config?.groupHeaders ?? [])];
  const names = new Set([...usual, ...chosen].map((name) => name.toLowerCase()));
  const prefixes = ["x-remote-extra-", ...(config?.extraHeaderPrefixes ?? [])].map((prefix) => prefix.toLowerCase());
  return [...headers.keys()].filter((name) => names.has(name) || prefixes.some((prefix) => name.startsWith(prefix)));
}

const usual = ["authorization", "x-remote-user", "x-remote-uid", "x-remote-group"];

import { CodedError } from "cloud-controller-host/sdk";

import type { CertificateVerifier } from "./client-certificate.ts";
import type { ProxyTrust } from "./delegated-auth-config.ts";
import type { Authenticator } from "./user.ts";

/** How a trusted proxy passes on who it speaks for, ready to be checked. */
export interface RequestHeaderConfig extends Omit<ProxyTrust, "authorityPem"> {
  readonly verifier: CertificateVerifier;
}

/**
 * `uids`: whether a proxy may name the user's UID (gate `RemoteRequestHeaderUID`).
 * Source: kubernetes/apiserver `authentication/request/headerrequest`.
 */
export function requestHeaders(
  config: () => RequestHeaderConfig | undefined,
  { uids }: { readonly uids: boolean },
): Authenticator {
  return async (request, { certificate, headerValues }) => {
    const current = config();
    if (current === undefined || certificate === undefined) return undefined;
    current.verifier.verify(certificate);
    const { commonName = "" } = certificate;
    if (current.allowedNames.length > 0 && !current.allowedNames.includes(commonName))
      throw new CodedError("UntrustedProxy", "the client certificate's common name is not one of the allowed proxies");
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
  const extra: Record<string, string[]> = {};
  for (const prefix of prefixes.map((one) => one.toLowerCase()))
    for (const header of headers.keys())
      if (header.startsWith(prefix)) {
        const key = decodeKey(header.slice(prefix.length));
        extra[key] = [...(extra[key] ?? []), ...headerValues(header)];
      }
  return extra;
}

/** Header names cannot hold every character, so keys come percent-encoded; what is not, stays as it is. */
function decodeKey(key: string): string {
  try {
    return decodeURIComponent(key);
  } catch {
    return key;
  }
}

/** Headers that speak of who somebody is: nobody behind the authentication may see or trust them. */
export function identityHeaders(config: RequestHeaderConfig | undefined, headers: Headers): readonly string[] {
  const named = [...(config?.usernameHeaders ?? []), ...(config?.uidHeaders ?? []), ...(config?.groupHeaders ?? [])];
  const prefixes = ["x-remote-extra-", ...(config?.extraHeaderPrefixes ?? [])].map((prefix) => prefix.toLowerCase());
  const extra = [...headers.keys()].filter((header) => prefixes.some((prefix) => header.startsWith(prefix)));
  return ["authorization", "x-remote-user", "x-remote-uid", "x-remote-group", ...named, ...extra];
}

import type { HttpClient } from "@azure/core-rest-pipeline";
import { CodedError } from "cloud-controller-host/sdk";

import { isPublicAuthority } from "../../config/environments.ts";

/** Hosts that Entra ID's login services name for themselves; one region's are below the second. */
const publicHosts = new Set([
  "login.microsoftonline.com",
  "login.microsoft.com",
  "login.windows.net",
  "sts.windows.net",
  "login.microsoftonline.us",
  "login.usgovcloudapi.net",
  "login.chinacloudapi.cn",
  "login.partner.microsoftonline.cn",
]);
const regional = ".login.microsoft.com";

/**
 * Sends requests for tokens, which contain the identity's secret, to the login service only: the SDK takes the address
 * from a document that the service returns.
 */
export function onlyToLoginHosts(inner: HttpClient, authority: string): HttpClient {
  const own = new URL(authority);
  const isPublic = isPublicAuthority(authority);
  return {
    sendRequest(request) {
      const { protocol, host } = new URL(request.url);
      const isKnown = isPublic && (publicHosts.has(host) || host.endsWith(regional));
      if (protocol === own.protocol && (host === own.host || isKnown)) return inner.sendRequest(request);
      const message = `the login service ${own.host} refers to ${host}; no secret is sent to another host`;
      return Promise.reject(new CodedError("ForeignHost", message));
    },
  };
}

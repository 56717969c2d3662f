import { isObject } from "cloud-controller-host/sdk";

import { type JsonObject, parseJson, stringAt } from "../../../plugins/azure-cloud/json.ts";
import type { AzureSimulator } from "../../../plugins/azure-cloud/simulator/simulator.ts";

export interface RawReply {
  readonly status: number;
  readonly headers: Headers;
  readonly body: JsonObject;
}

export type RawClient = (
  method: string,
  path: string,
  options?: { readonly body?: unknown; readonly headers?: Readonly<Record<string, string>> },
) => Promise<RawReply>;

const objectOf = (text: string): JsonObject => {
  const parsed = parseJson(text);
  return isObject(parsed) ? parsed : {};
};

/** A client of ARM that knows nothing of the SDK: what other programs see of the simulator. */
export async function rawClient(simulator: AzureSimulator): Promise<RawClient> {
  const ca = await Bun.file(simulator.caFile).text();
  const config = objectOf(simulator.configWith({}));
  const form = new URLSearchParams({
    grant_type: "client_credentials",
    client_id: stringAt(config, "aadClientId") ?? "",
    client_secret: stringAt(config, "aadClientSecret") ?? "",
  });
  const login = await fetch(`${simulator.origin}/adfs/oauth2/token`, { method: "POST", body: form, tls: { ca } });
  const token = stringAt(objectOf(await login.text()), "access_token") ?? "";
  return async (method, path, { body, headers } = {}) => {
    const separator = path.includes("?") ? "&" : "?";
    const url = path.startsWith("https:") ? path : `${simulator.origin}${path}${separator}api-version=2025-05-01`;
    const response = await fetch(url, {
      method,
      headers: { authorization: `Bearer ${token}`, "content-type": "application/json", ...headers },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      tls: { ca },
    });
    return { status: response.status, headers: response.headers, body: objectOf(await response.text()) };
  };
}

import { CodedError, type ConfigMap, isNotFound, kinds, type KubeClient } from "cloud-controller-host/sdk";

import type { BundleCheck } from "./client-certificate.ts";

/** The CA (PEM) of trusted front proxies and the headers in which they name the user. */
export interface FrontProxyConfig {
  readonly caPem: string;
  readonly usernameHeaders: readonly string[];
  readonly uidHeaders: readonly string[];
  readonly groupHeaders: readonly string[];
  readonly extraHeaderPrefixes: readonly string[];
  /** Common names of proxies; empty allows every certificate of the CA. */
  readonly allowedNames: readonly string[];
}

/** The content of the ConfigMap that the API server publishes for delegated authentication. */
export interface DelegatedAuthConfig {
  /** CAs of client certificates, PEM. */
  readonly clientPem: string | undefined;
  readonly proxies: FrontProxyConfig | undefined;
}

const name = { namespace: "kube-system", name: "extension-apiserver-authentication" } as const;

/** The object, for messages. */
export const configMapName = `ConfigMap ${name.namespace}/${name.name}`;

/** Reads the ConfigMap; undefined when it does not exist. Rejects when it is unreadable or invalid. */
export async function readDelegatedAuthConfig(
  client: KubeClient,
  check: BundleCheck,
  signal?: AbortSignal,
): Promise<DelegatedAuthConfig | undefined> {
  try {
    return parse(await client.get(kinds.ConfigMap, name, { read: "cached", ...(signal && { signal }) }), check);
  } catch (error) {
    if (isNotFound(error)) return undefined;
    throw error;
  }
}

function parse({ data = {} }: ConfigMap, check: BundleCheck): DelegatedAuthConfig {
  const bundle = (key: string): string | undefined => {
    const pem = data[key] ?? "";
    if (pem !== "") check(pem, `${configMapName}: ${key}`);
    return pem === "" ? undefined : pem;
  };
  const list = (key: string): readonly string[] => parseList(key, data[key] ?? "");
  const caPem = bundle("requestheader-client-ca-file");
  return {
    clientPem: bundle("client-ca-file"),
    proxies:
      caPem === undefined
        ? undefined
        : {
            caPem,
            usernameHeaders: list("requestheader-username-headers"),
            uidHeaders: list("requestheader-uid-headers"),
            groupHeaders: list("requestheader-group-headers"),
            extraHeaderPrefixes: list("requestheader-extra-headers-prefix"),
            allowedNames: list("requestheader-allowed-names"),
          },
  };
}

function parseList(key: string, text: string): readonly string[] {
  const list: unknown = text === "" ? [] : parseJson(text);
  if (Array.isArray(list) && list.every((item) => typeof item === "string")) return list;
  throw new CodedError("InvalidDelegatedAuth", `${configMapName}: ${key} is not a JSON array of strings`);
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

import { CodedError, type ConfigMap, isNotFound, kinds, type KubeClient } from "cloud-controller-host/sdk";

import { parseBundle } from "./client-certificate.ts";

/** How a trusted proxy passes on who it speaks for, and whose certificates make a proxy trusted (PEM). */
export interface ProxyTrust {
  readonly authorityPem: string;
  readonly usernameHeaders: readonly string[];
  readonly uidHeaders: readonly string[];
  readonly groupHeaders: readonly string[];
  /** Beginnings of header names. */
  readonly extraHeaderPrefixes: readonly string[];
  /** Common names of proxies; empty: any that the authority vouches for. */
  readonly allowedNames: readonly string[];
}

/** What the cluster publishes for those who let its API server decide who may talk to them. */
export interface PublishedAccess {
  /** CAs of client certificates, PEM. */
  readonly clientPem: string | undefined;
  readonly proxies: ProxyTrust | undefined;
}

const name = { namespace: "kube-system", name: "extension-apiserver-authentication" } as const;

/** The object, for messages. */
export const publishedName = `ConfigMap ${name.namespace}/${name.name}`;

/** Reads the ConfigMap; undefined when there is none. Rejects when it cannot be read or does not make sense. */
export async function readPublishedAccess(
  client: KubeClient,
  signal?: AbortSignal,
): Promise<PublishedAccess | undefined> {
  try {
    return parse(await client.get(kinds.ConfigMap, name, { read: "cached", ...(signal && { signal }) }));
  } catch (error) {
    if (isNotFound(error)) return undefined;
    throw error;
  }
}

function parse({ data = {} }: ConfigMap): PublishedAccess {
  const bundle = (key: string): string | undefined => {
    const pem = data[key] ?? "";
    if (pem !== "") parseBundle(pem, `${publishedName}: ${key}`);
    return pem === "" ? undefined : pem;
  };
  const list = (key: string): readonly string[] => parseList(key, data[key] ?? "");
  const authorityPem = bundle("requestheader-client-ca-file");
  return {
    clientPem: bundle("client-ca-file"),
    proxies:
      authorityPem === undefined
        ? undefined
        : {
            authorityPem,
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
  throw new CodedError("InvalidPublishedAccess", `${publishedName}: ${key} is no JSON list of strings`);
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

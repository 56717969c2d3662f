import { readFile } from "node:fs/promises";

import type { HttpClient } from "@azure/core-rest-pipeline";
import type { TokenCredential } from "@azure/identity";
import { CodedError, isAborted } from "cloud-controller-host/sdk";

import { type AzureEnvironment, isPublicAuthority } from "../config/environments.ts";
import type { Identity } from "../config/identity.ts";

export interface CredentialOptions {
  readonly environment: AzureEnvironment;
  readonly httpClient: HttpClient;
  /** Requests tokens of this tenant instead of the identity's own. */
  readonly tenantId?: string;
  /** Further tenants for which tokens may be requested. */
  readonly allowedTenants?: readonly string[];
}

/** No token could be acquired. `rejected`: the login service refused the identity, so a retry cannot help. */
export class CredentialError extends CodedError {
  readonly rejected: boolean;

  constructor(message: string, rejected: boolean) {
    super("Credential", message);
    this.rejected = rejected;
  }
}

/** The config keys to check when an authentication method is rejected. */
const keysOf = {
  "workload-identity": "tenantId, aadClientId, aadFederatedTokenFile and the identity's federated credential",
  "managed-identity": "userAssignedIdentityID and the identities of this machine",
  "client-secret": "tenantId, aadClientId and aadClientSecret",
  "client-certificate": "tenantId, aadClientId and aadClientCertPath",
} as const satisfies Record<Identity["kind"], string>;

/**
 * The SDK's credential for an identity. Its errors are one line that names the config keys to check; neither a secret
 * nor a request is part of it.
 */
export async function makeCredential(identity: Identity, options: CredentialOptions): Promise<TokenCredential> {
  const create = (): Promise<TokenCredential> => sdkCredential(identity, options);
  const current = identity.kind === "client-certificate" ? byContent(identity.file, create) : once(await create());
  return {
    async getToken(scopes, tokenOptions) {
      try {
        return await (await current()).getToken(scopes, tokenOptions);
      } catch (error) {
        if (isAborted(error)) throw error;
        throw explained(error, identity, options.environment.authority);
      }
    },
  };
}

type CurrentCredential = () => Promise<TokenCredential>;

const once =
  (credential: TokenCredential): CurrentCredential =>
  () =>
    Promise.resolve(credential);

/** The SDK keeps the certificate that it has read first: one that was replaced in its file needs another credential. */
function byContent(file: string, create: () => Promise<TokenCredential>): CurrentCredential {
  let known: { readonly content: string | undefined; readonly credential: TokenCredential } | undefined;
  return async () => {
    const content = await readFile(file, "utf8").catch(() => undefined);
    // While it cannot be read, the one that was read before remains in use.
    if (known === undefined || (content !== undefined && content !== known.content))
      known = { content, credential: await create() };
    return known.credential;
  };
}

async function sdkCredential(identity: Identity, options: CredentialOptions): Promise<TokenCredential> {
  const sdk = await import("@azure/identity");
  const { environment, httpClient, allowedTenants } = options;
  const common = {
    httpClient,
    authorityHost: environment.authority,
    disableInstanceDiscovery: !isPublicAuthority(environment.authority),
    ...(allowedTenants === undefined ? {} : { additionallyAllowedTenants: [...allowedTenants] }),
  };
  switch (identity.kind) {
    case "workload-identity":
      return new sdk.WorkloadIdentityCredential({
        ...common,
        tenantId: options.tenantId ?? identity.tenantId,
        clientId: identity.clientId,
        tokenFilePath: identity.tokenFile,
      });
    case "managed-identity":
      if (identity.resourceId !== undefined)
        return new sdk.ManagedIdentityCredential({ httpClient, resourceId: identity.resourceId });
      return identity.clientId === undefined
        ? new sdk.ManagedIdentityCredential({ httpClient })
        : new sdk.ManagedIdentityCredential({ httpClient, clientId: identity.clientId });
    case "client-secret": {
      const { tenantId, clientId, secret } = identity;
      return new sdk.ClientSecretCredential(options.tenantId ?? tenantId, clientId, secret, common);
    }
    case "client-certificate": {
      const { tenantId, clientId, file, password } = identity;
      const certificate = { certificatePath: file, ...(password === "" ? {} : { certificatePassword: password }) };
      const sending = { ...common, sendCertificateChain: true };
      return new sdk.ClientCertificateCredential(options.tenantId ?? tenantId, clientId, certificate, sending);
    }
    default:
      return identity satisfies never;
  }
}

const reasonPattern = /AADSTS\d+: [^\r\n]*?(?=\.(?:\s|$)|[\r\n]|$)/u;

/** Explains in one line why a token could not be acquired, without the secrets that an SDK error may carry. */
function explained(error: unknown, identity: Identity, authority: string): CredentialError {
  const text = error instanceof Error ? error.message : String(error);
  const reason = reasonPattern.exec(text)?.[0];
  const line = reason ?? (text.split(/[\r\n]/u, 1)[0]?.slice(0, 300) || "no answer");
  const why = secretsOf(identity).reduce((known, secret) => known.replaceAll(secret, "[secret]"), line);
  const advice = reason === undefined ? `is ${authority} in reach?` : `check ${keysOf[identity.kind]}`;
  return new CredentialError(`Azure gives no token for ${identity.kind}: ${why}; ${advice}`, reason !== undefined);
}

function secretsOf(identity: Identity): readonly string[] {
  if (identity.kind === "client-secret") return [identity.secret];
  return identity.kind === "client-certificate" && identity.password !== "" ? [identity.password] : [];
}

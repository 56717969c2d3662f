import { stat } from "node:fs/promises";

import type { HttpClient, PipelineResponse } from "@azure/core-rest-pipeline";
import type { TokenCredential } from "@azure/identity";
import { CodedError, isAborted, messageOf } from "cloud-controller-host/sdk";

import { type AzureEnvironment, isPublicAuthority } from "../../config/environments.ts";
import type { Identity } from "../../config/identity.ts";
import { readRegularFile } from "../../regular-file.ts";
import { retryAfterMs, retryAfterMsHeaders } from "../transport/retry.ts";
import { certificateProblem } from "./client-certificate.ts";
import { onlyToLoginHosts } from "./login-hosts.ts";

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

/** A credential whose token can be given up before it expires. */
export interface RenewableCredential extends TokenCredential {
  /**
   * Makes the login service issue the next token; the SDK would return the one it keeps. Without effect on a managed
   * identity, whose tokens the SDK keeps for the whole process.
   */
  renew(): void;
}

/**
 * The SDK's credential for an identity. Its errors are one line that names the config keys to check; neither a secret
 * nor a request is part of it.
 */
export async function makeCredential(identity: Identity, given: CredentialOptions): Promise<RenewableCredential> {
  // A managed identity has no secret, and its service is on this machine, where its environment names it.
  const { environment, httpClient } = given;
  const isLocal = identity.kind === "managed-identity";
  const login = watchLogins(isLocal ? httpClient : onlyToLoginHosts(httpClient, environment.authority));
  const options = { ...given, httpClient: login.client };
  const source = await openSource(identity, options);
  return {
    renew: source.renew,
    async getToken(scopes, tokenOptions) {
      const { credential, problem } = await source.current();
      login.reset();
      try {
        return await credential.getToken(scopes, tokenOptions);
      } catch (error) {
        if (isAborted(error)) throw error;
        throw explained(error, identity, { authority: environment.authority, problem, outcome: login.outcome() });
      }
    },
  };
}

/** Remembers how the last request for a token ended: the SDK's error for anything but a refusal does not have it. */
function watchLogins(inner: HttpClient) {
  let outcome: string | undefined;
  const client: HttpClient = {
    async sendRequest(request) {
      try {
        const response = await inner.sendRequest(request);
        boundWait(response);
        if (response.status >= 400) outcome = `the reply was ${response.status}`;
        else if (request.method === "POST") outcome = `the reply was ${response.status} without a token`;
        return response;
      } catch (error) {
        outcome = messageOf(error);
        throw error;
      }
    },
  };
  const reset = (): void => {
    outcome = undefined;
  };
  return { client, outcome: () => outcome, reset };
}

const maxWaitSeconds = 60;

/** The SDK sleeps as long as the login service asks, and MSAL then refuses to ask it for up to an hour. */
function boundWait(response: PipelineResponse): void {
  const waitMs = retryAfterMs(response, Date.now());
  for (const header of ["retry-after", ...retryAfterMsHeaders]) response.headers.delete(header);
  if (waitMs !== undefined)
    response.headers.set("retry-after", String(Math.min(maxWaitSeconds, Math.ceil(waitMs / 1000))));
}

type ClientCertificate = Extract<Identity, { readonly kind: "client-certificate" }>;

/** An identity with the content of its file, if it has one. */
type ReadIdentity = Exclude<Identity, ClientCertificate> | (ClientCertificate & { readonly certificate: string });

interface Current {
  readonly credential: TokenCredential;
  /** Why a credential with older content is in use. */
  readonly problem?: string;
}

/** The SDK's credential to use now. Each one keeps its tokens: `renew` makes the next one another. */
interface CredentialSource {
  readonly current: () => Promise<Current>;
  readonly renew: () => void;
}

async function openSource(identity: Identity, options: CredentialOptions): Promise<CredentialSource> {
  if (identity.kind === "client-certificate")
    return byContent(identity, (certificate) => sdkCredential({ ...identity, certificate }, options));
  let credential: TokenCredential | undefined = await sdkCredential(identity, options);
  return {
    async current() {
      if (identity.kind === "workload-identity") await checkTokenFile(identity.tokenFile);
      credential ??= await sdkCredential(identity, options);
      return { credential };
    },
    renew: () => void (credential = undefined),
  };
}

/** The SDK reads the file, and would wait for the writer of a pipe. */
async function checkTokenFile(file: string): Promise<void> {
  const status = await stat(file).catch(() => undefined);
  if (status?.isFile() === false)
    throw new CredentialError(
      `no Azure token for workload-identity: aadFederatedTokenFile: ${file} is not a regular file`,
      false,
    );
}

/**
 * A credential per content of the certificate's file. While the file cannot be read or its content cannot be used, as
 * when it is written at that moment, the one before remains in use.
 */
function byContent(
  { file, password }: ClientCertificate,
  create: (certificate: string) => Promise<TokenCredential>,
): CredentialSource {
  let known: { readonly content: Buffer; readonly credential: TokenCredential } | undefined;
  let isGivenUp = false;
  const problemOf = (content: Buffer | undefined): string | undefined => {
    if (known !== undefined && content?.equals(known.content) === true) return undefined;
    return content === undefined ? `cannot read ${file}` : certificateProblem(file, content, password);
  };
  return {
    async current() {
      const content = await readRegularFile(file).catch(() => undefined);
      const problem = problemOf(content);
      const usable = problem === undefined ? content : known?.content;
      if (usable === undefined)
        throw new CredentialError(
          `no Azure token for client-certificate: aadClientCertPath: ${problem}`,
          content !== undefined,
        );
      if (known === undefined || isGivenUp || !usable.equals(known.content)) {
        isGivenUp = false;
        known = { content: usable, credential: await create(usable.toString()) };
      }
      return { credential: known.credential, ...(problem !== undefined && { problem }) };
    },
    renew: () => void (isGivenUp = true),
  };
}

async function sdkCredential(identity: ReadIdentity, options: CredentialOptions): Promise<TokenCredential> {
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
      const { tenantId, clientId, certificate, password } = identity;
      const pem = { certificate, ...(password === "" ? {} : { certificatePassword: password }) };
      const sending = { ...common, sendCertificateChain: true };
      return new sdk.ClientCertificateCredential(options.tenantId ?? tenantId, clientId, pem, sending);
    }
    default:
      return identity satisfies never;
  }
}

const reasonPattern = /AADSTS\d+: [^\r\n]*?(?=\.(?:\s|$)|[\r\n]|$)/u;

interface Circumstances {
  readonly authority: string;
  /** Of the certificate. */
  readonly problem: string | undefined;
  /** Of the last request for a token. */
  readonly outcome: string | undefined;
}

/** Explains in one line why a token could not be acquired, without the secrets that an SDK error may carry. */
function explained(
  error: unknown,
  identity: Identity,
  { authority, problem, outcome }: Circumstances,
): CredentialError {
  const text = error instanceof Error ? error.message : String(error);
  const reason = reasonPattern.exec(text)?.[0];
  const line = reason ?? outcome ?? (text.split(/[\r\n]/u, 1)[0]?.slice(0, 300) || "no answer");
  const why = secretsOf(identity).reduce((known, secret) => known.replaceAll(secret, "[secret]"), line);
  const advice = reason === undefined ? `is ${authority} in reach?` : `check ${keysOf[identity.kind]}`;
  const kept = problem === undefined ? "" : `; the certificate read before is in use, because ${problem}`;
  return new CredentialError(`no Azure token for ${identity.kind}: ${why}; ${advice}${kept}`, reason !== undefined);
}

function secretsOf(identity: Identity): readonly string[] {
  if (identity.kind === "client-secret") return [identity.secret];
  return identity.kind === "client-certificate" && identity.password !== "" ? [identity.password] : [];
}

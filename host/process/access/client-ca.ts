import { readFile } from "node:fs/promises";

import { ApiError, type Clock, CodedError, type KubeClient, type Logger, messageOf } from "cloud-controller-host/sdk";

import { CertificateVerifier, parseBundle } from "./client-certificate.ts";
import { type ProxyTrust, type PublishedAccess, publishedName, readPublishedAccess } from "./delegated-auth-config.ts";
import type { RequestHeaderConfig } from "./request-header.ts";

/** The flags that say whose client certificates count, and for what. Paths are empty when not given. */
export interface ClientCAFlags {
  readonly clientCaFile: string;
  readonly requestheaderClientCaFile: string;
  readonly requestheaderUsernameHeaders: readonly string[];
  readonly requestheaderUidHeaders: readonly string[];
  readonly requestheaderGroupHeaders: readonly string[];
  readonly requestheaderExtraHeadersPrefix: readonly string[];
  readonly requestheaderAllowedNames: readonly string[];
  readonly authenticationSkipLookup: boolean;
  readonly authenticationTolerateLookupFailure: boolean;
}

export interface ClientCAOptions {
  readonly flags: ClientCAFlags;
  /** Undefined: nothing is looked up in the cluster. */
  readonly client: KubeClient | undefined;
  readonly clock: Clock;
  readonly log: Logger;
}

/** upstream's re-check period; an informer would be one watch more for an object that changes once in years. */
const periodMs = 60_000;
/** Until the API server has answered once. */
const firstAnswerMs = 2_000;

/**
 * Whose client certificates are trusted: by the files that flags name, otherwise by what the cluster publishes. What
 * was good stays until something better is there. Source: apiserver `options.DelegatingAuthenticationOptions`.
 */
export class ClientCAs {
  readonly #options: ClientCAOptions;
  #published: PublishedAccess | undefined;
  #answered = false;
  #clients: { readonly pem: string; readonly verifier: CertificateVerifier } | undefined;
  #proxies: { readonly trust: ProxyTrust; readonly config: RequestHeaderConfig } | undefined;

  /**
   * Rejects when a file cannot be used, or the API server refuses the cluster's settings and that is not tolerated.
   * One that does not answer yet is asked again in `follow`: until it does, it cannot allow anything either.
   */
  static async open(options: ClientCAOptions): Promise<ClientCAs> {
    const trust = new ClientCAs(options);
    const files = await readFiles(options.flags);
    await trust.#lookUp().catch((error: unknown) => trust.#lookUpFailed(error));
    trust.#apply(files);
    return trust;
  }

  private constructor(options: ClientCAOptions) {
    this.#options = options;
  }

  /** Undefined: client certificates say nothing. */
  get clients(): CertificateVerifier | undefined {
    return this.#clients?.verifier;
  }

  /** Undefined: no proxy is trusted. */
  get proxies(): RequestHeaderConfig | undefined {
    return this.#proxies?.config;
  }

  /** Looks again each minute, until the signal aborts. */
  async follow(signal: AbortSignal): Promise<void> {
    const { clock, flags, log } = this.#options;
    let complaint = "";
    while (true) {
      await clock.sleep(this.#answered ? periodMs : firstAnswerMs, signal);
      if (signal.aborted) return;
      try {
        const files = await readFiles(flags);
        await this.#lookUp(signal);
        this.#apply(files);
        complaint = "";
      } catch (error) {
        const said = messageOf(error);
        if (said !== complaint)
          log.warn("whose client certificates count cannot be read; it stays as it was", { error });
        complaint = said;
      }
    }
  }

  /** A ConfigMap that has gone changes nothing. */
  async #lookUp(signal?: AbortSignal): Promise<void> {
    const { client, flags } = this.#options;
    const given = flags.clientCaFile !== "" && flags.requestheaderClientCaFile !== "";
    if (client === undefined || flags.authenticationSkipLookup || given) return;
    this.#published = (await readPublishedAccess(client, signal)) ?? this.#published;
    this.#answered = true;
  }

  /** Without the proxies' part requests would be taken for the proxy's own; without the rest they are anonymous. */
  #lookUpFailed(error: unknown): void {
    const { flags, log } = this.#options;
    const refused = error instanceof ApiError || (error instanceof Error && error.cause instanceof ApiError);
    if (refused && flags.requestheaderClientCaFile === "" && !flags.authenticationTolerateLookupFailure)
      throw new CodedError(
        "AccessLookup",
        `${publishedName} cannot be read; bind the role extension-apiserver-authentication-reader in kube-system to ` +
          "this program's user, or set --authentication-tolerate-lookup-failure or --authentication-skip-lookup",
        { cause: error },
      );
    log.warn("whose client certificates count cannot be looked up; such requests may count as anonymous", { error });
  }

  #apply(files: Files): void {
    const pem = files.clientPem ?? this.#published?.clientPem;
    if (pem !== this.#clients?.pem)
      this.#clients = pem === undefined ? undefined : { pem, verifier: this.#verifier(pem, "the client CA") };
    const trust = files.proxies ?? this.#published?.proxies;
    if (JSON.stringify(trust) === JSON.stringify(this.#proxies?.trust)) return;
    this.#proxies = trust && {
      trust,
      config: { ...trust, verifier: this.#verifier(trust.authorityPem, "the proxies' CA") },
    };
  }

  #verifier(pem: string, origin: string): CertificateVerifier {
    return new CertificateVerifier(parseBundle(pem, origin), this.#options.clock);
  }
}

interface Files {
  readonly clientPem: string | undefined;
  readonly proxies: ProxyTrust | undefined;
}

async function readFiles(flags: ClientCAFlags): Promise<Files> {
  const [clientPem, authorityPem] = await Promise.all([
    readBundle("--client-ca-file", flags.clientCaFile),
    readBundle("--requestheader-client-ca-file", flags.requestheaderClientCaFile),
  ]);
  return {
    clientPem,
    proxies:
      authorityPem === undefined
        ? undefined
        : {
            authorityPem,
            usernameHeaders: flags.requestheaderUsernameHeaders,
            uidHeaders: flags.requestheaderUidHeaders,
            groupHeaders: flags.requestheaderGroupHeaders,
            extraHeaderPrefixes: flags.requestheaderExtraHeadersPrefix,
            allowedNames: flags.requestheaderAllowedNames,
          },
  };
}

async function readBundle(flag: string, path: string): Promise<string | undefined> {
  if (path === "") return undefined;
  const pem = await readFile(path, "utf8").catch((error: unknown) => {
    throw new CodedError("InvalidCertificate", `${flag}: ${path} cannot be read`, { cause: error });
  });
  parseBundle(pem, `${flag}: ${path}`);
  return pem;
}

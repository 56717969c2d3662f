import { ApiError, type Clock, CodedError, type KubeClient, type Logger, messageOf } from "cloud-controller-host/sdk";

import { readText } from "../../config/parse/read-text.ts";
import { type BundleCheck, CertificateVerifier, createBundleCheck, parseBundle } from "./client-certificate.ts";
import {
  configMapName,
  type DelegatedAuthConfig,
  type FrontProxyConfig,
  readDelegatedAuthConfig,
} from "./delegated-auth-config.ts";
import type { RequestHeaderConfig } from "./request-header.ts";

/** The flags for client CAs and front proxies. Paths are empty when not given. */
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
  /** Of the flag that names the client CA, for errors. Default: `--client-ca-file`. */
  readonly clientCaFlag?: string;
  /** Without one, nothing is looked up in the cluster. */
  readonly client: KubeClient | undefined;
  readonly clock: Clock;
  readonly log: Logger;
}

/** upstream's re-check period. An informer would cost one more watch for an object that changes once in years. */
const periodMs = 60_000;
/** Until the API server has replied once. */
const firstReplyMs = 2_000;

/**
 * The CAs of clients and front proxies: from the files that flags name, otherwise from the cluster's ConfigMap. The last
 * valid content stays in use. Source: apiserver `options.DelegatingAuthenticationOptions`.
 */
export class ClientCAs {
  readonly #options: ClientCAOptions;
  readonly #check = createBundleCheck();
  #clientPem: string | undefined;
  #frontProxy: FrontProxyConfig | undefined;
  #published: DelegatedAuthConfig | undefined;
  #hasReplied = false;
  #clients: { readonly pem: string; readonly verifier: CertificateVerifier } | undefined;
  #proxies: { readonly trust: FrontProxyConfig; readonly config: RequestHeaderConfig } | undefined;

  /**
   * Rejects when a file is invalid, or when the API server denies the ConfigMap and that is not tolerated. While the API
   * server does not reply, `follow` retries: until it does, it cannot authorize anything either.
   */
  static async open(options: ClientCAOptions): Promise<ClientCAs> {
    const cas = new ClientCAs(options);
    await Promise.all([cas.#readClientCA(), cas.#readFrontProxyCA()]);
    await cas.#lookUp().catch((error: unknown) => cas.#lookUpFailed(error));
    cas.#apply();
    return cas;
  }

  private constructor(options: ClientCAOptions) {
    this.#options = options;
  }

  /** Without one, client certificates are ignored. */
  get clients(): CertificateVerifier | undefined {
    return this.#clients?.verifier;
  }

  /** Without one, no proxy is trusted. */
  get proxies(): RequestHeaderConfig | undefined {
    return this.#proxies?.config;
  }

  /** Reloads every minute, until the signal aborts. A source that fails keeps its last content, and holds up no other. */
  async follow(signal: AbortSignal): Promise<void> {
    const { clock, log } = this.#options;
    const sources = [() => this.#readClientCA(), () => this.#readFrontProxyCA(), () => this.#lookUp(signal)];
    let lastProblems: readonly string[] = [];
    while (true) {
      await clock.sleep(this.#hasReplied ? periodMs : firstReplyMs, signal);
      if (signal.aborted) return;
      const outcomes = await Promise.allSettled(sources.map((read) => read()));
      this.#apply();
      const errors = outcomes.flatMap((outcome): unknown => (outcome.status === "rejected" ? outcome.reason : []));
      for (const error of errors)
        if (!lastProblems.includes(messageOf(error)))
          log.warn("Failed to reload client CA; keeping the current one", { error });
      lastProblems = errors.map(messageOf);
    }
  }

  async #readClientCA(): Promise<void> {
    const { flags, clientCaFlag = "--client-ca-file" } = this.#options;
    this.#clientPem = await readBundle(clientCaFlag, flags.clientCaFile, this.#check);
  }

  async #readFrontProxyCA(): Promise<void> {
    const { flags } = this.#options;
    const caPem = await readBundle("--requestheader-client-ca-file", flags.requestheaderClientCaFile, this.#check);
    this.#frontProxy =
      caPem === undefined
        ? undefined
        : {
            caPem,
            usernameHeaders: flags.requestheaderUsernameHeaders,
            uidHeaders: flags.requestheaderUidHeaders,
            groupHeaders: flags.requestheaderGroupHeaders,
            extraHeaderPrefixes: flags.requestheaderExtraHeadersPrefix,
            allowedNames: flags.requestheaderAllowedNames,
          };
  }

  /** A deleted ConfigMap changes nothing. */
  async #lookUp(signal?: AbortSignal): Promise<void> {
    const { client, flags } = this.#options;
    const given = flags.clientCaFile !== "" && flags.requestheaderClientCaFile !== "";
    if (client === undefined || flags.authenticationSkipLookup || given) return;
    this.#published = (await readDelegatedAuthConfig(client, this.#check, signal)) ?? this.#published;
    this.#hasReplied = true;
  }

  /** Without the front-proxy part, a proxied request would be taken for the proxy's own: that must not start silently. */
  #lookUpFailed(error: unknown): void {
    const { flags, log } = this.#options;
    const refused = error instanceof ApiError || (error instanceof Error && error.cause instanceof ApiError);
    if (refused && flags.requestheaderClientCaFile === "" && !flags.authenticationTolerateLookupFailure)
      throw new CodedError(
        "InvalidDelegatedAuth",
        `${configMapName} is not readable; bind the role extension-apiserver-authentication-reader in kube-system to ` +
          "this process's user, or set --authentication-tolerate-lookup-failure or --authentication-skip-lookup",
        { cause: error },
      );
    log.warn("Unable to load client CA from the cluster; client-certificate requests may be treated as anonymous", {
      error,
    });
  }

  #apply(): void {
    const pem = this.#clientPem ?? this.#published?.clientPem;
    if (pem !== this.#clients?.pem)
      this.#clients = pem === undefined ? undefined : { pem, verifier: this.#verifier(pem, "the client CA") };
    const trust = this.#frontProxy ?? this.#published?.proxies;
    if (JSON.stringify(trust) === JSON.stringify(this.#proxies?.trust)) return;
    this.#proxies = trust && {
      trust,
      config: { ...trust, verifier: this.#verifier(trust.caPem, "the front-proxy CA") },
    };
  }

  #verifier(pem: string, origin: string): CertificateVerifier {
    return new CertificateVerifier(parseBundle(pem, origin), this.#options.clock);
  }
}

async function readBundle(flag: string, path: string, check: BundleCheck): Promise<string | undefined> {
  if (path === "") return undefined;
  const pem = await readText(path).catch((error: unknown) => {
    throw new CodedError("InvalidCertificate", `${flag}: cannot read ${path}`, { cause: error });
  });
  check(pem, `${flag}: ${path}`);
  return pem;
}

import type { RequestOptions } from "node:https";

import { type Cluster, KubeConfig, type User } from "@kubernetes/client-node";
import { type Clock, CodedError, messageOf } from "cloud-controller-host/sdk";

import { systemClock } from "../../async/clock.ts";
import { CaFile } from "./ca-file.ts";
import type { CredentialObserver } from "./credential-metrics.ts";
import { ExecPlugin, type PluginCredential } from "./exec-plugin.ts";

/** TLS settings and headers of a request. PEM texts. */
export interface Credentials {
  readonly tls: {
    readonly ca?: string;
    readonly cert?: string;
    readonly key?: string;
    readonly serverName?: string;
    readonly rejectUnauthorized?: boolean;
  };
  readonly headers: Readonly<Record<string, string>>;
}

/** Address of the API server and credentials for it. */
export interface ApiServer {
  /** `https://host:port`, without a trailing slash. */
  readonly url: string;
  readonly proxy: string | undefined;
  /**
   * The current credentials. `rejected` are those that got a 401: all files are read and all plugins run again, unless
   * that has happened since they were issued.
   */
  credentials(options?: { readonly rejected?: Credentials }): Promise<Credentials>;
}

/** A bound service-account token lives about an hour, and its file is rewritten well before it expires. */
const cacheMs = 60_000;

export interface CredentialOptions {
  readonly observer?: CredentialObserver | undefined;
  readonly clock?: Clock;
}

/** An API server whose credentials come from a kubeconfig's cluster and user; files are read again each minute. */
export function apiServerOf(cluster: Cluster, user: User, options: CredentialOptions = {}): ApiServer {
  const cache = new CredentialsCache(cluster, user, options);
  return {
    url: cluster.server.replace(/\/+$/, ""),
    proxy: cluster.proxyUrl,
    credentials: (asked) => cache.get(asked?.rejected),
  };
}

class CredentialsCache {
  readonly #cluster: Cluster;
  readonly #user: User;
  readonly #ca: CaFile | undefined;
  readonly #plugin: ExecPlugin | undefined;
  readonly #clock: Clock;
  #source: KubeConfig;
  #readAt = 0;
  #reading: Promise<Credentials> | undefined;

  constructor(cluster: Cluster, user: User, { observer, clock = systemClock }: CredentialOptions) {
    // Files that this class reads itself are not read by client-node again.
    const { caFile, ...others } = cluster;
    const { exec: _exec, ...person } = user;
    this.#ca = caFile ? new CaFile(caFile, observer) : undefined;
    this.#plugin = ExecPlugin.of(user, cluster, observer);
    this.#clock = clock;
    this.#cluster = others;
    this.#user = person;
    this.#source = sourceOf(this.#cluster, this.#user);
  }

  async get(rejected: Credentials | undefined): Promise<Credentials> {
    const reading = this.#reading;
    if (reading === undefined) return this.#begin(this.#readAll());
    if (this.#clock.monotonic() - this.#readAt >= cacheMs) {
      // Credentials that cannot be read again stay in use until the API server rejects them.
      if (rejected === undefined) return this.#begin(this.#readAnew().catch(() => reading));
      this.#plugin?.forget();
      return this.#begin(this.#readAnew());
    }
    const credentials = await reading;
    if (credentials !== rejected) return credentials;
    // Another request rejected with the same credentials may have started to read them again meanwhile.
    if (this.#reading !== undefined && this.#reading !== reading) return this.#reading;
    this.#plugin?.forget();
    return this.#begin(this.#readAnew());
  }

  async #begin(reading: Promise<Credentials>): Promise<Credentials> {
    this.#reading = reading;
    this.#readAt = this.#clock.monotonic();
    try {
      return await reading;
    } catch (error) {
      if (this.#reading === reading) this.#reading = undefined;
      throw error;
    }
  }

  #readAnew(): Promise<Credentials> {
    this.#source = sourceOf(this.#cluster, this.#user);
    return this.#readAll();
  }

  async #readAll(): Promise<Credentials> {
    const options: RequestOptions & { auth?: string } = {};
    try {
      await this.#source.applyToHTTPSOptions(options);
      const ca = await this.#ca?.read();
      const given = await this.#plugin?.credential();
      return {
        tls: { ...tlsOf(options, this.#cluster), ...(ca !== undefined && { ca }), ...certificateOf(given) },
        headers: { ...headersOf(options), ...(given?.token && { Authorization: `Bearer ${given.token}` }) },
      };
    } catch (cause) {
      throw new CodedError("Credentials", `cannot get credentials for ${this.#cluster.server}: ${messageOf(cause)}`, {
        cause,
      });
    }
  }
}

const certificateOf = (given: PluginCredential | undefined): Pick<Credentials["tls"], "cert" | "key"> =>
  given?.cert ? { cert: given.cert, key: given.key } : {};

/** A fresh `KubeConfig` has empty caches, so its token files are read again. */
function sourceOf(cluster: Cluster, user: User): KubeConfig {
  const source = new KubeConfig();
  // client-node refuses to create an agent for plain http unless verification is off; its agents are never used.
  const plain = cluster.server.startsWith("http:");
  source.loadFromClusterAndUser(plain ? { ...cluster, skipTLSVerify: true } : cluster, user);
  return source;
}

const pem = (value: unknown): string | undefined =>
  typeof value === "string" ? value : value instanceof Uint8Array ? new TextDecoder().decode(value) : undefined;

function tlsOf(options: RequestOptions, cluster: Cluster): Credentials["tls"] {
  const [ca, cert, key] = [pem(options.ca), pem(options.cert), pem(options.key)];
  return {
    ...(ca !== undefined && { ca }),
    ...(cert !== undefined && { cert }),
    ...(key !== undefined && { key }),
    ...(cluster.tlsServerName && { serverName: cluster.tlsServerName }),
    ...(cluster.skipTLSVerify && { rejectUnauthorized: false }),
  };
}

function headersOf(options: RequestOptions): Record<string, string> {
  const headers: Record<string, string> = {};
  if (options.auth) headers["Authorization"] = `Basic ${Buffer.from(options.auth).toString("base64")}`;
  for (const [name, value] of Object.entries(options.headers ?? {})) {
    const text = String(value ?? "").trim();
    if (text !== "") headers[name] = text;
  }
  return headers;
}

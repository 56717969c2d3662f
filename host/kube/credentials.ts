import type { RequestOptions } from "node:https";

import { type Cluster, KubeConfig, type User } from "@kubernetes/client-node";
import { CodedError, messageOf } from "cloud-controller-host/sdk";

/** What a request carries to prove who sends it and to know whom it reaches. PEM texts. */
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

/** Where the API server is, and how this process proves itself to it. */
export interface ApiServer {
  /** `https://host:port`, without a slash at the end. */
  readonly url: string;
  readonly proxy: string | undefined;
  /**
   * The credentials to send now. `rejected` are those that a 401 turned down: every file is read and every plugin run
   * again, unless that has been done since they were given.
   */
  credentials(options?: { readonly rejected?: Credentials }): Promise<Credentials>;
}

/** A bound service-account token lives about an hour, and its file is written anew well before that. */
const cacheMs = 60_000;

/** An API server whose credentials come from a kubeconfig's cluster and user; files are read again each minute. */
export function apiServerOf(cluster: Cluster, user: User): ApiServer {
  const cache = new CredentialsCache(cluster, user);
  return {
    url: cluster.server.replace(/\/+$/, ""),
    proxy: cluster.proxyUrl,
    credentials: (options) => cache.get(options?.rejected),
  };
}

class CredentialsCache {
  readonly #cluster: Cluster;
  readonly #user: User;
  #source: KubeConfig;
  #readAt = 0;
  #reading: Promise<Credentials> | undefined;

  constructor(cluster: Cluster, user: User) {
    this.#cluster = cluster;
    this.#user = user;
    this.#source = sourceOf(cluster, user);
  }

  async get(rejected: Credentials | undefined): Promise<Credentials> {
    const reading = this.#reading;
    if (reading === undefined || performance.now() - this.#readAt >= cacheMs) return this.#read();
    const credentials = await reading;
    if (credentials !== rejected) return credentials;
    // Whoever else was turned down with the same credentials may have begun to read them again meanwhile.
    if (this.#reading !== undefined && this.#reading !== reading) return this.#reading;
    this.#source = sourceOf(this.#cluster, this.#user);
    return this.#read();
  }

  async #read(): Promise<Credentials> {
    const reading = readCredentials(this.#source, this.#cluster, this.#user);
    this.#reading = reading;
    this.#readAt = performance.now();
    try {
      return await reading;
    } catch (error) {
      if (this.#reading === reading) this.#reading = undefined;
      throw error;
    }
  }
}

/** A `KubeConfig` of its own has empty caches: its token files and credential plugins are asked again. */
function sourceOf(cluster: Cluster, user: User): KubeConfig {
  const source = new KubeConfig();
  // client-node refuses to make an agent for plain http unless verification is off; no agent of its is ever used.
  const plain = cluster.server.startsWith("http:");
  source.loadFromClusterAndUser(plain ? { ...cluster, skipTLSVerify: true } : cluster, user);
  return source;
}

async function readCredentials(source: KubeConfig, cluster: Cluster, user: User): Promise<Credentials> {
  const options: RequestOptions & { auth?: string } = {};
  try {
    await source.applyToHTTPSOptions(options);
  } catch (cause) {
    const message = `cannot get credentials for ${cluster.server}: ${reasonOf(cause, user)}`;
    throw new CodedError("Credentials", message, cause instanceof SyntaxError ? {} : { cause });
  }
  return { tls: tlsOf(options, cluster), headers: headersOf(options) };
}

/** What a credential plugin printed may be the credential itself, so an answer that cannot be read is not quoted. */
function reasonOf(cause: unknown, user: User): string {
  if (cause instanceof SyntaxError)
    return `the credential plugin of user "${user.name}" printed something other than an ExecCredential in JSON`;
  return messageOf(cause).trim() || `the credential plugin of user "${user.name}" failed without a word`;
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

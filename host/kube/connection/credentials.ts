import type { RequestOptions } from "node:https";

import type { Cluster, User } from "@kubernetes/client-node";
import { type Clock, CodedError, isObject, messageOf } from "cloud-controller-host/sdk";

import { systemClock } from "../../async/clock.ts";
import { readText } from "../../config/parse/read-text.ts";
import { CaFile } from "./ca-file.ts";
import type { CredentialObserver } from "./credential-metrics.ts";
import { ExecPlugin, isKeyPair, type PluginCredential } from "./exec-plugin.ts";
import { environmentProxy } from "./proxy.ts";

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
  /** URL of the proxy that requests go through; undefined: they go directly. */
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
  const url = cluster.server.replace(/\/+$/, "");
  return {
    url,
    proxy: cluster.proxyUrl || environmentProxy(url),
    credentials: (asked) => cache.get(asked?.rejected),
  };
}

class CredentialsCache {
  readonly #cluster: Cluster;
  readonly #user: User;
  readonly #ca: CaFile | undefined;
  readonly #plugin: ExecPlugin | undefined;
  readonly #clock: Clock;
  #readAt = 0;
  #reading: Promise<Credentials> | undefined;

  constructor(cluster: Cluster, user: User, { observer, clock = systemClock }: CredentialOptions) {
    const { caFile, ...others } = cluster;
    const { exec: _exec, ...person } = user;
    this.#ca = caFile ? new CaFile(caFile, observer) : undefined;
    this.#plugin = ExecPlugin.of(user, cluster, { clock, observer });
    this.#clock = clock;
    this.#cluster = others;
    this.#user = person;
  }

  async get(rejected: Credentials | undefined): Promise<Credentials> {
    const reading = this.#reading;
    if (reading === undefined) return this.#begin(this.#readAll());
    if (this.#clock.monotonic() - this.#readAt >= cacheMs) {
      // Credentials that cannot be read again stay in use until the API server rejects them.
      if (rejected === undefined) return this.#begin(this.#readAll().catch(() => reading));
      this.#plugin?.forget();
      return this.#begin(this.#readAll());
    }
    const credentials = await reading;
    if (credentials !== rejected) return credentials;
    // Another request rejected with the same credentials may have started to read them again meanwhile.
    if (this.#reading !== undefined && this.#reading !== reading) return this.#reading;
    this.#plugin?.forget();
    return this.#begin(this.#readAll());
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

  /** Reads every file and runs every plugin. */
  async #readAll(): Promise<Credentials> {
    try {
      const { tls, headers } = await readUser(this.#cluster, this.#user);
      const ca = await this.#ca?.read();
      const given = await this.#plugin?.credential(ca);
      return {
        tls: { ...tls, ...(ca !== undefined && { ca }), ...certificateOf(given) },
        headers: { ...headers, ...(given?.token && { Authorization: `Bearer ${given.token}` }) },
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

/** Everything that a cluster and a user hold themselves. Files take precedence over inline data; client-go refuses both. */
async function readUser(cluster: Cluster, user: User): Promise<Credentials> {
  const [ca, cert, key] = await Promise.all([
    pemOf(undefined, cluster.caData),
    pemOf(user.certFile, user.certData),
    pemOf(user.keyFile, user.keyData),
  ]);
  // One of two files is replaced already: every TLS handshake would fail until they are read again. What cannot be parsed
  // is left to TLS.
  if (cert !== undefined && key !== undefined && isKeyPair(cert, key) === false)
    throw new CodedError("Credentials", "the client certificate and its key do not match");
  return {
    tls: {
      ...(ca !== undefined && { ca }),
      ...(cert !== undefined && { cert }),
      ...(key !== undefined && { key }),
      ...(cluster.tlsServerName && { serverName: cluster.tlsServerName }),
      ...(cluster.skipTLSVerify && { rejectUnauthorized: false }),
    },
    headers: nonEmpty({
      ...(user.username && { Authorization: basic(`${user.username}:${user.password ?? ""}`) }),
      ...(user.impersonateUser && { "Impersonate-User": user.impersonateUser }),
      ...(await providedHeaders(cluster, user)),
      ...(user.token && { Authorization: `Bearer ${user.token}` }),
    }),
  };
}

async function pemOf(file: string | undefined, data: string | undefined): Promise<string | undefined> {
  if (file) return readText(file);
  return data ? Buffer.from(data, "base64").toString() : undefined;
}

const basic = (credentials: string): string => `Basic ${Buffer.from(credentials).toString("base64")}`;

/**
 * Headers of a user's auth provider. The providers of cloud vendors and OIDC are client-node's: it is imported for them
 * alone, because its generated classes take 0.3 s of processor time and 40 MiB.
 */
async function providedHeaders(cluster: Cluster, user: User): Promise<Readonly<Record<string, unknown>>> {
  const provider: unknown = user.authProvider;
  if (!isObject(provider)) return {};
  const tokenFile = isObject(provider["config"]) ? provider["config"]["tokenFile"] : undefined;
  if (typeof tokenFile === "string" && tokenFile !== "") {
    const token = (await readText(tokenFile)).trim();
    // A file that is being written. Without a token, a server with anonymous access answers 403, after which none is read.
    if (token === "") throw new CodedError("Credentials", `read empty token from file "${tokenFile}"`);
    return { Authorization: `Bearer ${token}` };
  }
  const { KubeConfig } = await import("@kubernetes/client-node");
  const source = new KubeConfig();
  // client-node refuses to create an agent for plain http unless verification is off; its agents are never used.
  const plain = cluster.server.startsWith("http:");
  source.loadFromClusterAndUser(plain ? { ...cluster, skipTLSVerify: true } : cluster, user);
  const options: RequestOptions = {};
  await source.applyToHTTPSOptions(options);
  return isObject(options.headers) ? options.headers : {};
}

/** Without surrounding space, and without headers that have no value. */
function nonEmpty(headers: Readonly<Record<string, unknown>>): Record<string, string> {
  const named = Object.entries(headers).map(
    ([name, value]) => [name, typeof value === "string" ? value.trim() : ""] as const,
  );
  return Object.fromEntries(named.filter(([, value]) => value !== ""));
}

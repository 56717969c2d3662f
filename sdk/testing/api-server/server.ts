import type { KindRef, KubeObject, ObjectName } from "cloud-controller-host/sdk";
import { stringify } from "yaml";

import { type Access, isAllowed } from "./access/rules.ts";
import { Tokens } from "./access/tokens.ts";
import { type ServingCertificate, servingCertificate } from "./certificate.ts";
import { Faults } from "./faults.ts";
import type { AdmissionWebhook } from "./http/admission.ts";
import { Api } from "./http/api.ts";
import { Documents } from "./http/documents.ts";
import { errorReply } from "./http/replies.ts";
import { RequestPipeline } from "./http/request-pipeline.ts";
import { Reviews } from "./http/reviews.ts";
import { Watchers } from "./http/watchers.ts";
import { plainObject } from "./json.ts";
import { Cluster } from "./registry/cluster.ts";
import { RequestLog } from "./request-log.ts";
import type { Stored } from "./store/stored.ts";

export interface ApiServerOptions {
  /** Default 0: any free port. */
  readonly port?: number;
  /** Folder in which the CA and the certificate are stored for the next run. Default: in memory only. */
  readonly certificateDirectory?: string;
  /** Custom kinds, stored without validation, with a status subresource. */
  readonly kinds?: readonly KindRef[];
  /** Interval of watch bookmarks. Default 60,000. */
  readonly bookmarkMs?: number;
  /** Minimum number of changes per kind that a watch can resume from. Default 10,000. */
  readonly historyLimit?: number;
  /** Decides access reviews in place of the built-in rules, which still apply to requests. */
  readonly allows?: (access: Access) => boolean;
  /** Decides requests in place of the built-in rules. `client` is the last part of the user agent. */
  readonly authorizes?: (access: Access, client: string) => boolean;
}

/**
 * A Kubernetes API server in this process: the real protocol over TLS on loopback, its state in memory. The methods
 * that read and write objects follow the same path as a request, without network, authorization and faults.
 */
export class SandboxApiServer implements AsyncDisposable {
  readonly url: string;
  /** The CA of the serving certificate, in PEM. */
  readonly ca: string;
  readonly requests = new RequestLog();
  readonly faults = new Faults();
  readonly tokens = new Tokens();
  /** Called for the writes of requests that their rules match, not for those of the methods below. */
  webhooks: readonly AdmissionWebhook[] = [];
  readonly watches: Pick<Watchers, "size" | "pause" | "resume" | "drop" | "bookmark">;
  readonly #cluster: Cluster;
  readonly #api: Api;
  readonly #serve: (port: number) => Bun.Server<undefined>;
  #server: Bun.Server<undefined> | undefined;
  readonly #closing = new AbortController();

  static async start(options: ApiServerOptions = {}): Promise<SandboxApiServer> {
    return new SandboxApiServer(options, await servingCertificate(options.certificateDirectory));
  }

  private constructor(options: ApiServerOptions, { ca, certificate, key }: ServingCertificate) {
    const { port = 0, kinds = [], bookmarkMs = 60_000, historyLimit = 10_000, allows = isAllowed } = options;
    const { authorizes = isAllowed } = options;
    this.ca = ca;
    this.#cluster = new Cluster({ kinds, historyLimit });
    const watchers = new Watchers(this.#cluster.revisions, bookmarkMs);
    this.watches = watchers;
    this.#api = new Api(this.#cluster, watchers);
    const { faults, requests, tokens } = this;
    const pipeline = new RequestPipeline({
      faults,
      requests,
      tokens,
      authorizes,
      webhooks: () => this.webhooks,
      api: this.#api,
      cluster: this.#cluster,
      documents: new Documents(this.#cluster.resources, () => new URL(this.url).host),
      reviews: new Reviews({ tokens, cluster: this.#cluster, allows }),
      signal: this.#closing.signal,
    });
    this.#serve = (at) =>
      Bun.serve({
        hostname: "127.0.0.1",
        port: at,
        tls: { cert: certificate, key },
        idleTimeout: 0,
        fetch: (request) => pipeline.respond(request),
        error: errorReply,
      });
    this.#server = this.#serve(port);
    this.url = `https://127.0.0.1:${this.#server.port}`;
  }

  /** The newest resourceVersion. */
  get resourceVersion(): string {
    return String(this.#cluster.revisions.current);
  }

  /** A kubeconfig for an administrator of that name, with CA and bearer token. */
  kubeconfig(user = "admin"): string {
    return kubeconfigText({ url: this.url, ca: this.ca, user, token: this.tokens.of(user) });
  }

  /** Serves custom kinds from now on, as a new CustomResourceDefinition does; no effect for one that is served. */
  serve(kinds: readonly KindRef[]): void {
    for (const kind of kinds) this.#cluster.serve(kind);
  }

  serves(kind: KindRef): boolean {
    return this.#cluster.serves(kind);
  }

  /** Creates an object including its status and, where it has one, its uid. Throws an `ApiError`, as the API does. */
  create<T extends KubeObject>(kind: KindRef<T>, object: T): T {
    const { namespace = "" } = object.metadata ?? {};
    return copyOf(kind, this.#cluster.registryOf(kind).create(namespace, plainObject(object), { keepStatus: true }));
  }

  get<T extends KubeObject>(kind: KindRef<T>, { name, namespace = "" }: ObjectName): T | undefined {
    const stored = this.#cluster.registryOf(kind).find({ name, namespace });
    return stored === undefined ? undefined : copyOf(kind, stored);
  }

  list<T extends KubeObject>(kind: KindRef<T>, { namespace = "" }: { readonly namespace?: string } = {}): readonly T[] {
    return this.#cluster
      .registryOf(kind)
      .collection.list(namespace)
      .map((stored) => copyOf(kind, stored));
  }

  /** Replaces the object with what `change` returns; with `status`, only its status. */
  update<T extends KubeObject>(
    kind: KindRef<T>,
    { name, namespace = "" }: ObjectName,
    change: (before: T) => T,
    subresource?: "status",
  ): T {
    const registry = this.#cluster.registryOf(kind);
    const write = (): T => change(copyOf(kind, registry.get({ name, namespace })));
    return copyOf(
      kind,
      registry.update({ name, namespace }, () => plainObject(write()), { subresource }),
    );
  }

  /** Deletes the object, or sets its deletionTimestamp while it has finalizers. */
  delete(kind: KindRef, { name, namespace = "" }: ObjectName): void {
    this.#cluster.registryOf(kind).delete({ name, namespace });
  }

  /** Calls `listener` for each change of a kind, in order, until it is disposed of. */
  onChange<T extends KubeObject>(
    kind: KindRef<T>,
    listener: (type: "ADDED" | "MODIFIED" | "DELETED", object: T, before: T | undefined) => void,
  ): Disposable {
    const { collection } = this.#cluster.registryOf(kind);
    const unsubscribe = collection.subscribe(({ type, before, after }) =>
      listener(type, copyOf(kind, after), before === undefined ? undefined : copyOf(kind, before)),
    );
    return { [Symbol.dispose]: unsubscribe };
  }

  /** Drops the history: a watch or list that continues from before now is answered with 410 Expired. */
  compact(): void {
    this.#api.compact();
  }

  /** Stops serving: all connections break and new ones are refused. State is kept. */
  async goDown(): Promise<void> {
    this.watches.drop("abort");
    const server = this.#server;
    this.#server = undefined;
    await server?.stop(true);
  }

  /** Serves again, at the same address. */
  comeBack(): void {
    this.#server ??= this.#serve(Number(new URL(this.url).port));
  }

  /** Ends every connection and releases the port. */
  async close(): Promise<void> {
    this.#closing.abort();
    this.watches.drop("end");
    const server = this.#server;
    this.#server = undefined;
    await server?.stop(true);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}

/** A kubeconfig of one cluster and one user, in YAML. */
function kubeconfigText(access: {
  readonly url: string;
  readonly ca: string;
  readonly user: string;
  readonly token: string;
}): string {
  const { url, ca, user, token } = access;
  const name = "sandbox";
  return stringify({
    apiVersion: "v1",
    kind: "Config",
    clusters: [{ name, cluster: { server: url, "certificate-authority-data": Buffer.from(ca).toString("base64") } }],
    users: [{ name: user, user: { token } }],
    contexts: [{ name, context: { cluster: name, user } }],
    "current-context": name,
  });
}

/** A copy for the caller: stored objects are shared and must not be changed. */
function copyOf<T extends KubeObject>(kind: KindRef<T>, { object, text }: Stored): T {
  if (object.kind !== kind.kind) throw new TypeError(`a ${object.kind} was read as a ${kind.kind}`);
  return JSON.parse(text);
}

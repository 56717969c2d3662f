import type { KindRef, KubeObject, ObjectName } from "cloud-controller-host/sdk";

import { type ServingCertificate, servingCertificate } from "./certificate.ts";
import { Faults } from "./faults.ts";
import { Api } from "./http/api.ts";
import { Documents } from "./http/documents.ts";
import { Front } from "./http/front.ts";
import { errorReply } from "./http/replies.ts";
import { type Access, Reviews } from "./http/reviews.ts";
import { Watchers } from "./http/watchers.ts";
import { plainObject } from "./json.ts";
import { kubeconfigText } from "./kubeconfig.ts";
import { Cluster } from "./registry/cluster.ts";
import { RequestLog } from "./request-log.ts";
import type { Stored } from "./store/stored.ts";
import { Tokens } from "./tokens.ts";

export interface ApiServerOptions {
  /** 0, the default, takes a free one. */
  readonly port?: number;
  /** Keeps the CA and the certificate from run to run. By default they live in memory. */
  readonly certificateDirectory?: string;
  /** Kinds beside the built-in ones, stored as they come, with a status subresource. */
  readonly kinds?: readonly KindRef[];
  /** How often watches that ask for bookmarks get one. Default a minute. */
  readonly bookmarkMs?: number;
  /** How many changes of each kind a watch can go back at least. Default 10,000. */
  readonly historyLimit?: number;
  /** Answers access reviews. The server itself lets every user that it knows do everything. Default: yes. */
  readonly allows?: (access: Access) => boolean;
}

/**
 * A Kubernetes API server in this process: the real protocol over TLS on loopback, its state in memory. Everything
 * that reads or writes directly goes the same way as a request, without the network and without the faults.
 */
export class SandboxApiServer implements AsyncDisposable {
  readonly url: string;
  /** The CA of the serving certificate, in PEM. */
  readonly ca: string;
  readonly requests = new RequestLog();
  readonly faults = new Faults();
  readonly tokens = new Tokens();
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
    const { port = 0, kinds = [], bookmarkMs = 60_000, historyLimit = 10_000, allows = () => true } = options;
    this.ca = ca;
    this.#cluster = new Cluster({ kinds, historyLimit });
    const watchers = new Watchers(this.#cluster.revisions, bookmarkMs);
    this.watches = watchers;
    this.#api = new Api(this.#cluster, watchers);
    const { faults, requests, tokens } = this;
    const resources = this.#cluster.registries.map(({ resource }) => resource);
    const front = new Front({
      faults,
      requests,
      tokens,
      api: this.#api,
      cluster: this.#cluster,
      documents: new Documents(resources, () => new URL(this.url).host),
      reviews: new Reviews({ tokens, cluster: this.#cluster, allows }),
      signal: this.#closing.signal,
    });
    this.#serve = (at) =>
      Bun.serve({
        hostname: "127.0.0.1",
        port: at,
        tls: { cert: certificate, key },
        idleTimeout: 0,
        fetch: (request) => front.answer(request),
        error: errorReply,
      });
    this.#server = this.#serve(port);
    this.url = `https://127.0.0.1:${this.#server.port}`;
  }

  /** The newest resourceVersion. */
  get resourceVersion(): string {
    return String(this.#cluster.revisions.current);
  }

  /** A kubeconfig for that user, with the CA and a bearer token in it. */
  kubeconfig(user = "admin"): string {
    return kubeconfigText({ url: this.url, ca: this.ca, user, token: this.tokens.of(user) });
  }

  /** Creates an object, its status with it. Rejects as the API does, with an `ApiError`. */
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

  /** Writes what `change` makes of the object as it is; `status` writes its status instead of all the rest. */
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

  /** Deletes the object, or marks it as being deleted while it has finalizers. */
  delete(kind: KindRef, { name, namespace = "" }: ObjectName): void {
    this.#cluster.registryOf(kind).delete({ name, namespace });
  }

  /** Forgets the history: a watch or a list that goes on from before now is told 410 Expired. */
  compact(): void {
    this.#api.compact();
  }

  /** Takes the server off the network: all connections break, no new ones are taken. What it holds stays. */
  async goDown(): Promise<void> {
    this.watches.drop("abort");
    const server = this.#server;
    this.#server = undefined;
    await server?.stop(true);
  }

  /** Serves again, at the address of before. */
  comeBack(): void {
    this.#server ??= this.#serve(Number(new URL(this.url).port));
  }

  /** Ends every connection and lets go of the port. */
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

/** A fresh copy for the caller: what is kept is shared and must not be changed. */
function copyOf<T extends KubeObject>(kind: KindRef<T>, { object, text }: Stored): T {
  if (object.kind !== kind.kind) throw new TypeError(`a ${object.kind} was read as a ${kind.kind}`);
  return JSON.parse(text);
}

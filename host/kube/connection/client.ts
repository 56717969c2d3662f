import {
  apiVersionOf,
  type CallOptions,
  CodedError,
  type DeleteOptions,
  type Fence,
  type GetOptions,
  type KindRef,
  type KubeClient,
  type KubeObject,
  type ListOptions,
  type ObjectName,
  type PatchOptions,
  type PatchType,
  type WriteOptions,
} from "cloud-controller-host/sdk";

import { LinkedSignal } from "../../async/linked-signal.ts";
import { listAll } from "./list.ts";
import { streamList } from "./stream-list.ts";
import type { ApiRequest, Transport } from "./transport.ts";
import { documentOf, metadataOf, objectOf, pathOf } from "./wire.ts";

const patchContentTypes: Readonly<Record<PatchType, string>> = {
  strategic: "application/strategic-merge-patch+json",
  merge: "application/merge-patch+json",
  json: "application/json-patch+json",
  apply: "application/apply-patch+yaml",
};

/** A server that lacks the transformation returns the whole object. */
const metadataAccept = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";

/** Creates a client. With a fence, every write checks it right before it is sent and is aborted when it closes. */
export function createClient(transport: Transport, options: { readonly fence?: Fence } = {}): KubeClient {
  return new RestClient(transport, options.fence);
}

class RestClient implements KubeClient {
  readonly #transport: Transport;
  readonly #fence: Fence | undefined;

  constructor(transport: Transport, fence: Fence | undefined) {
    this.#transport = transport;
    this.#fence = fence;
  }

  async get<T extends KubeObject>(kind: KindRef<T>, name: ObjectName, options: GetOptions = {}): Promise<T> {
    const response = await this.#transport.send({
      method: "GET",
      path: objectPath(kind, name),
      query: { resourceVersion: options.read === "cached" ? "0" : undefined },
      signal: options.signal,
    });
    return objectOf(kind, await documentOf(response));
  }

  async list<T extends KubeObject>(kind: KindRef<T>, options: ListOptions<T> = {}): Promise<readonly T[]> {
    const read = options.trim === undefined ? listAll : streamList;
    const { items } = await read(this.#transport, kind, options);
    return items;
  }

  async create<T extends KubeObject>(kind: KindRef<T>, object: T, options: CallOptions = {}): Promise<T> {
    const namespace = namespaceOf(kind, object.metadata ?? {});
    const path = pathOf(kind, { namespace });
    return objectOf(kind, await this.#write({ method: "POST", path, body: named(kind, object) }, options));
  }

  async replace<T extends KubeObject>(kind: KindRef<T>, object: T, options: WriteOptions = {}): Promise<T> {
    const { name, namespace } = object.metadata ?? {};
    if (!name) throw new CodedError("InvalidObject", `a ${kind.kind} to be replaced must have metadata.name`);
    const path = objectPath(kind, { name, namespace }, options.subresource);
    return objectOf(kind, await this.#write({ method: "PUT", path, body: named(kind, object) }, options));
  }

  async patch<T extends KubeObject>(
    kind: KindRef<T>,
    name: ObjectName,
    type: PatchType,
    body: unknown,
    options: PatchOptions = {},
  ): Promise<T> {
    const metadataOnly = options.response === "metadata";
    const request: ApiRequest = {
      method: "PATCH",
      path: objectPath(kind, name, options.subresource),
      contentType: patchContentTypes[type],
      body,
      ...(metadataOnly && { accept: metadataAccept }),
      // An apply must name the field manager; other writes are attributed by the user agent's first word as well.
      ...(type === "apply" && { query: { fieldManager: this.#transport.userAgent.split("/", 1)[0], force: "true" } }),
    };
    const reply = await this.#write(request, options);
    return metadataOnly ? metadataOf(kind, reply) : objectOf(kind, reply);
  }

  async delete<T extends KubeObject>(kind: KindRef<T>, name: ObjectName, options: DeleteOptions = {}): Promise<void> {
    const { uid, resourceVersion } = options;
    const preconditions = { ...(uid && { uid }), ...(resourceVersion && { resourceVersion }) };
    const guarded = Object.keys(preconditions).length > 0;
    const body = { apiVersion: "v1", kind: "DeleteOptions", ...(guarded && { preconditions }) };
    await this.#write({ method: "DELETE", path: objectPath(kind, name), body }, options);
  }

  /** Sends a write under the fence and returns the reply's document. */
  async #write(request: ApiRequest, options: CallOptions): Promise<unknown> {
    const what = `${request.method} ${request.path}`;
    const check = (): void => this.#fence?.check(what);
    check();
    using link = new LinkedSignal(options.signal, this.#fence?.signal);
    const response = await this.#transport.send({ ...request, signal: link.signal, guard: check });
    return documentOf(response);
  }
}

function objectPath(kind: KindRef, name: ObjectName, subresource?: "status"): string {
  const namespace = namespaceOf(kind, name);
  return pathOf(kind, { namespace, name: name.name, ...(subresource && { subresource }) });
}

function namespaceOf(
  kind: KindRef,
  { name, namespace }: { readonly name?: string; readonly namespace?: string | undefined },
): string | undefined {
  if (kind.namespaced && !namespace)
    throw new CodedError("InvalidObject", `a ${kind.kind} is in a namespace; none is given for "${name ?? ""}"`);
  return namespace;
}

const named = <T extends KubeObject>(kind: KindRef<T>, object: T): T => ({
  apiVersion: apiVersionOf(kind),
  kind: kind.kind,
  ...object,
});

import {
  apiVersionOf,
  type CallOptions,
  CodedError,
  type CollectionOptions,
  type DeleteOptions,
  type Fence,
  type GetOptions,
  type KindRef,
  kinds,
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
import { documentOf, metadataAccept, metadataOf, objectOf, pathOf } from "./wire.ts";

const patchContentTypes: Readonly<Record<PatchType, string>> = {
  strategic: "application/strategic-merge-patch+json",
  merge: "application/merge-patch+json",
  json: "application/json-patch+json",
  apply: "application/apply-patch+yaml",
};

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
      ...(metadataOnly && { accept: metadataAccept.object }),
      query: this.#patchQuery(type, options),
    };
    const reply = await this.#write(request, options);
    return metadataOnly ? metadataOf(kind, reply) : objectOf(kind, reply);
  }

  async delete<T extends KubeObject>(kind: KindRef<T>, name: ObjectName, options: DeleteOptions = {}): Promise<void> {
    await this.#write({ method: "DELETE", path: objectPath(kind, name), body: deletion(options) }, options);
  }

  /** An apply must name the field manager; other writes are attributed by the user agent's first word as well. */
  #patchQuery(
    type: PatchType,
    { fieldManager, force = true }: PatchOptions,
  ): Readonly<Record<string, string | undefined>> {
    if (type !== "apply") return { fieldManager };
    const [program] = this.#transport.userAgent.split("/", 1);
    return { fieldManager: fieldManager ?? program, force: String(force) };
  }

  async deleteCollection(kind: KindRef, options: CollectionOptions): Promise<void> {
    const { namespace, labelSelector, fieldSelector } = options;
    const path = pathOf(kind, { namespace });
    await this.#write({ method: "DELETE", path, query: { labelSelector, fieldSelector }, body: deletion({}) }, options);
  }

  async evict(pod: Required<ObjectName>, options: DeleteOptions = {}): Promise<void> {
    const path = `${objectPath(kinds.Pod, pod)}/eviction`;
    const { name, namespace } = pod;
    const deleteOptions = deletion(options);
    const body = { apiVersion: "policy/v1", kind: "Eviction", metadata: { name, namespace }, deleteOptions };
    await this.#write({ method: "POST", path, body }, options);
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

function deletion({ uid, resourceVersion, propagationPolicy }: DeleteOptions): object {
  const preconditions = { ...(uid && { uid }), ...(resourceVersion && { resourceVersion }) };
  const guarded = Object.keys(preconditions).length > 0;
  return {
    apiVersion: "v1",
    kind: "DeleteOptions",
    ...(guarded && { preconditions }),
    ...(propagationPolicy && { propagationPolicy }),
  };
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

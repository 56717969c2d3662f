import {
  ApiError,
  apiVersionOf,
  type CallOptions,
  type KindRef,
  kinds,
  type KubeClient,
  type KubeObject,
  type ObjectName,
  type PatchType,
} from "cloud-controller-host/sdk";

/** The requests of one user, sent by nothing but `fetch`: a test's view of the cluster owes nothing to the host. */
export interface TestClient extends KubeClient {
  /** Any request; resolves with the parsed answer and rejects with `ApiError`. A string body is sent as it is. */
  request(method: string, path: string, body?: unknown, options?: RequestOptions): Promise<unknown>;
}

export interface RequestOptions extends CallOptions {
  readonly contentType?: string;
}

export interface Connection {
  readonly server: string;
  readonly tls: { readonly ca: string; readonly cert: string; readonly key: string };
}

const patchTypes: Readonly<Record<PatchType, string>> = {
  strategic: "application/strategic-merge-patch+json",
  merge: "application/merge-patch+json",
  json: "application/json-patch+json",
  apply: "application/apply-patch+yaml",
};

/** `connect` is asked at each request, so that a client can be made before its control plane is up. */
export function createTestClient(connect: () => Promise<Connection>): TestClient {
  // The type argument names what the server promises to answer at that path.
  const send = async <T>(method: string, path: string, body?: unknown, options: RequestOptions = {}): Promise<T> => {
    const { server, tls } = await connect();
    const response = await fetch(server + path, {
      method,
      tls,
      headers: { accept: "application/json", "content-type": options.contentType ?? "application/json" },
      ...(body === undefined ? {} : { body: typeof body === "string" ? body : JSON.stringify(body) }),
      ...(options.signal === undefined ? {} : { signal: options.signal }),
    });
    if (!response.ok) throw await apiErrorOf(response, `${method} ${path}`);
    const text = await response.text();
    const isJson = response.headers.get("content-type")?.startsWith("application/json") === true;
    return JSON.parse(isJson ? text : JSON.stringify(text));
  };
  return {
    request: send,
    get: (kind, name, options) => send("GET", pathOf(kind, name), undefined, options),
    async list<T extends KubeObject>(kind: KindRef<T>, options: Parameters<KubeClient["list"]>[1] = {}) {
      const query = new URLSearchParams();
      if (options.labelSelector !== undefined) query.set("labelSelector", options.labelSelector);
      if (options.fieldSelector !== undefined) query.set("fieldSelector", options.fieldSelector);
      const path = `${pathOf(kind, { namespace: options.namespace })}?${query.toString()}`;
      const { items } = await send<{ readonly items: readonly T[] }>("GET", path, undefined, options);
      return items.map((item) => ({ ...item, apiVersion: apiVersionOf(kind), kind: kind.kind }));
    },
    create: (kind, object, options) =>
      send("POST", pathOf(kind, { namespace: object.metadata?.namespace }), withKind(kind, object), options),
    replace: (kind, object, options) =>
      send("PUT", pathOf(kind, object.metadata ?? {}, options?.subresource), withKind(kind, object), options),
    patch: (kind, name, type, body, options) =>
      send("PATCH", pathOf(kind, name, options?.subresource) + (type === "apply" ? "?fieldManager=test" : ""), body, {
        ...options,
        contentType: patchTypes[type],
      }),
    async delete(kind, name, { uid, resourceVersion, ...options } = {}) {
      const preconditions = { uid, resourceVersion };
      await send("DELETE", pathOf(kind, name), { preconditions }, options);
    },
    async deleteCollection(kind, { namespace, labelSelector = "", fieldSelector = "", ...options }) {
      const query = new URLSearchParams({ labelSelector, fieldSelector });
      await send("DELETE", `${pathOf(kind, { namespace })}?${query.toString()}`, undefined, options);
    },
    async evict(pod, options) {
      const eviction = { apiVersion: "policy/v1", kind: "Eviction", metadata: pod };
      await send("POST", pathOf(kinds.Pod, pod, "eviction"), eviction, options);
    },
  };
}

const withKind = <T extends KubeObject>(kind: KindRef<T>, object: T): T => ({
  ...object,
  apiVersion: apiVersionOf(kind),
  kind: kind.kind,
});

/** The path of an object, or of the collection where no name is given (all namespaces where no namespace is). */
function pathOf(kind: KindRef, { namespace, name }: Partial<ObjectName>, subresource?: string): string {
  const root = kind.group === "" ? "/api" : "/apis";
  const scope = kind.namespaced && namespace !== undefined ? ["namespaces", namespace] : [];
  const parts = [apiVersionOf(kind), ...scope, kind.plural, name, subresource];
  return [root, ...parts.filter((part) => part !== undefined)].join("/");
}

async function apiErrorOf(response: Response, request: string): Promise<ApiError> {
  const text = await response.text();
  let status: { readonly reason?: string; readonly message?: string } = {};
  try {
    status = JSON.parse(text);
  } catch {
    status = { message: text };
  }
  return new ApiError(response.status, status.reason ?? "", `${request}: ${status.message ?? response.statusText}`);
}

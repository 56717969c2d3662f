import { isNotFound, type KindRef, kinds, type KubeObject, type Namespace } from "cloud-controller-host/sdk";

import type { TestClient } from "./client.ts";

/** Kinds that tests make objects of, and which of these objects are the system's own. */
const cleaned: readonly { readonly kind: KindRef; readonly isSystem: (object: KubeObject) => boolean }[] = [
  { kind: kinds.Node, isSystem: () => false },
  { kind: kinds.Service, isSystem: named("default", "kubernetes") },
  { kind: kinds.EndpointSlice, isSystem: named("default", "kubernetes") },
  {
    kind: kinds.Lease,
    isSystem: (object) => object.metadata?.labels?.["apiserver.kubernetes.io/identity"] !== undefined,
  },
  { kind: kinds.Event, isSystem: () => false },
  { kind: kinds.Secret, isSystem: () => false },
  {
    kind: kinds.ConfigMap,
    isSystem: (object) =>
      ["extension-apiserver-authentication", "kube-apiserver-legacy-service-account-token-tracking"].includes(
        object.metadata?.name ?? "",
      ),
  },
  { kind: kinds.ServiceAccount, isSystem: () => false },
];

const systemNamespaces = new Set(["default", "kube-system", "kube-public", "kube-node-lease"]);

function named(namespace: string, name: string): (object: KubeObject) => boolean {
  return ({ metadata }) => metadata?.namespace === namespace && metadata.name === name;
}

export async function cleanSlate(admin: TestClient): Promise<void> {
  await Promise.all(
    cleaned.map(async ({ kind, isSystem }) => {
      const objects = await admin.list(kind);
      await Promise.all(objects.filter((object) => !isSystem(object)).map((object) => remove(admin, kind, object)));
    }),
  );
  const namespaces = await admin.list(kinds.Namespace);
  await Promise.all(
    namespaces
      .filter(({ metadata }) => !systemNamespaces.has(metadata?.name ?? ""))
      .map((namespace) => removeNamespace(admin, namespace)),
  );
}

/** Deletes, past any finalizer: the controller that should remove it may no longer run. */
async function remove<T extends KubeObject>(admin: TestClient, kind: KindRef<T>, { metadata }: T): Promise<void> {
  const name = { name: metadata?.name ?? "", namespace: metadata?.namespace };
  await ifFound(admin.delete(kind, name));
  if ((metadata?.finalizers ?? []).length > 0)
    await ifFound(admin.patch(kind, name, "merge", { metadata: { finalizers: null } }));
}

/** Without a namespace controller the namespace never becomes empty by itself. */
async function removeNamespace(admin: TestClient, { metadata }: Namespace): Promise<void> {
  const name = metadata?.name ?? "";
  await ifFound(admin.delete(kinds.Namespace, { name }));
  await ifFound(
    admin.request("PUT", `/api/v1/namespaces/${name}/finalize`, {
      apiVersion: "v1",
      kind: "Namespace",
      metadata: { name },
      spec: { finalizers: [] },
    }),
  );
}

const ifFound = async (work: Promise<unknown>): Promise<void> => {
  await work.catch((error: unknown) => {
    if (!isNotFound(error)) throw error;
  });
};

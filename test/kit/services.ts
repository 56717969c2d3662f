import { isNotFound, kinds, type KubeClient, type Service } from "cloud-controller-host/sdk";

/** Finalizer that keeps a Service in the API until its load balancer is deleted. */
export const cleanupFinalizer = "service.kubernetes.io/load-balancer-cleanup";

/** A Service of type LoadBalancer in the default namespace. */
export const balancedService = (name: string, more: Partial<NonNullable<Service["spec"]>> = {}): Service => ({
  apiVersion: "v1",
  kind: "Service",
  metadata: { name, namespace: "default" },
  spec: { type: "LoadBalancer", selector: { app: name }, ports: [{ port: 80, protocol: "TCP" }], ...more },
});

/** Undefined when there is none. */
export async function findService(admin: KubeClient, name: string): Promise<Service | undefined> {
  try {
    return await admin.get(kinds.Service, { namespace: "default", name });
  } catch (error) {
    if (isNotFound(error)) return undefined;
    throw error;
  }
}

export const patchService = (admin: KubeClient, name: string, body: unknown): Promise<Service> =>
  admin.patch(kinds.Service, { namespace: "default", name }, "merge", body);

export const deleteService = (admin: KubeClient, name: string): Promise<void> =>
  admin.delete(kinds.Service, { namespace: "default", name });

export const finalizersOf = (service: Service | undefined): readonly string[] => service?.metadata?.finalizers ?? [];

/** The addresses in its status. */
export const addressesOf = (service: Service | undefined): readonly string[] =>
  (service?.status?.loadBalancer?.ingress ?? []).map(({ ip, hostname }) => ip ?? hostname ?? "");

/** A Service of type LoadBalancer with the label that selects its shard. */
export const shardedService = (name: string, shard: string): Service => ({
  metadata: { namespace: "default", name, labels: { shard } },
  spec: { type: "LoadBalancer", ports: [{ port: 80, protocol: "TCP" }] },
});

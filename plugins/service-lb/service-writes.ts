import { isNotFound, kinds, type KubeClient, type LoadBalancerStatus, type Service } from "cloud-controller-host/sdk";

import { step } from "./failure.ts";
import { finalizerAdded, finalizerRemoved, statusWritten } from "./patch.ts";
import { hasFinalizer } from "./predicates.ts";
import { asServed, sameStatus } from "./status.ts";

/** Every request that changes a Service. What already is as wanted is not written. */
export interface ServiceWrites {
  addFinalizer(service: Service): Promise<void>;
  removeFinalizer(service: Service): Promise<void>;
  status(service: Service, wanted: LoadBalancerStatus): Promise<void>;
}

export function serviceWrites({ client }: { readonly client: KubeClient }): ServiceWrites {
  const patch = async ({ metadata }: Service, body: unknown): Promise<void> => {
    const name = { name: metadata?.name ?? "", namespace: metadata?.namespace };
    await client.patch(kinds.Service, name, "strategic", body, { subresource: "status" });
  };
  return {
    async addFinalizer(service) {
      if (hasFinalizer(service)) return;
      await step("failed to add load balancer cleanup finalizer", () => patch(service, finalizerAdded(service)));
    },
    async removeFinalizer(service) {
      if (!hasFinalizer(service)) return;
      await step("failed to remove load balancer cleanup finalizer", () => patch(service, finalizerRemoved(service)));
    },
    async status(service, wanted) {
      if (sameStatus(asServed(service.status?.loadBalancer ?? {}), asServed(wanted))) return;
      try {
        await step("failed to update load balancer status", () => patch(service, statusWritten(wanted)));
      } catch (error) {
        // A Service that went with its last finalizer needs no status.
        if (!(error instanceof Error && isNotFound(error.cause))) throw error;
      }
    },
  };
}

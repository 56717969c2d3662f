import {
  type GenerationContext,
  isNotFound,
  keyOf,
  kinds,
  type LoadBalancerStatus,
  messageOf,
  type Service,
} from "cloud-controller-host/sdk";

import { wrapError } from "./errors.ts";
import { finalizer, hasFinalizer } from "./predicates.ts";

/** Condition of Services whose load balancer could not be synced; one that never failed does not have it. */
const ready = "LoadBalancerReady";
/** Limit of the API server for the message of a condition. */
const maxMessage = 32_768;

interface ConditionState {
  readonly type: string;
  readonly status: "True" | "False";
  readonly reason: string;
  readonly message: string;
}

const timeOf = (ms: number): string => new Date(ms).toISOString().replace(/\.\d+Z$/u, "Z");

/** Every request that changes a Service. Nothing is written where nothing changes. */
export interface ServiceWrites {
  addFinalizer(service: Service): Promise<void>;
  removeFinalizer(service: Service): Promise<void>;
  status(service: Service, wanted: LoadBalancerStatus): Promise<void>;
  /** Sets the condition `LoadBalancerReady` to false. A write that fails is only logged: the sync has its own error. */
  failure(service: Service, error: unknown, retryDelayMs: number): Promise<void>;
  /** Sets it to true again, on Services that have it. */
  success(service: Service): Promise<void>;
}

type WriteContext = Pick<GenerationContext, "client" | "clock" | "log">;

export function serviceWrites({ client, clock, log }: WriteContext): ServiceWrites {
  /** Services whose condition was set to false and may not be seen in the informer's store yet. */
  const failing = new Set<string | undefined>();
  const condition = async (service: Service, state: ConditionState): Promise<void> => {
    try {
      await patch(service, { status: { conditions: [{ ...state, lastTransitionTime: timeOf(clock.now()) }] } });
    } catch (error) {
      log.debug(2, "Unable to write the condition of a Service", { service: keyOf(service), error });
    }
  };
  const patch = async ({ metadata }: Service, body: unknown): Promise<void> => {
    const name = { name: metadata?.name ?? "", namespace: metadata?.namespace };
    await client.patch(kinds.Service, name, "strategic", body, { subresource: "status" });
  };
  return {
    async addFinalizer(service) {
      if (hasFinalizer(service)) return;
      await wrapError("failed to add load balancer cleanup finalizer", () => patch(service, finalizerAdded(service)));
    },
    async removeFinalizer(service) {
      if (!hasFinalizer(service)) return;
      await wrapError("failed to remove load balancer cleanup finalizer", () =>
        patch(service, finalizerRemoved(service)),
      );
    },
    async status(service, wanted) {
      if (sameStatus(asServed(service.status?.loadBalancer ?? {}), asServed(wanted))) return;
      try {
        await wrapError("failed to update load balancer status", () => patch(service, statusWritten(wanted)));
      } catch (error) {
        // A Service that disappeared with its last finalizer needs no status.
        if (!(error instanceof Error && isNotFound(error.cause))) throw error;
      }
    },
    async failure(service, error, retryDelayMs) {
      failing.add(service.metadata?.uid);
      const message = `${messageOf(error)}; next retry at ${timeOf(clock.now() + retryDelayMs)}`.slice(0, maxMessage);
      await condition(service, { type: ready, status: "False", reason: "SyncLoadBalancerFailed", message });
    },
    async success(service) {
      const shown = service.status?.conditions?.find(({ type }) => type === ready)?.status === "False";
      if (!failing.delete(service.metadata?.uid) && !shown) return;
      await condition(service, { type: ready, status: "True", reason: "EnsuredLoadBalancer", message: "" });
    },
  };
}

/**
 * Bodies of this controller's writes, all strategic merge patches of `services/status`. They carry no resourceVersion:
 * each touches one field, so that a concurrent edit of the Service is not a conflict.
 */
type Body = Readonly<Record<string, unknown>>;

const finalizersOf = (service: Service): readonly string[] => service.metadata?.finalizers ?? [];

export function finalizerAdded(service: Service): Body {
  const others = finalizersOf(service);
  const order = others.length === 0 ? {} : { "$setElementOrder/finalizers": [...others, finalizer] };
  return { metadata: { ...order, finalizers: [finalizer] } };
}

/**
 * Removes only our finalizer. Upstream sets the whole list to `null` when it knows of no other, which loses one that was
 * added in the meantime; the directive that it uses beside other finalizers is safe in both cases.
 */
export function finalizerRemoved(service: Service): Body {
  const rest = finalizersOf(service).filter((name) => name !== finalizer);
  const order = rest.length === 0 ? {} : { "$setElementOrder/finalizers": rest };
  return { metadata: { "$deleteFromPrimitiveList/finalizers": [finalizer], ...order } };
}

export function statusWritten({ ingress = [] }: LoadBalancerStatus): Body {
  return { status: { loadBalancer: { ingress: ingress.length === 0 ? null : ingress } } };
}

type Ingress = NonNullable<LoadBalancerStatus["ingress"]>[number];

/**
 * Normalizes a status to what the API server stores: it defaults `ipMode` of an ingress with an IP. Without this, the
 * same status would be written again after every ensure.
 */
export const asServed = (status: LoadBalancerStatus): LoadBalancerStatus => ({
  ingress: (status.ingress ?? []).map((entry) => (entry.ip && !entry.ipMode ? { ...entry, ipMode: "VIP" } : entry)),
});

/** Compares ingress entries in order; an absent list equals an empty one. */
export function sameStatus(left: LoadBalancerStatus, right: LoadBalancerStatus): boolean {
  return sameList(left.ingress ?? [], right.ingress ?? [], sameIngress);
}

const sameIngress = (left: Ingress, right: Ingress): boolean =>
  (left.ip ?? "") === (right.ip ?? "") &&
  (left.hostname ?? "") === (right.hostname ?? "") &&
  left.ipMode === right.ipMode &&
  sameList(
    left.ports ?? [],
    right.ports ?? [],
    (a, b) => a.port === b.port && a.protocol === b.protocol && a.error === b.error,
  );

const sameList = <T>(left: readonly T[], right: readonly T[], same: (left: T, right: T) => boolean): boolean =>
  left.length === right.length &&
  left.every((item, index) => {
    const other = right[index];
    return other !== undefined && same(item, other);
  });

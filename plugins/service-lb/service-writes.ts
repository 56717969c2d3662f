import {
  ApiError,
  type GenerationContext,
  isBeingDeleted,
  isNotFound,
  isReplaced,
  keyOf,
  kinds,
  type LoadBalancerStatus,
  type Service,
} from "cloud-controller-host/sdk";

import { wrapError } from "./errors.ts";
import { finalizer, hasFinalizer, markKey, markOf } from "./predicates.ts";
import { type ServiceConditions, serviceConditions } from "./service-condition.ts";

/** Every request that changes a Service. Nothing is written where nothing changes. */
export interface ServiceWrites {
  addFinalizer(service: Service): Promise<void>;
  /**
   * Takes from a Service whose load balancer is gone what it has of it: finalizer, mark, condition, and the address unless it
   * is another one. In one patch, so that nothing stays behind once the finalizer is gone. A Service that is gone, or has
   * been replaced under its name, needs nothing, though the informer may show it again.
   */
  release(service: Service, address: "cleared" | "kept"): Promise<void>;
  /** Marks the Service as served by the deployment with this Lease. Rejects with a conflict if it has changed since. */
  mark(service: Service, lease: string): Promise<Service>;
  unmark(service: Service): Promise<void>;
  /** Compares with what was last written here as well, which the informer may not show yet. */
  status(service: Service, wanted: LoadBalancerStatus): Promise<void>;
  /** Writes of the condition `LoadBalancerReady`. */
  readonly condition: ServiceConditions;
  /** Called for a Service that is gone, or that this process serves no more. */
  forget(service: Service): void;
}

/** Services whose removed finalizer is remembered; the informer no longer shows that of older ones. */
const maxRemoved = 1_000;

type WriteContext = Pick<GenerationContext, "client" | "clock" | "log">;

export function serviceWrites({ client, clock, log }: WriteContext): ServiceWrites {
  const patched = ({ metadata }: Service, body: Body): Promise<Service> => {
    const name = { name: metadata?.name ?? "", namespace: metadata?.namespace };
    return client.patch(kinds.Service, name, "strategic", body, { subresource: "status" });
  };
  const patch = async (service: Service, { metadata, ...rest }: Body): Promise<void> => {
    const { uid } = service.metadata ?? {};
    try {
      await patched(service, { metadata: { uid, ...metadata }, ...rest });
    } catch (error) {
      throw isReplaced(error) ? gone(service, error) : error;
    }
  };
  const condition = serviceConditions({ clock, log }, patch);
  /** UIDs of existing Services whose finalizer was, or may have been, removed; the informer may still show it. */
  const removed = new Set<string | undefined>();
  /** Statuses that were, or may have been, written here, by UID. */
  const statuses = new Map<string | undefined, LoadBalancerStatus>();
  return {
    async addFinalizer(service) {
      const uid = service.metadata?.uid;
      if (hasFinalizer(service) && !removed.has(uid)) return;
      await wrapError("failed to add load balancer cleanup finalizer", () => patch(service, finalizerAdded(service)));
      removed.delete(uid);
    },
    async release(service, address) {
      // Without the finalizer, the condition may be that of the controller of another class.
      const isOurs = hasFinalizer(service) || service.spec?.type !== "LoadBalancer";
      const stays = !isBeingDeleted(service) || otherFinalizers(service).length > 0;
      const status = {
        ...(isOurs && stays && condition.removal(service)),
        ...(address === "cleared" && !hasStatus(service, {}) && statusOf({})),
      };
      const body = {
        ...(hasFinalizer(service) && finalizerRemoved(service)),
        ...(Object.keys(status).length > 0 && { status }),
      };
      if (Object.keys(body).length === 0) return;
      // Before the write, which may be applied without an answer.
      if (!isBeingDeleted(service)) removed.add(service.metadata?.uid);
      const [oldest] = removed;
      if (removed.size > maxRemoved) removed.delete(oldest);
      await wrapError("failed to remove load balancer cleanup finalizer", () => unlessGone(patch(service, body)));
    },
    mark: (service, lease) => patched(service, marked(lease, service)),
    unmark: (service) => unlessGone(patch(service, marked(null))),
    async status(service, wanted) {
      const { uid } = service.metadata ?? {};
      if (hasStatus(service, wanted) && sameStatus(statuses.get(uid) ?? wanted, wanted)) return;
      // Before the write, which may be applied without an answer.
      statuses.set(uid, wanted);
      await wrapError("failed to update load balancer status", () =>
        unlessGone(patch(service, { status: statusOf(wanted) })),
      );
    },
    condition,
    forget(service) {
      statuses.delete(service.metadata?.uid);
      condition.forget(service);
    },
  };
}

const unlessGone = (write: Promise<void>): Promise<void> =>
  write.catch((error: unknown) => {
    if (!isNotFound(error)) throw error;
  });

/**
 * Bodies of this controller's writes, all strategic merge patches of `services/status`. But for a new mark, they carry
 * no resourceVersion: each names only what it changes, so that a concurrent edit of the Service is not a conflict. They
 * carry its UID: what belongs to one Service must not reach another one that was created under its name.
 */
interface Body {
  readonly metadata?: Readonly<Record<string, unknown>>;
  readonly status?: Readonly<Record<string, unknown>>;
}

const gone = (service: Service, cause: unknown): ApiError =>
  new ApiError(404, "NotFound", `${keyOf(service)} is gone: another Service has its name`, { cause });

const otherFinalizers = ({ metadata }: Service): readonly string[] =>
  metadata?.finalizers?.filter((name) => name !== finalizer) ?? [];

export function finalizerAdded(service: Service): Body {
  const others = otherFinalizers(service);
  const order = others.length === 0 ? {} : { "$setElementOrder/finalizers": [...others, finalizer] };
  return { metadata: { ...order, finalizers: [finalizer] } };
}

/**
 * Removes only our finalizer. Upstream sets the whole list to `null` when it knows of no other, which loses one that was
 * added in the meantime; the directive that it uses beside other finalizers is safe in both cases.
 */
export function finalizerRemoved(service: Service): Body {
  const rest = otherFinalizers(service);
  const order = rest.length === 0 ? {} : { "$setElementOrder/finalizers": rest };
  const unmarked = markOf(service) === undefined ? {} : { annotations: { [markKey]: null } };
  return { metadata: { "$deleteFromPrimitiveList/finalizers": [finalizer], ...order, ...unmarked } };
}

/** With a Service, the patch applies to that version only. Null removes the mark. */
const marked = (lease: string | null, { metadata }: Service = {}): Body => ({
  metadata: {
    annotations: { [markKey]: lease },
    ...(metadata && { resourceVersion: metadata.resourceVersion }),
  },
});

/** Of the patch that makes it the status. */
export const statusOf = ({ ingress = [] }: LoadBalancerStatus) => ({
  loadBalancer: { ingress: ingress.length === 0 ? null : ingress },
});

type Ingress = NonNullable<LoadBalancerStatus["ingress"]>[number];

/**
 * Normalizes a status to what the API server stores: it defaults `ipMode` of an ingress with an IP. Without this, the
 * same status would be written again after every ensure.
 */
export const asServed = (status: LoadBalancerStatus): LoadBalancerStatus => ({
  ingress: (status.ingress ?? []).map((entry) => (entry.ip && !entry.ipMode ? { ...entry, ipMode: "VIP" } : entry)),
});

/** True if the Service shows the status, as the informer has it. */
export const hasStatus = ({ status }: Service, wanted: LoadBalancerStatus): boolean =>
  sameStatus(asServed(status?.loadBalancer ?? {}), asServed(wanted));

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

import { annotationOf, annotations, type Service, type Shards } from "cloud-controller-host/sdk";

/**
 * True for versions of one Service of one controller. Another Service may have got its name; and one with another class,
 * which it can get by way of another type, is another controller's.
 */
export const isSameService = (one: Service, other: Service): boolean =>
  one.metadata?.uid === other.metadata?.uid && one.spec?.loadBalancerClass === other.spec?.loadBalancerClass;

/** True if another deployment serves the Service. A deployment that shares the Services marks each that it serves. */
export function isOfAnother(service: Service, shards: Shards | undefined): boolean {
  const mark = annotationOf(service, annotations.servedBy) || undefined;
  return mark === undefined ? shards?.isAlive !== undefined : mark !== shards?.own;
}

/** Another controller of the cluster: it serves the Services of its class, and those that its deployment has marked. */
import { annotations, type Service } from "cloud-controller-host/sdk";

export const theirClass = "example.com/theirs";
export const theirMark = "theirs";
/** That of every Service of theirs. */
export const theirAddress = "203.0.113.200";

export const isMarked = ({ metadata }: Service): boolean => metadata?.annotations?.[annotations.servedBy] !== undefined;

/** True for a Service that the product leaves alone. */
export const isTheirs = (service: Service): boolean =>
  service.spec?.loadBalancerClass !== undefined || isMarked(service);

/** True if they have it to serve. */
export const isForThem = (service: Service): boolean =>
  isTheirs(service) && service.spec?.type === "LoadBalancer" && service.metadata?.deletionTimestamp === undefined;

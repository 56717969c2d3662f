/** Another controller of the cluster: it serves the Services of its class, and those that its deployment has marked. */
import { annotations, type Service } from "cloud-controller-host/sdk";

import { markOf, secondClass } from "../deployments.ts";

export const theirClass = "example.com/theirs";
export const theirMark = "theirs";
/** That of every Service of theirs. */
export const theirAddress = "203.0.113.200";

/** True for one with their mark: those of our deployments are not theirs. */
export const isMarked = (service: Service): boolean =>
  service.metadata?.annotations?.[annotations.servedBy] !== undefined && markOf(service) === undefined;

/** True for a Service that the product leaves alone. */
export const isTheirs = (service: Service): boolean =>
  (service.spec?.loadBalancerClass ?? secondClass) !== secondClass || isMarked(service);

/** True if they have it to serve. */
export const isForThem = (service: Service): boolean =>
  isTheirs(service) && service.spec?.type === "LoadBalancer" && service.metadata?.deletionTimestamp === undefined;

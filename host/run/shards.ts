import {
  annotationOf,
  annotations,
  type Clock,
  controllerNames,
  keyOf,
  type KubeClient,
  type Logger,
  type Metrics,
  parseLabelSelector,
  type Service,
} from "cloud-controller-host/sdk";

import { shardName, sharesServices } from "../config/validate/shard.ts";
import { isControllerEnabled } from "../config/values/controller-list.ts";
import { announcementBy, announcementKey, type Served } from "../process/leader-election/announcement.ts";
import { Shards } from "../process/leader-election/shards.ts";
import type { HostInput } from "./process-parts.ts";

type Input = Pick<HostInput, "options">;

/** Record that other shards read from the Lease of this process. */
const servedBy = ({ options }: Input): Served => ({
  shard: options.shard,
  services: isControllerEnabled(controllerNames.serviceLB, true, options.controllers),
  loadBalancerClass: options.loadBalancerClass,
  serviceSelector: options.serviceSelector.trim(),
});

/** The annotations of the main lock's Lease. */
export const announcement = (input: Input, identity: string): Readonly<Record<string, string>> => ({
  [announcementKey]: announcementBy(identity, servedBy(input)),
});

/** Pause between reads of the other shards' Leases for `/statusz`. A decision that needs them reads them itself. */
const pauseMs = 5_000;

interface Parts {
  readonly clock: Clock;
  readonly log: Logger;
  readonly metrics: { readonly root: Metrics };
}

/** The shards of the cluster, for a process that shares its Services; undefined for one that serves them all. */
export function shardsOf(input: Input, { clock, log, metrics }: Parts, client: KubeClient): Shards | undefined {
  const { options } = input;
  const { shard, leaderElectResourceName: lease, loadBalancerClass, serviceSelector } = options;
  const info = metrics.root.gauge({
    name: "host_shard_info",
    help: "1 for the shard of this process, with what it serves.",
    labels: ["shard", "lease", "load_balancer_class", "service_selector"],
  });
  if (!options.leaderElect || !sharesServices(options)) return undefined;
  info.set(1, { shard, lease, load_balancer_class: loadBalancerClass, service_selector: serviceSelector });
  return new Shards({
    client,
    clock,
    log,
    namespace: options.leaderElectResourceNamespace,
    lease,
    mainLease: lease.slice(0, lease.length - shardName(options, "").length),
    served: servedBy(input),
    limitMs: Math.max(1000, options.leaderElectRenewDeadline / 2),
  });
}

/** Reads the shards' Leases until the signal aborts, for `/statusz`. A failed read is repeated after the pause. */
export async function watchShards(
  shards: Shards,
  { clock, log }: Pick<Parts, "clock" | "log">,
  signal: AbortSignal,
): Promise<void> {
  while (!signal.aborted) {
    try {
      await shards.look();
    } catch (error) {
      log.debug(2, "Failed to read the Leases of shards", { error });
    }
    await clock.sleep(pauseMs, signal);
  }
}

/**
 * Services with load balancers that neither this process nor a shard with a leader serves, each with its reason: a shard
 * was removed, or the labels match none. They are neither changed nor deleted. Rejects if Leases cannot be read.
 */
export async function unservedServices(shards: Shards, services: readonly Service[]): Promise<readonly string[]> {
  const leading = (await shards.look()).filter(({ leader, relation }) => leader !== "" && relation !== "self");
  if (leading.some(({ relation }) => relation === "undecided")) return [];
  const selections = [shards.own, ...leading.flatMap(({ serves }) => serves ?? [])].map(selectionOf);
  return services
    .filter(({ spec }) => spec?.type === "LoadBalancer")
    .filter((service) => !selections.some((selects) => selects(service)))
    .map((service) => {
      const mark = annotationOf(service, annotations.servedBy);
      return `Service ${keyOf(service)}: no shard that leads selects it${mark === undefined ? "" : `; ${mark} served it`}`;
    });
}

function selectionOf({ services, loadBalancerClass, serviceSelector }: Served): (service: Service) => boolean {
  const matches = parseLabelSelector(serviceSelector);
  return ({ metadata, spec }) =>
    services && (spec?.loadBalancerClass ?? "") === loadBalancerClass && matches(metadata?.labels ?? {});
}

import { controllerNames } from "cloud-controller-host/sdk";

import type { Options } from "../flags/options.ts";

/** A name of the process, or the shard's own with `--shard`. */
export const shardName = ({ shard }: Pick<Options, "shard">, name: string): string =>
  shard === "" ? name : `${name}-${shard}`;

/** True where other deployments serve the other Services of the cluster. */
export const sharesServices = (options: Pick<Options, "shard" | "loadBalancerClass" | "serviceSelector">): boolean =>
  options.shard !== "" || options.loadBalancerClass !== "" || options.serviceSelector.trim() !== "";

/**
 * The options of a shard. Everything that `--shard=NAME` derives:
 *
 * | What                                      | Derived                                       | In                      |
 * | ----------------------------------------- | --------------------------------------------- | ----------------------- |
 * | Lease, and the role for it                | `<--leader-elect-resource-name>-NAME`         | here                    |
 * | controllers of `*`                        | the service controller alone                  | here                    |
 * | identity of a candidate                   | `<host name>-NAME_<UUID>`                     | `run/leadership.ts`     |
 * | source of events                          | `<source>-NAME`                               | `run/process-scope.ts`  |
 * | load balancers                            | `<their name>-NAME`, `<their name>-NAME-internal` | `CloudContext.shard` |
 * | `shard` in `/statusz`, `host_shard_info`  | `NAME`                                        | `run/shards.ts`         |
 *
 * Names of the cluster's own objects do not change: `--cluster-name`, backend pools, public IPs, the security group and its
 * rules, tags, the resource lock.
 */
export function optionsOfShard(options: Options): Options {
  if (options.shard === "") return options;
  const { serviceLB } = controllerNames;
  const isOff = options.controllers.includes(`-${serviceLB}`);
  return {
    ...options,
    leaderElectResourceName: shardName(options, options.leaderElectResourceName),
    controllers: options.controllers.flatMap((item) => (item !== "*" ? [item] : isOff ? [] : [serviceLB])),
  };
}

/** Controllers for the cluster as a whole, which the deployment without `--shard` runs. */
const clusterWide: readonly string[] = Object.values(controllerNames).filter(
  (name) => name !== controllerNames.serviceLB,
);

/** Why these options cannot be a shard's. Controllers have their canonical names. */
export function shardProblems(options: Options): readonly string[] {
  if (options.shard === "") return [];
  const rules: readonly (readonly [isBroken: boolean, problem: string])[] = [
    [
      options.loadBalancerClass === "" && options.serviceSelector.trim() === "",
      "--shard requires --service-selector or --load-balancer-class: the Services that this shard serves",
    ],
    [!options.leaderElect, "--shard requires --leader-elect: other shards read from its Lease what it serves"],
    [
      options.enableLeaderMigration,
      "--shard excludes --enable-leader-migration: controllers migrate to the deployment without --shard",
    ],
    ...options.controllers
      .filter((name) => clusterWide.includes(name))
      .map(
        (name) =>
          [true, `--controllers: a shard cannot run "${name}"; the deployment without --shard runs it`] as const,
      ),
  ];
  return rules.flatMap(([isBroken, problem]) => (isBroken ? [problem] : []));
}

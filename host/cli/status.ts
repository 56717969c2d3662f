import { parseArgs } from "node:util";

import { CodedError, messageOf, visible } from "cloud-controller-host/sdk";

import { systemClock } from "../async/clock.ts";
import { loadApiServer } from "../kube/connection/api-server.ts";
import { createClient } from "../kube/connection/client.ts";
import { createTransport } from "../kube/connection/transport.ts";
import { relationBetween, Shards, type ShardStatus } from "../process/leader-election/shards.ts";

const flags = {
  kubeconfig: { type: "string", default: "" },
  namespace: { type: "string", default: "kube-system" },
  "leader-elect-resource-name": { type: "string", default: "cloud-controller-manager" },
} as const;

export const statusUsage = `Usage: cloud-controller-host status [--kubeconfig=FILE] [--namespace=NAME] [--leader-elect-resource-name=NAME]

Prints who leads in the cluster: each shard with its Lease, leader, since when, and the Services that it serves. You need
list on Leases.

  --kubeconfig=FILE                    default: as kubectl
  --namespace=NAME                     of the Leases (default ${flags.namespace.default})
  --leader-elect-resource-name=NAME    the Lease of the deployment without --shard (default ${flags["leader-elect-resource-name"].default})
`;

const limitMs = 10_000;

/** `status`: a line for each shard. Throws a `CodedError`. */
export async function printStatus(argv: readonly string[]): Promise<string> {
  const { kubeconfig, namespace, "leader-elect-resource-name": mainLease } = read(argv);
  const api = loadApiServer({ kubeconfig });
  const permissionHint = `grant your user a role that may list Leases in the namespace ${namespace}`;
  const transport = createTransport(api, { userAgent: "cloud-controller-host/status", qps: -1, permissionHint });
  try {
    const shards = await new Shards({
      client: createClient(transport),
      clock: systemClock,
      log: silent,
      namespace,
      lease: "",
      mainLease,
      served: { shard: "", services: false, loadBalancerClass: "", serviceSelector: "" },
      limitMs,
    }).look();
    const lines = shards.map((shard) => lineOf(shard, shards));
    return lines.length === 0 ? `No host leads in namespace ${namespace}.\n` : `${lines.join("\n")}\n`;
  } finally {
    transport.close();
  }
}

function lineOf(shard: ShardStatus, all: readonly ShardStatus[]): string {
  const { lease, leader, since, serves } = shard;
  const leads = leader === "" ? "no leader" : `led by ${leader} since ${since}`;
  return visible([lease, leads, servesOf(serves), ...overlapsOf(shard, all)].join("; ")).replaceAll("\n", " ");
}

function servesOf(serves: ShardStatus["serves"]): string {
  if (serves === undefined) return "does not show what it serves";
  if (!serves.services) return "serves no Services";
  const ofClass = serves.loadBalancerClass === "" ? "without a class" : `of class ${serves.loadBalancerClass}`;
  return `serves Services ${ofClass}${serves.serviceSelector === "" ? "" : ` with ${serves.serviceSelector}`}`;
}

const overlapsOf = (shard: ShardStatus, all: readonly ShardStatus[]): readonly string[] =>
  all
    .filter((other) => other !== shard && other.leader !== "" && shard.leader !== "")
    .filter(({ serves }) => serves && shard.serves && relationBetween(shard.serves, serves) === "overlaps")
    .map(({ lease }) => `OVERLAPS with ${lease}`);

const none = (): void => undefined;
const silent = { info: none, warn: none, error: none, debug: none, with: () => silent };

function read(argv: readonly string[]) {
  try {
    return parseArgs({ args: [...argv], options: flags }).values;
  } catch (cause) {
    const [problem = ""] = messageOf(cause).split(". ");
    const options = Object.keys(flags).map((name) => `--${name}`);
    throw new CodedError("InvalidFlags", `status: ${problem}; its options are ${options.join(", ")}`);
  }
}

import { hour, second } from "../values/durations.ts";
import { atLeast, notNegative, oneOf, shardProblem } from "./checks.ts";
import { gateNotice, gates } from "./feature-gates.ts";
import { bool, duration, float32, int32, paths, string, strings } from "./flag-types.ts";
import { flag } from "./flag.ts";

export const debuggingFlags = {
  "contention-profiling": flag(bool, false, "Accepted without effect: the runtime has no lock contention profile.", {
    notice: (on) => (on ? "is accepted without effect: the runtime has no lock contention profile" : undefined),
  }),
  profiling: flag(bool, true, "Serves profiles under /debug/pprof and the log verbosity under /debug/flags."),
};

export const migrationFlags = {
  "enable-leader-migration": flag(
    bool,
    false,
    "Runs controllers that migrate between components, such as from kube-controller-manager, under a second lease. Requires --leader-elect.",
  ),
  "leader-migration-config": flag(
    paths,
    [],
    "Path to a LeaderMigrationConfiguration that assigns controllers to components. If empty, the route, service and node lifecycle controllers migrate between all components. May be repeated for several migrations, each with its own lease and controllers. Used only with --enable-leader-migration.",
  ),
};

export const contentTypes = { json: "application/json", protobuf: "application/vnd.kubernetes.protobuf" } as const;

export const clientFlags = {
  "min-resync-period": flag(
    duration,
    12 * hour,
    "Minimum resync period of informers; the actual period is random between this and twice this.",
    { check: notNegative },
  ),
  "kube-api-content-type": flag(
    string,
    contentTypes.protobuf,
    `Content type in which the API server is asked for lists and watches of Nodes; it answers in JSON if it cannot. Everything else is ${contentTypes.json}. Fields of a Node that this version does not know are read from JSON only.`,
    { check: oneOf(contentTypes.json, contentTypes.protobuf) },
  ),
  "kube-api-qps": flag(
    float32,
    150,
    "Average requests per second to the API server, per client. 0 means 5; a negative value disables the limit. Leader election is not limited. The Go binaries default to 20, with which 500 joining nodes wait for more than a minute; API Priority and Fairness protects the API server, so that the default here lets them join within 15 seconds.",
  ),
  "kube-api-burst": flag(
    int32,
    300,
    "Burst of requests to the API server, per client. 0 means 10. The Go binaries default to 30.",
    {
      check: atLeast(0),
    },
  ),
};

export const controllerFlags = {
  "controller-start-interval": flag(
    duration,
    0,
    "Interval between starting controllers, randomized up to twice this.",
    { check: notNegative },
  ),
  controllers: flag(
    strings,
    ["*"],
    "Controllers to enable: '*' enables all on-by-default controllers, 'foo' enables the controller foo, '-foo' disables it. The first item that names a controller decides. Aliases are accepted.",
  ),
};

const electing = "Applies only with --leader-elect.";

export const electionFlags = {
  "leader-elect": flag(
    bool,
    true,
    "Runs controllers only while this process holds the lease. Required if more than one replica can run.",
  ),
  "leader-elect-lease-duration": flag(
    duration,
    15 * second,
    `Time that non-leaders wait after the last observed renewal before they acquire the lease; truncated to whole seconds. Must exceed --leader-elect-renew-deadline. ${electing}`,
  ),
  "leader-elect-renew-deadline": flag(
    duration,
    10 * second,
    `Time that the leader retries to renew before it stops leading. Must exceed 1.2 times --leader-elect-retry-period. ${electing}`,
  ),
  "leader-elect-retry-period": flag(
    duration,
    2 * second,
    `Interval between attempts to acquire or renew the lease. ${electing}`,
  ),
  "leader-elect-resource-lock": flag(
    string,
    "leases",
    `Type of the lock object; only leases is supported. ${electing}`,
  ),
  "leader-elect-resource-name": flag(string, "cloud-controller-manager", `Name of the Lease object. ${electing}`),
  "leader-elect-resource-namespace": flag(
    string,
    "kube-system",
    `Namespace of the Lease object, and of further ones with --enable-leader-migration. ${electing}`,
  ),
  shard: flag(
    string,
    "",
    "Name of this shard: a deployment that serves some Services of the cluster beside others, under a Lease and with load balancers of its own, named like those without a shard with -NAME appended. Runs the service controller alone. Needs --service-selector or --load-balancer-class; it does not lead while these overlap with another shard's.",
    { from: "ours", check: shardProblem },
  ),
};

const notEmulated =
  "is not supported: this program works with each version of the API server as it is; remove the flag, and set feature gates by name";

export const featureFlags = {
  "feature-gates": flag(
    gates,
    {},
    "Comma-separated Name=true|false pairs of feature gates. Gates of the Go binaries that do not apply here are accepted without effect.",
    { notice: gateNotice },
  ),
  "emulated-version": flag(
    string,
    "",
    "Refused: it is a flag of the API server and of kube-controller-manager. No cloud controller manager has it.",
    { from: "ours", hidden: true, check: (version) => (version === "" ? undefined : notEmulated) },
  ),
};

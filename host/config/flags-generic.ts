import { atLeast, notNegative, oneOf } from "./checks.ts";
import { hour, second } from "./durations.ts";
import { gateNotice, gates } from "./feature-gates.ts";
import { bool, duration, float32, int32, paths, string, strings } from "./flag-types.ts";
import { flag } from "./flag.ts";

export const debuggingFlags = {
  "contention-profiling": flag(
    bool,
    false,
    "Profiles blocking of threads in the Go binaries. This runtime has no such profile: the flag is accepted and adds nothing.",
    { notice: (on) => (on ? "is accepted, but this runtime has no profile of lock contention" : undefined) },
  ),
  profiling: flag(bool, true, "Serves profiles under /debug/pprof and the log verbosity under /debug/flags."),
};

export const migrationFlags = {
  "enable-leader-migration": flag(
    bool,
    false,
    "Takes a second lease for controllers that move between components, such as from kube-controller-manager to here. Works only with --leader-elect.",
  ),
  "leader-migration-config": flag(
    paths,
    [],
    "File that says which component runs which controller during a migration. Empty: the route, service and node lifecycle controllers, run by either component. Repeat it for several migrations, each with a lease and controllers of its own. Read only with --enable-leader-migration.",
  ),
};

const contentTypes = { json: "application/json", protobuf: "application/vnd.kubernetes.protobuf" } as const;

export const clientFlags = {
  "min-resync-period": flag(
    duration,
    12 * hour,
    "How often informers repeat all objects to the controllers: a random time between this and twice this.",
    { check: notNegative },
  ),
  "kube-api-content-type": flag(
    string,
    contentTypes.json,
    `Content type of requests to the API server. The Go binaries default to ${contentTypes.protobuf}; this program speaks JSON, so that name is accepted and JSON is sent.`,
    {
      check: oneOf(contentTypes.json, contentTypes.protobuf),
      notice: (type) =>
        type === contentTypes.json ? undefined : `is ${type}, but this program sends ${contentTypes.json}`,
    },
  ),
  "kube-api-qps": flag(
    float32,
    20,
    "Requests a second to the API server, on average. 0 means 5; a negative number means no limit.",
  ),
  "kube-api-burst": flag(int32, 30, "Requests to the API server that may go out at once. 0 means 10.", {
    check: atLeast(0),
  }),
};

export const controllerFlags = {
  "controller-start-interval": flag(
    duration,
    0,
    "Pause after each controller has started, up to twice this, so that they do not all start at once.",
    { check: notNegative },
  ),
  controllers: flag(
    strings,
    ["*"],
    "Controllers to run, first match first: a name enables it, a name with '-' before it disables it, '*' enables all that are on by default. Short names are accepted.",
  ),
};

const electing = "Applies only with --leader-elect.";

export const electionFlags = {
  "leader-elect": flag(
    bool,
    true,
    "Runs the controllers only while this process holds the lease. Needed whenever more than one replica may run.",
  ),
  "leader-elect-lease-duration": flag(
    duration,
    15 * second,
    `How long others wait after the last renewal they saw before they take the lease. Must exceed --leader-elect-renew-deadline. ${electing}`,
  ),
  "leader-elect-renew-deadline": flag(
    duration,
    10 * second,
    `How long the leader tries to renew before it gives up leading. Must exceed 1.2 times --leader-elect-retry-period. ${electing}`,
  ),
  "leader-elect-retry-period": flag(
    duration,
    2 * second,
    `Pause between tries to take or renew the lease. ${electing}`,
  ),
  "leader-elect-resource-lock": flag(
    string,
    "leases",
    `Kind of object that is the lock; only leases are offered. ${electing}`,
  ),
  "leader-elect-resource-name": flag(string, "cloud-controller-manager", `Name of the Lease object. ${electing}`),
  "leader-elect-resource-namespace": flag(
    string,
    "kube-system",
    `Namespace of the Lease object, also of the second one with --enable-leader-migration. ${electing}`,
  ),
};

export const featureFlags = {
  "feature-gates": flag(
    gates,
    {},
    "Features to turn on or off, as Name=true or Name=false, separated by commas. Gates of the Go binaries that mean nothing here are accepted.",
    { notice: gateNotice },
  ),
};

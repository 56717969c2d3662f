import { second } from "../values/durations.ts";
import { atLeast, labelSelectorProblem, loadBalancerClassProblem, positive } from "./checks.ts";
import { bool, duration, int32, string } from "./flag-types.ts";
import { flag } from "./flag.ts";

export const cloudFlags = {
  "cloud-provider": flag(
    string,
    "azure",
    "Name of the cloud plugin to run. The generic Go binary has no default; the Azure Go binary ignores the value, this program requires the name of an available plugin.",
    { check: (name) => (name === "" ? "cannot be empty; set it to the name of a cloud plugin" : undefined) },
  ),
  "cloud-config": flag(
    string,
    "",
    "File with the cloud configuration. Required unless --enable-dynamic-reloading is set, which can read it from a Secret.",
  ),
  "external-cloud-volume-plugin": flag(
    string,
    "",
    "Accepted without effect, for old manifests: no cloud controller manager handles volumes.",
    { notice: (name) => (name === "" ? undefined : "is accepted without effect") },
  ),
  "use-service-account-credentials": flag(
    bool,
    false,
    "Runs each controller with the token of its own service account in kube-system instead of this process's credentials.",
  ),
  "allow-untagged-cloud": flag(bool, false, "Warns instead of exiting if the cloud has no cluster ID.", {
    deprecated: "a cloud must have a cluster ID; remove the flag",
  }),
  "route-reconciliation-period": flag(
    duration,
    10 * second,
    "Period between reconciliations of cloud routes with nodes.",
    {
      check: positive,
    },
  ),
  "node-monitor-period": flag(
    duration,
    5 * second,
    "Period between checks of not-ready nodes in the cloud; nodes whose instance no longer exists are deleted.",
    { check: positive },
  ),
  "cluster-name": flag(
    string,
    "kubernetes",
    "Name of the cluster, used in the names and tags of cloud load balancers and routes.",
  ),
  "cluster-cidr": flag(
    string,
    "",
    "CIDR of the cluster's Pods; for dual-stack one IPv4 and one IPv6 CIDR, comma-separated. Required for routes and for the allocation of node CIDRs.",
  ),
  "allocate-node-cidrs": flag(bool, false, "Allocates a Pod CIDR from --cluster-cidr to each node."),
  "cidr-allocator-type": flag(
    string,
    "RangeAllocator",
    "Allocator for Pod CIDRs: RangeAllocator (one mask size for all nodes) or CloudAllocator (mask sizes from the tags of the node's scale set or VM).",
  ),
  "configure-cloud-routes": flag(
    bool,
    true,
    "Creates a cloud route for each node's Pod CIDR. Requires --cluster-cidr if the route controller is enabled.",
  ),
  "node-sync-period": flag(duration, 0, "Formerly the period of node synchronization.", {
    deprecated: "it has no effect; remove the flag",
  }),
};

export const nodeControllerFlags = {
  "concurrent-node-syncs": flag(
    int32,
    1,
    "Number of nodes to initialize concurrently. 1 is the generic Go binary's default; the Azure Go binary lacks the flag and starts no worker at all. Raise it if nodes join by the hundred.",
    { from: "upstream", check: (count) => (count > 0 ? undefined : `must be a positive number, got ${count}`) },
  ),
  "concurrent-node-status-updates": flag(
    int32,
    0,
    "Number of nodes whose addresses are updated concurrently. 0 means the value of --concurrent-node-syncs.",
    { from: "upstream", check: (count) => (count >= 0 ? undefined : `cannot be a negative number, got ${count}`) },
  ),
};

export const serviceControllerFlags = {
  "concurrent-service-syncs": flag(
    int32,
    64,
    "Services whose load balancers are synced at once. The Go binaries default to 1, and Azure's allows nothing else, because each sync writes the load balancer separately; here the changes of all Services in flight are merged into one write per resource, which needs several in flight. 1 still works.",
    { check: atLeast(1) },
  ),
  "load-balancer-class": flag(
    string,
    "",
    "Serves the Services with this spec.loadBalancerClass, and no others; without it, those without a class.",
    { from: "ours", check: loadBalancerClassProblem },
  ),
  "service-selector": flag(
    string,
    "",
    "Label selector for the Services to serve. All others are left alone, also when they are deleted: another process serves them. A Service that stops matching keeps its load balancer.",
    { from: "ours", check: labelSelectorProblem },
  ),
};

export const ipamControllerFlags = {
  "service-cluster-ip-range": flag(
    string,
    "",
    "CIDR of the cluster's Services, excluded from Pod CIDRs; for dual-stack one IPv4 and one IPv6 CIDR, comma-separated.",
    { from: "azure" },
  ),
  "node-cidr-mask-size": flag(
    int32,
    24,
    "Ignored, as in the Go binary; use --node-cidr-mask-size-ipv4 and --node-cidr-mask-size-ipv6.",
    { from: "azure", notice: () => "is ignored; use --node-cidr-mask-size-ipv4 and --node-cidr-mask-size-ipv6" },
  ),
  "node-cidr-mask-size-ipv4": flag(int32, 0, "Mask size of a node's IPv4 Pod CIDR. 0 means 24.", {
    from: "azure",
    check: maskOf(32),
  }),
  "node-cidr-mask-size-ipv6": flag(int32, 0, "Mask size of a node's IPv6 Pod CIDR. 0 means 64.", {
    from: "azure",
    check: maskOf(128),
  }),
};

function maskOf(bits: number) {
  return (length: number): string | undefined =>
    length >= 0 && length <= bits ? undefined : `must be between 1 and ${bits}, or 0 for the default; got ${length}`;
}

export const nodeStatusFlags = {
  "node-status-update-frequency": flag(
    duration,
    300 * second,
    "Period between updates of all node addresses from the cloud.",
    { check: positive },
  ),
};

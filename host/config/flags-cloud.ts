import { atLeast, positive } from "./checks.ts";
import { second } from "./durations.ts";
import { bool, duration, int32, string } from "./flag-types.ts";
import { flag } from "./flag.ts";

export const cloudFlags = {
  "cloud-provider": flag(
    string,
    "azure",
    "Name of the cloud plugin to run. The generic Go binary has no default; the Azure one takes any word for azure, this program only the name of a plugin it has.",
    { check: (name) => (name === "" ? "cannot be empty; give the name of a cloud plugin" : undefined) },
  ),
  "cloud-config": flag(
    string,
    "",
    "File with the cloud's configuration. Needed unless --enable-dynamic-reloading, where it may come from a Secret.",
  ),
  "external-cloud-volume-plugin": flag(
    string,
    "",
    "Cloud whose volumes in-tree controllers handle. No cloud controller manager reads it; it is accepted for old manifests.",
    { notice: (name) => (name === "" ? undefined : "is accepted, but nothing reads it") },
  ),
  "use-service-account-credentials": flag(
    bool,
    false,
    "Gives each controller the token of a service account of its own in kube-system, in place of this process's credentials.",
  ),
  "allow-untagged-cloud": flag(bool, false, "Warns, in place of exiting, when the cloud has no cluster id.", {
    deprecated: "every cloud has to have a cluster id; remove the flag",
  }),
  "route-reconciliation-period": flag(duration, 10 * second, "How often routes are compared with the nodes.", {
    check: positive,
  }),
  "node-monitor-period": flag(
    duration,
    5 * second,
    "How often nodes that are not ready are looked up in the cloud, to remove those whose machine is gone.",
    { check: positive },
  ),
  "cluster-name": flag(
    string,
    "kubernetes",
    "Name of the cluster, as load balancers and routes in the cloud carry it.",
  ),
  "cluster-cidr": flag(
    string,
    "",
    "CIDR of the cluster's pods; for a dual-stack cluster one of IPv4 and one of IPv6, separated by a comma. Needed for routes and for the allocation of node CIDRs.",
  ),
  "allocate-node-cidrs": flag(bool, false, "Gives each node a pod CIDR out of --cluster-cidr."),
  "cidr-allocator-type": flag(
    string,
    "RangeAllocator",
    "How pod CIDRs are chosen: RangeAllocator (one size for all nodes) or CloudAllocator (sizes from the machine group's tags).",
  ),
  "configure-cloud-routes": flag(
    bool,
    true,
    "Makes a route in the cloud for each node's pod CIDR. Needs --cluster-cidr while the route controller is enabled.",
  ),
  "node-sync-period": flag(duration, 0, "Does nothing.", { deprecated: "it does nothing; remove the flag" }),
};

export const nodeControllerFlags = {
  "concurrent-node-syncs": flag(
    int32,
    1,
    "Nodes that are initialised at once. 1 is the generic Go binary's default; the Azure one has no such flag and starts no worker at all. Raise it where nodes join by the hundred.",
    { from: "upstream", check: (count) => (count > 0 ? undefined : `must be a positive number, got ${count}`) },
  ),
  "concurrent-node-status-updates": flag(
    int32,
    0,
    "Nodes whose addresses are refreshed at once. 0 means as many as --concurrent-node-syncs.",
    { from: "upstream", check: (count) => (count >= 0 ? undefined : `cannot be a negative number, got ${count}`) },
  ),
};

export const serviceControllerFlags = {
  "concurrent-service-syncs": flag(
    int32,
    1,
    "Services whose load balancers are worked on at once. The Azure Go binary allows only 1; here any positive number works, since changes of one load balancer are merged into one write.",
    { check: atLeast(1) },
  ),
};

export const ipamControllerFlags = {
  "service-cluster-ip-range": flag(
    string,
    "",
    "CIDR of the cluster's Services, kept out of the pod CIDRs; for dual-stack one of IPv4 and one of IPv6, separated by a comma.",
    { from: "azure" },
  ),
  "node-cidr-mask-size": flag(
    int32,
    24,
    "Is ignored, as in the Go binary; use --node-cidr-mask-size-ipv4 and --node-cidr-mask-size-ipv6.",
    { from: "azure", notice: () => "is ignored; use --node-cidr-mask-size-ipv4 and --node-cidr-mask-size-ipv6" },
  ),
  "node-cidr-mask-size-ipv4": flag(int32, 0, "Prefix length of a node's IPv4 pod CIDR. 0 means 24.", {
    from: "azure",
    check: maskOf(32),
  }),
  "node-cidr-mask-size-ipv6": flag(int32, 0, "Prefix length of a node's IPv6 pod CIDR. 0 means 64.", {
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
    "How often the addresses of all nodes are compared with the cloud.",
    { check: positive },
  ),
};

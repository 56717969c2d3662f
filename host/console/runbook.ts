/** Remedy for each problem, in Markdown; the source of deploy/ALERTS.md. */
export const runbook = {
  CloudNodeTaintRemovalSlow:
    "Many nodes at once? Raise `--concurrent-node-syncs` and `--kube-api-qps`. Otherwise see `CloudControllerHostThrottled` and `arm_request_duration_seconds`: the cloud is slow",
  CloudNodeInitialSyncSlow:
    "As for `CloudNodeTaintRemovalSlow`; a node that is never initialized: see `NodeNotInitialized`",
  CloudLoadBalancerHostUpdateSlow:
    "See `arm_request_duration_seconds` for load balancers, and `CloudControllerHostThrottled`",
  CloudNodeSyncSlow: "Raise `--concurrent-service-syncs`: changes of one load balancer are merged into one write",
  CloudNodeSyncFailing: "Events of the Services (`UpdateLoadBalancerFailed`) show what the cloud rejects",
  CloudLoadBalancerSyncFailing:
    "`kubectl get events -A --field-selector reason=SyncLoadBalancerFailed` has the cloud's code and message; the condition `LoadBalancerReady` of the Service has the time of the next retry",
  CloudLoadBalancerSyncSlow:
    "See `arm_request_duration_seconds` for load balancers, and `CloudControllerHostThrottled`. Raise `--concurrent-service-syncs`: changes of one load balancer are merged into one write",
  CloudLimitNearlyReached:
    "`kubectl get events -A --field-selector reason=LimitNearlyReached` names Services and the way out. Several load balancers (`multipleStandardLoadBalancerConfigurations`) take further rules and frontends; the same ports, ranges and service tags let Services share security rules; [shards](SHARDS.md) with nodes of their own divide the rest",
  CloudNodeDeletionsHeld:
    "Were the instances really deleted? If not, check subscription, resource group and identity in the cloud config. If so, delete the nodes by hand or raise the limits that the event names",
  CloudNodeInitializationFailing:
    "`kubectl get events -A --field-selector reason=FailedToInitializeNode` has the error of each node, and `explain node NAME` what its instance is in the cloud; see `NodeNotInitialized`",
  CloudRemovalsHeld:
    "Were the Services, nodes or settings really removed? `warnings` in `/statusz` and the event `RemovalHeld` say what would go. If not, look for an API server or Resource Manager that answers with shortened lists, and for a changed `clusterName` or `loadBalancerName`. If so, run the command in the event: it confirms exactly this plan",
  CloudPodCIDRAllocationSuspended:
    "`warnings` in `/statusz` names the other allocator, or why the nodes cannot be listed. Run only one allocator: `kube-controller-manager --allocate-node-cidrs=false`",
  CloudControllerHostWithoutLeader:
    "Are the Pods running? Who holds the Lease? See [no leader](OPERATE.md#troubleshoot)",
  CloudControllerHostDown: "`kubectl -n kube-system describe pod`; the end of `kubectl logs --previous`",
  CloudControllerHostUnhealthy:
    "The lease's watchdog: the process hangs, and kubelet restarts it. If it recurs, memory or CPU is short",
  CloudControllerHostReloadRefused:
    "`lastRefusal` in `/statusz` names the key or the file. Correct it; the next change is loaded automatically. Where it ends with `the reload is tried again`, the cause may pass, such as a timeout of the cloud: it is tried again within ten minutes",
  CloudControllerHostControllerFailed:
    "The log line `Controller failed` of that controller, and the event; after a reload the previous generation runs again",
  CloudControllerHostForbidden:
    "`rbac.create: false`? Plugins without `plugins.rules`? `cloud-controller-host rbac` prints the required roles",
  CloudControllerHostStuck:
    "Which queue? Often a long-running operation of the cloud, visible on its resource in the portal. [Traces](README.md#optional-features) show the request",
  CloudControllerHostAuditLogFailing:
    "The log line `Failed to write to the audit log` has the error, such as ENOSPC or EACCES. Is the volume full or read-only? Records in memory are written once the file can be, and a line of the file says how many are lost",
  CloudControllerHostThrottled:
    "Which other clients use the subscription? Raise the cache times in the cloud config (`…CacheTTLInSeconds`)",
  FailedWrites:
    "401 and 403: the identity lacks a role; `check-credentials` lists what to grant. 409 and 412: another write came in between, and it is tried again. 429: see `CloudControllerHostThrottled`. Others: the message names what the cloud refuses",
  FailedRequests:
    "Does the network of the Pod reach the address: DNS, proxy, firewall, private endpoint? 5xx: see the cloud's status page. The requests are sent again without a restart",
  PluginRefused:
    "`refusedPlugins` in `/statusz`, the event `PluginRefused` and the log line `Plugin refused` have its error. Correct the plugin and reload: the others run without it meanwhile",
  ControllerSkipped:
    "The reason names the missing flag, or what the cloud provider does not support. To leave the controller out on purpose, use `--controllers=*,-NAME`",
  NodeNotInitialized:
    "Is there a leader? Is `cloud-node` enabled, or does a `cloud-node-manager` initialize nodes? `AADSTS…` in the log: check the identity. `instance not found`: does an instance with the node's name exist in this subscription and resource group?",
  NodeFails:
    "The cause names the controller and its error: `cloud-node-controller` does not update labels and addresses, `cloud-node-lifecycle-controller` neither deletes nor taints the node, `node-ipam` gives it no Pod CIDR. 401 and 403 of the cloud: `check-credentials` lists what to grant; of the API server: `rbac` prints the roles. Throttled: see `CloudControllerHostThrottled`",
  ServiceSettings:
    "It is served without the setting that the condition names, or closed to all sources. `help ANNOTATION` explains an annotation with its valid values",
  Warnings:
    "The controller works and cannot fix this itself: each line names what is wrong and, where a person decides, the command that confirms it",
  CloudProviderDisabled:
    "`disableCloudProvider` is true in the cloud config: a config without it starts the controllers, without a restart",
  ShardsOverlap:
    "`shards` in `/statusz` shows the selector and the class of each. A deployment does not lead while another one that leads serves some of the same Services; one that shows nothing, such as the Go provider, cannot be compared. See [shards](SHARDS.md)",
  Shadow:
    "Each difference is what a host with these flags would write and the other manager has not; `shadow` in `/statusz` has its fields. Are the flags and the cloud config those of the other manager? See [migration](migration/README.md). What could not be compared is read or planned again with the next plan",
} as const satisfies Readonly<Record<string, string>>;

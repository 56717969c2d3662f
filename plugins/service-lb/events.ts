import {
  type EventRecorder,
  type Node,
  recurringMessageOf,
  type Service,
  type ServiceWarning,
} from "cloud-controller-host/sdk";

/** Normal events. Reasons, types and messages of all events here begin as upstream's, because alerts match them. */
const normal = {
  EnsuringLoadBalancer: "Ensuring load balancer",
  EnsuredLoadBalancer: "Ensured load balancer",
  DeletingLoadBalancer: "Deleting load balancer",
  DeletedLoadBalancer: "Deleted load balancer",
  UpdatedLoadBalancer: "Updated load balancer with new hosts",
} as const;

export interface ServiceEvents {
  normal(service: Service, reason: keyof typeof normal): void;
  noNodes(service: Service): void;
  leftAlone(service: Service): void;
  /** Another deployment has the Service, which is selected here now. */
  waiting(service: Service, lease: string): void;
  /** Without the time of the next retry and the ID of a request, so that the events of a failure are aggregated. */
  syncFailed(service: Service, error: unknown): void;
  warning(service: Service, warning: ServiceWarning): void;
  deleteFailed(service: Service, error: unknown): void;
  updateFailed(service: Service, nodes: readonly Node[], error: unknown): void;
}

export function serviceEvents({ events }: { readonly events: EventRecorder }): ServiceEvents {
  const warn = (service: Service, reason: string, message: string): void =>
    events.event(service, "Warning", reason, message);
  /** The error is logged with the key and the retry. */
  const failed = (service: Service, reason: string, message: string): void =>
    events.event(service, "Warning", reason, message, { logged: "by caller" });
  return {
    normal: (service, reason) => events.event(service, "Normal", reason, normal[reason]),
    noNodes: (service) => warn(service, "UnAvailableLoadBalancer", "There are no available nodes for LoadBalancer"),
    leftAlone: (service) =>
      warn(
        service,
        "LoadBalancerLeftAlone",
        "--load-balancer-class or --service-selector does not select the Service any more; its load balancer stays for the process that does, or until it is selected again",
      ),
    waiting: (service, lease) =>
      events.event(
        service,
        "Normal",
        "WaitingForLoadBalancer",
        `Waiting until ${lease}, which has served the Service so far, leaves it or no longer leads`,
      ),
    syncFailed: (service, error) =>
      failed(service, "SyncLoadBalancerFailed", `Error syncing load balancer: ${recurringMessageOf(error)}`),
    warning: (service, { reason, message }) => warn(service, reason, message),
    deleteFailed: (service, error) =>
      failed(service, "DeleteLoadBalancerFailed", `Error deleting load balancer: ${recurringMessageOf(error)}`),
    updateFailed: (service, nodes, error) =>
      failed(
        service,
        "UpdateLoadBalancerFailed",
        `Error updating load balancer with new hosts [${namesOf(nodes)}] ` +
          `[node names limited, total number of nodes: ${nodes.length}], error: ${recurringMessageOf(error)}`,
      ),
  };
}

/** Node names in an event, which must stay readable in a cluster of thousands of nodes. */
const maxNames = 20;

function namesOf(nodes: readonly Node[]): string {
  const names = nodes.slice(0, maxNames).map((node) => node.metadata?.name ?? "");
  const more = nodes.length > maxNames ? [`<${nodes.length - maxNames} more>`] : [];
  return [...names.toSorted(), ...more].join(" ");
}

import { type EventRecorder, messageOf, type Node, type Service } from "cloud-controller-host/sdk";

/** Every event of this controller. Reasons, types and messages are upstream's: people and alerts look for them. */
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
  syncFailed(service: Service, error: unknown): void;
  deleteFailed(service: Service, error: unknown): void;
  updateFailed(service: Service, nodes: readonly Node[], error: unknown): void;
}

export function serviceEvents({ events }: { readonly events: EventRecorder }): ServiceEvents {
  const warn = (service: Service, reason: string, message: string): void =>
    events.event(service, "Warning", reason, message);
  return {
    normal: (service, reason) => events.event(service, "Normal", reason, normal[reason]),
    noNodes: (service) => warn(service, "UnAvailableLoadBalancer", "There are no available nodes for LoadBalancer"),
    syncFailed: (service, error) =>
      warn(service, "SyncLoadBalancerFailed", `Error syncing load balancer: ${messageOf(error)}`),
    deleteFailed: (service, error) =>
      warn(service, "DeleteLoadBalancerFailed", `Error deleting load balancer: ${messageOf(error)}`),
    updateFailed: (service, nodes, error) =>
      warn(
        service,
        "UpdateLoadBalancerFailed",
        `Error updating load balancer with new hosts [${namesOf(nodes)}] ` +
          `[node names limited, total number of nodes: ${nodes.length}], error: ${messageOf(error)}`,
      ),
  };
}

/** An event must stay readable in a cluster of thousands of nodes. */
const mostNames = 20;

function namesOf(nodes: readonly Node[]): string {
  const names = nodes.slice(0, mostNames).map((node) => node.metadata?.name ?? "");
  const more = nodes.length > mostNames ? [`<${nodes.length - mostNames} more>`] : [];
  return [...names.toSorted(), ...more].join(" ");
}

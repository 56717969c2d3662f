import { type EventRecorder, type Node, recurringMessageOf } from "cloud-controller-host/sdk";

export interface RouteEvents {
  /** The controller's only event, with upstream's reason, type and message. `afterMs`: duration of the attempt. */
  creationFailed(node: Node, cidr: string, afterMs: number, error: unknown): void;
}

export const routeEvents = ({ events }: { readonly events: EventRecorder }): RouteEvents => ({
  creationFailed(node, cidr, afterMs, error) {
    const { name = "", uid = "" } = node.metadata ?? {};
    events.event(
      { apiVersion: "v1", kind: "Node", metadata: { name, uid } },
      "Warning",
      "FailedToCreateRoute",
      `Could not create route ${uid} ${cidr} for node ${name} after ${durationText(afterMs)}: ${recurringMessageOf(error)}`,
    );
  },
});

/** Formats a duration as Go does, to the microsecond: `0s`, `1.5ms`, `2.25s`, `1m0.5s`. */
export function durationText(ms: number): string {
  const rounded = Math.round(ms * 1000) / 1000;
  if (rounded === 0) return "0s";
  if (rounded < 1000) return `${rounded}ms`;
  const minutes = Math.floor(rounded / 60_000);
  const seconds = Math.round((rounded - minutes * 60_000) * 1000) / 1_000_000;
  return minutes === 0 ? `${seconds}s` : `${minutes}m${seconds}s`;
}

import {
  type ControllerContext,
  type EventRecorder,
  FailingObjects,
  forEachConcurrently,
  type Gauge,
  isUninitialized,
  type Node,
  recurringMessageOf,
} from "cloud-controller-host/sdk";

/** The instance of a new node may be listed later than the node registers. */
export const graceMs = 60_000;

/** Events that are recorded at once: 2,000 take 25 MiB for a moment. */
const maxPendingEvents = 1000;

/** An event of a node, waiting to be recorded. */
interface NodeEvent {
  readonly node: Node;
  readonly type: "Normal" | "Warning";
  readonly reason: string;
  readonly message: string;
}

/**
 * The outcomes of syncs: events of nodes, and the nodes that fail. They are reported when the work queue is empty: an
 * event is a write to the API server, which must not delay the nodes that still wait.
 */
export class SyncOutcomes {
  readonly failing: FailingObjects;
  readonly #events: EventRecorder;
  readonly #failingNodes: Gauge;
  #pending: NodeEvent[] = [];

  constructor({ clock, events, metrics }: Pick<ControllerContext, "clock" | "events" | "metrics">) {
    this.failing = new FailingObjects("NodesFail", clock, graceMs);
    this.#events = events;
    this.#failingNodes = metrics.gauge({
      name: "cloud_node_controller_failing_nodes",
      help: "Number of nodes that have failed to be initialized or updated for at least a minute.",
    });
    this.#failingNodes.set(0);
  }

  synced(node: Node): void {
    this.#pending.push({ node, type: "Normal", reason: "Synced", message: "Node synced successfully" });
  }

  /** `node`: undefined once it is deleted. */
  failed(name: string, node: Node | undefined, error: unknown): void {
    this.failing.failed(name, error);
    if (node === undefined || !isUninitialized(node) || !this.failing.isLasting(name)) return;
    const message = `Error initializing node: ${recurringMessageOf(error)}`;
    this.#pending.push({ node, type: "Warning", reason: "FailedToInitializeNode", message });
  }

  get full(): boolean {
    return this.#pending.length >= maxPendingEvents;
  }

  /** Leaves turns of the event loop to others: a thousand events take 100 ms. */
  async report(): Promise<void> {
    this.#failingNodes.set(this.failing.lasting);
    const pending = this.#pending;
    this.#pending = [];
    await forEachConcurrently({ workers: 1 }, pending, async ({ node, type, reason, message }) => {
      this.#events.event(node, type, reason, message);
    });
  }
}

import type { Clock, Gauge, Logger, Metrics, OperatorWarning } from "cloud-controller-host/sdk";

/** One write is a repair by hand; that many nodes within the window are another allocator at work. */
const maxForeignNodes = 3;
const windowMs = 10 * 60_000;
const maxNamed = 3;

interface ForeignWrite {
  readonly writer: string;
  readonly atMs: number;
}

interface SuspensionOptions {
  readonly clock: Clock;
  readonly log: Logger;
  readonly metrics: Metrics;
  /** Called when allocation resumes after another writer had stopped it. */
  readonly resumed: () => void;
}

/**
 * Decides whether nodes get CIDRs. A node whose CIDRs another writer has set while it waited for ours is quarantined:
 * it keeps them, and all others are served. Only when one writer does so repeatedly is allocation suspended, until its
 * nodes are gone or it has set none for the length of the window.
 */
export class Suspension {
  readonly #options: SuspensionOptions;
  readonly #gauge: Gauge;
  readonly #foreign = new Map<string, ForeignWrite>();
  /** The reason why the start of the controller waits. */
  #blocked: string | undefined;
  #writer: string | undefined;

  constructor(options: SuspensionOptions) {
    this.#options = options;
    this.#gauge = options.metrics.gauge({
      name: "node_ipam_controller_allocation_suspended",
      help: "1 while no node is given pod CIDRs because another allocator is active or the nodes cannot be listed.",
    });
    this.#gauge.set(0);
  }

  get suspended(): boolean {
    return this.#reason !== undefined;
  }

  /** For `/statusz`. */
  get warnings(): readonly OperatorWarning[] {
    const reason = this.#reason;
    if (reason !== undefined)
      return [{ kind: "AllocationSuspended", text: `Pod CIDR allocation is suspended: ${reason}` }];
    const names = [...this.#foreign.keys()];
    if (names.length === 0) return [];
    return [`Pod CIDRs set by another writer while the node waited for ours: ${listed(names)}`];
  }

  suspend(reason: string): void {
    if (this.#blocked !== reason) this.#options.log.error("Pod CIDR allocation is suspended", { reason });
    this.#blocked = reason;
    this.#gauge.set(1);
  }

  resume(): void {
    this.#blocked = undefined;
    this.#gauge.set(this.suspended ? 1 : 0);
  }

  /** `writer` has set the CIDRs of a node that waited for ours. */
  quarantine(node: string, writer: string): void {
    this.#foreign.set(node, { writer, atMs: this.#options.clock.monotonic() });
    this.review();
  }

  /** The node was deleted. */
  forget(node: string): void {
    if (this.#foreign.delete(node)) this.review();
  }

  /** Compares the signs with the limit. To be called about once a minute: signs age. */
  review(): void {
    const { clock, log, resumed } = this.#options;
    const oldest = clock.monotonic() - windowMs;
    for (const [node, { atMs }] of this.#foreign) if (atMs < oldest) this.#foreign.delete(node);
    const byWriter = Map.groupBy(this.#foreign.values(), ({ writer }) => writer);
    const before = this.#writer;
    this.#writer = [...byWriter].find(([, writes]) => writes.length >= maxForeignNodes)?.[0];
    this.#gauge.set(this.suspended ? 1 : 0);
    if (before === undefined && this.#writer !== undefined)
      log.error("Pod CIDR allocation is suspended", { reason: this.#reason });
    if (before === undefined || this.#writer !== undefined) return;
    log.info("Pod CIDR allocation resumed", { writer: before });
    resumed();
  }

  get #reason(): string | undefined {
    if (this.#blocked !== undefined || this.#writer === undefined) return this.#blocked;
    const names = [...this.#foreign].filter(([, { writer }]) => writer === this.#writer).map(([name]) => name);
    return `${this.#writer} allocates pod CIDRs too (${listed(names)}); stop one of the two allocators`;
  }
}

function listed(names: readonly string[]): string {
  const more = names.length > maxNamed ? ` and ${names.length - maxNamed} more` : "";
  return `${names.length === 1 ? "node" : "nodes"} ${names.slice(0, maxNamed).join(", ")}${more}`;
}

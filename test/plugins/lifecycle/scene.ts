import { type ControllerPlugin, kinds, type Node, type Taint } from "cloud-controller-host/sdk";
import {
  eventually,
  type ManualClock,
  manualClock,
  type MemoryCloud,
  memoryCloud,
} from "cloud-controller-host/sdk/testing";

import { systemClock } from "../../../host/async/clock.ts";
import type { RunningController } from "../../../host/sandbox/testing/generation.ts";
import lifecycle from "../../../plugins/lifecycle/plugin.ts";
import { TestCluster } from "../../kit/harness.ts";

export const periodMs = 5000;

export interface NodeFacts {
  /** Status of the Ready condition; undefined: there is none. */
  readonly ready?: "True" | "False" | "Unknown" | undefined;
  readonly taints?: readonly Taint[];
  readonly providerID?: string;
}

export function aNode(name: string, { ready, taints = [], providerID }: NodeFacts): Node {
  const at = "2015-01-01T12:00:00Z";
  const condition = { type: "Ready", status: ready ?? "", lastHeartbeatTime: at, lastTransitionTime: at };
  return {
    metadata: { name },
    spec: { taints, ...(providerID !== undefined && { providerID }) },
    status: { conditions: ready === undefined ? [] : [condition] },
  };
}

/** A cluster with the lifecycle controller in it, on a clock that is far ahead of the nodes' creation. */
export class Scene implements AsyncDisposable {
  readonly cluster: TestCluster;
  readonly memory: MemoryCloud;
  readonly clock: ManualClock;

  private constructor(cluster: TestCluster, memory: MemoryCloud, clock: ManualClock) {
    this.cluster = cluster;
    this.memory = memory;
    this.clock = clock;
  }

  /** `ageSeconds`: the age of nodes that the test creates now. */
  static async open({ ageSeconds = 3600 }: { readonly ageSeconds?: number } = {}): Promise<Scene> {
    return new Scene(await TestCluster.start(), memoryCloud(), manualClock(Date.now() + ageSeconds * 1000));
  }

  /** Creates a node; its instance exists unless `machine` is "missing". */
  node(name: string, facts: NodeFacts, machine: "running" | "shut down" | "missing" = "running"): Node {
    if (machine !== "missing") this.memory.machines.set(name, { shutdown: machine === "shut down" });
    return this.cluster.api.create(kinds.Node, aNode(name, facts));
  }

  becomesReady(name: string): void {
    this.becomes(name, "True");
  }

  /** Sets the Ready condition, as kubelet or the node controller would. */
  becomes(name: string, ready: "True" | "Unknown"): void {
    const conditions = [{ type: "Ready", status: ready }];
    const change = (node: Node): Node => ({ ...node, status: { ...node.status, conditions } });
    this.cluster.api.update(kinds.Node, { name }, change, "status");
  }

  run(own: Readonly<Record<string, unknown>> = {}, plugin: ControllerPlugin = lifecycle): Promise<RunningController> {
    const { memory, clock } = this;
    return this.cluster.run(plugin, { cloud: memory.cloud, clock, queueClock: systemClock, own });
  }

  /** Resolves when the current pass is over: no cloud call and no request is in flight, and nothing follows. */
  rest(): Promise<true> {
    let last = "";
    let same = 0;
    return eventually("the controller rests", () => {
      const { calls } = this.memory;
      const sent = this.cluster.sent();
      const busy = calls.some(({ ended }) => !ended) || sent.some(({ status }) => status === undefined);
      const now = `${calls.length} ${sent.length} ${this.clock.sleepers}`;
      same = !busy && now === last && this.clock.sleepers === 1 ? same + 1 : 0;
      last = now;
      return same >= 3;
    });
  }

  /** Runs the next pass, and resolves when it is over. */
  async pass(): Promise<void> {
    await this.rest();
    await this.clock.advance(periodMs);
    await this.rest();
  }

  /** Names of the remaining nodes. */
  names(): readonly string[] {
    return this.cluster.api.list(kinds.Node).map(({ metadata }) => metadata?.name ?? "");
  }

  get(name: string): Node | undefined {
    return this.cluster.api.get(kinds.Node, { name });
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.cluster[Symbol.asyncDispose]();
  }
}

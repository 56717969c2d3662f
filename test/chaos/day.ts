import { isAlreadyExists, isNotFound, kinds, type KubeClient, labels } from "cloud-controller-host/sdk";

import type { ServedCloud } from "../kit/cloud-server.ts";
import { joinNode, loseMachine, nodeName, setReady } from "../kit/kubelet.ts";
import type { Random } from "../kit/random.ts";
import { balancedService, deleteService, patchService } from "../kit/services.ts";
import type { Witness } from "./witness.ts";

const max = { nodes: 10, services: 10 } as const;
const fewestNodes = 3;

/** What users, kubelets and machines do to a cluster in a day; each act is chosen at random from a table. */
export class Day {
  /** Number of reasons to create a load balancer, by Service: it was created, or became a LoadBalancer again. */
  readonly balancersWanted = new Map<string, number>();
  /** How often each node has joined. */
  readonly joined = new Map<string, number>();
  acts = 0;
  readonly #admin: KubeClient;
  readonly #cloud: ServedCloud;
  readonly #witness: Witness;
  readonly #random: Random;
  readonly #services = new Map<string, "LoadBalancer" | "ClusterIP">();

  constructor(parts: {
    readonly admin: KubeClient;
    readonly cloud: ServedCloud;
    readonly witness: Witness;
    readonly random: Random;
  }) {
    this.#admin = parts.admin;
    this.#cloud = parts.cloud;
    this.#witness = parts.witness;
    this.#random = parts.random;
  }

  /** Runs one act. If its object was deleted or created meanwhile, nothing happens. */
  async act(): Promise<void> {
    const act = this.#random.pick(this.#table);
    try {
      await act?.();
      this.acts++;
    } catch (error) {
      if (!isNotFound(error) && !isAlreadyExists(error)) throw error;
    }
  }

  get #machines(): ServedCloud["memory"]["machines"] {
    return this.#cloud.memory.machines;
  }

  /** The more often an act is listed, the more likely it is. */
  readonly #table: readonly (() => Promise<unknown> | undefined)[] = [
    () => this.#join(),
    () => this.#join(),
    () => this.#join(),
    () => this.#lose(),
    () => this.#lose(),
    () => this.#switchOff(),
    () => this.#switchOn(),
    () => this.#flap(),
    () => this.#exclude(),
    () => this.#make(),
    () => this.#make(),
    () => this.#make(),
    () => this.#change(),
    () => this.#flip(),
    () => this.#flip(),
    () => this.#delete(),
    () => this.#delete(),
  ];

  /** The name of a deleted node may be used again. */
  #join(): Promise<void> | undefined {
    const free = Array.from({ length: max.nodes }, (_, index) => nodeName(index + 1)).filter(
      (name) => !this.#machines.has(name) && !this.#witness.nodes.has(name),
    );
    const name = this.#random.pick(free);
    if (name === undefined) return undefined;
    this.joined.set(name, (this.joined.get(name) ?? 0) + 1);
    return joinNode(this.#admin, this.#cloud.memory, name);
  }

  #lose(): Promise<void> | undefined {
    const name = this.#random.pick([...this.#machines.keys()]);
    if (name === undefined || this.#machines.size <= fewestNodes) return undefined;
    return loseMachine(this.#admin, this.#cloud.memory, name);
  }

  #switchOff(): Promise<void> | undefined {
    const [name, machine] =
      this.#random.pick([...this.#machines].filter(([, { shutdown }]) => shutdown !== true)) ?? [];
    if (name === undefined) return undefined;
    this.#machines.set(name, { ...machine, shutdown: true });
    return setReady(this.#admin, name, "Unknown");
  }

  #switchOn(): Promise<void> | undefined {
    const [name, machine] =
      this.#random.pick([...this.#machines].filter(([, { shutdown }]) => shutdown === true)) ?? [];
    if (name === undefined) return undefined;
    this.#machines.set(name, { ...machine, shutdown: false });
    return setReady(this.#admin, name, "True");
  }

  async #flap(): Promise<void> {
    const name = this.#random.pick([...this.#machines].filter(([, { shutdown }]) => shutdown !== true))?.[0];
    if (name === undefined) return;
    await setReady(this.#admin, name, "False");
    await Bun.sleep(this.#random.between(0, 400));
    // Nothing else acts meanwhile.
    await setReady(this.#admin, name, "True");
  }

  #exclude(): Promise<unknown> | undefined {
    const name = this.#random.pick([...this.#witness.nodes.keys()]);
    if (name === undefined) return undefined;
    const value = this.#random.chance(0.5) ? "true" : null;
    return this.#admin.patch(kinds.Node, { name }, "merge", {
      metadata: { labels: { [labels.excludeFromLoadBalancers]: value } },
    });
  }

  async #make(): Promise<void> {
    const free = Array.from({ length: max.services }, (_, index) => `web-${index}`).filter(
      (name) => !this.#services.has(name),
    );
    const name = this.#random.pick(free);
    if (name === undefined) return;
    await this.#admin.create(kinds.Service, balancedService(name));
    this.#wantBalancer(name);
  }

  #change(): Promise<unknown> | undefined {
    const name = this.#random.pick([...this.#services.keys()]);
    if (name === undefined) return undefined;
    const port = this.#random.between(1, 60_000);
    return patchService(this.#admin, name, { spec: { ports: [{ port, protocol: "TCP" }] } });
  }

  async #flip(): Promise<void> {
    const [name, type] = this.#random.pick([...this.#services]) ?? [];
    if (name === undefined) return;
    if (type === "ClusterIP") {
      await patchService(this.#admin, name, { spec: { type: "LoadBalancer" } });
      this.#wantBalancer(name);
      return;
    }
    await patchService(this.#admin, name, { spec: { type: "ClusterIP" } });
    this.#services.set(name, "ClusterIP");
  }

  /** Its name is free at once; while its finalizer remains, creating the next Service of that name fails. */
  async #delete(): Promise<void> {
    const name = this.#random.pick([...this.#services.keys()]);
    if (name === undefined) return;
    await deleteService(this.#admin, name);
    this.#services.delete(name);
  }

  #wantBalancer(name: string): void {
    this.#services.set(name, "LoadBalancer");
    this.balancersWanted.set(name, (this.balancersWanted.get(name) ?? 0) + 1);
  }
}

import type { Service } from "cloud-controller-host/sdk";

import type { Random } from "../../../kit/random.ts";
import { errorOf } from "../../../kit/rejection.ts";
import { type Cluster, type Generation, serviceOf, type ServiceOptions } from "./cluster.ts";

const shapes: readonly ServiceOptions[] = [
  {},
  { annotations: { "azure-load-balancer-internal": "true" } },
  {
    spec: {
      ports: [
        { name: "http", protocol: "TCP", port: 80, nodePort: 31_080 },
        { name: "https", protocol: "TCP", port: 443, nodePort: 31_443 },
      ],
    },
  },
  { spec: { ports: [{ name: "dns", protocol: "UDP", port: 53, nodePort: 31_053 }] } },
  { spec: { loadBalancerSourceRanges: ["192.0.2.0/24"] } },
];

/** Services that are wanted and those that still have to be removed, changed at random. */
export class Scenario {
  readonly #cluster: Cluster;
  readonly #random: Random;
  readonly #wanted = new Map<string, Service>();
  readonly #leaving = new Map<string, Service>();
  #incarnation = 0;

  constructor(cluster: Cluster, random: Random) {
    this.#cluster = cluster;
    this.#random = random;
  }

  /** Creates, changes or deletes a few Services. One that is being deleted keeps its name until it is gone. */
  change(count: number): void {
    for (let index = 0; index < count; index++) {
      const name = `s${this.#random.between(0, 7)}`;
      const key = `default/${name}`;
      const present = this.#wanted.get(key);
      const shape = this.#random.pick(shapes) ?? {};
      if (this.#leaving.has(key)) continue;
      if (present !== undefined && this.#random.chance(0.4)) {
        this.#wanted.delete(key);
        const deletionTimestamp = "2026-01-02T00:00:00Z";
        this.#leaving.set(key, { ...present, metadata: { ...present.metadata, deletionTimestamp } });
      } else {
        const incarnation = present === undefined ? ++this.#incarnation : (present.metadata?.generation ?? 0);
        const made = serviceOf(name, { ...shape, incarnation });
        this.#wanted.set(key, { ...made, metadata: { ...made.metadata, generation: incarnation } });
      }
    }
  }

  /** One sync of everything, as after a start. Resolves with the errors. */
  async sync(generation: Generation): Promise<readonly unknown[]> {
    const work = [
      ...[...this.#wanted.values()].map((service) => errorOf(this.#cluster.ensure(generation, service))),
      ...[...this.#leaving].map(([key, service]) =>
        errorOf(this.#cluster.remove(generation, service).then(() => void this.#leaving.delete(key))),
      ),
    ];
    return (await Promise.all(work)).filter((error) => error !== undefined);
  }

  /** Services that the cluster still counts but does not want are those that are being removed. */
  get settled(): boolean {
    return this.#leaving.size === 0 && [...this.#cluster.services.keys()].every((key) => this.#wanted.has(key));
  }
}

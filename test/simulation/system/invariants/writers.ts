import { kinds, type Lease } from "cloud-controller-host/sdk";

import { intruder } from "../actions/leases.ts";
import { type Deployment, leaseNames } from "../deployments.ts";
import type { SimulatedHost } from "../host-program.ts";
import type { HostRequest } from "../requests.ts";
import type { World } from "../world.ts";
import type { Violate } from "./table.ts";

type Host = Pick<SimulatedHost, "deployment" | "identity" | "index" | "isAlive" | "status"> & {
  readonly generations: Pick<SimulatedHost["generations"], "isNewest">;
};

/** What it reads of the world. */
type Scene = Pick<World, "api" | "interrupted" | "lease" | "note" | "now"> & {
  readonly hostNamed: (identity: string | undefined) => Host | undefined;
};

type Request = Pick<HostRequest, "isWrite"> & {
  readonly host: Host;
  readonly exchange: Pick<HostRequest["exchange"], "generation" | "method" | "path">;
};

/** Which host of a deployment may write, by the API server's own record of its Lease. */
export class Writers {
  readonly #world: Scene;
  readonly #deployment: Deployment;
  readonly #violate: Violate;
  readonly #renewedAt = new Map<string, number>();
  /** When each process sent its first request, by its identity. */
  readonly #beganAt = new Map<string, number>();
  #holder: string | undefined;
  #deletedAt = Number.POSITIVE_INFINITY;

  constructor(world: Scene, deployment: Deployment, violate: Violate) {
    this.#world = world;
    this.#deployment = deployment;
    this.#violate = violate;
    world.api.onChange(kinds.Lease, (type, lease) => this.#changed(type, lease));
  }

  #changed(type: string, { metadata, spec }: Lease): void {
    if (metadata?.name !== leaseNames[this.#deployment]) return;
    const holder = type === "DELETED" ? undefined : (spec?.holderIdentity ?? "");
    if (holder !== this.#holder) {
      const of = this.#deployment === "second" ? "of the second deployment " : "";
      this.#world.note("lease", `${of}is held by ${this.#nameOf(holder)}`);
      this.#world.interrupted();
    }
    this.#holder = holder;
    if (type === "DELETED") this.#deletedAt = this.#world.now;
    if (holder !== undefined && holder !== "") this.#renewedAt.set(holder, this.#world.now);
  }

  #nameOf(holder: string | undefined): string {
    if (holder === undefined || holder === "") return holder === undefined ? "no one: it is deleted" : "no one";
    const host = this.#world.hostNamed(holder);
    return host === undefined ? "a process that has ended" : `host${host.index}`;
  }

  sent({ host, exchange, isWrite }: Request): void {
    if (!this.#beganAt.has(host.identity)) this.#beganAt.set(host.identity, this.#world.now);
    if (!isWrite || host.deployment !== this.#deployment) return;
    const what = `host${host.index} sends ${exchange.method} ${exchange.path}`;
    const renewedAt = this.#renewedAt.get(host.identity) ?? Number.NEGATIVE_INFINITY;
    const silentMs = this.#world.now - renewedAt;
    if (!host.generations.isNewest(exchange.generation))
      this.#violate(
        "no generation writes after a newer one",
        `${what}, for a generation that a newer one has replaced`,
      );
    if (silentMs > this.#world.lease.durationMs)
      this.#violate("no write after the fence", `${what}, ${Math.round(silentMs)} ms after its last renewal`);
    // A holder that a user has written, or made possible, is noticed with the next renewal.
    const isOfUser = this.#holder === "" || this.#holder === intruder || this.#isOfNewCluster;
    if (isOfUser && silentMs <= this.#world.lease.renewDeadlineMs) return;
    if (this.#holder !== undefined && this.#holder !== host.identity)
      this.#violate("one writer", `${what} while the Lease is held by ${this.#nameOf(this.#holder)}`);
  }

  /** True if the holder began after a user's deletion of the Lease: to it, as in client-go, there has never been one. */
  get #isOfNewCluster(): boolean {
    return (this.#beganAt.get(this.#holder ?? "") ?? 0) > this.#deletedAt;
  }

  /** True until the Lease has expired: one whose holder is paused may be taken over, and what it serves as well. */
  get leads(): boolean {
    const renewedAt = this.#renewedAt.get(this.#holder ?? "") ?? Number.NEGATIVE_INFINITY;
    return this.leader !== undefined && this.#world.now - renewedAt <= this.#world.lease.durationMs;
  }

  get leader(): Host | undefined {
    const host = this.#world.hostNamed(this.#holder);
    return host?.isAlive === true ? host : undefined;
  }
}

import { keyOf, kinds } from "cloud-controller-host/sdk";

import { type Deployment, deploymentNames, deploymentOf } from "../deployments.ts";
import type { SimulatedHost } from "../host-program.ts";
import type { HostRequest } from "../requests.ts";
import type { World } from "../world.ts";
import { Claims } from "./claims.ts";
import { type Problem, problemsOf } from "./problems.ts";
import type { Violate } from "./table.ts";
import { Visibility } from "./visibility.ts";
import { Writers } from "./writers.ts";

/** The deployments of a world, each with its Lease, and with the process that must show what fails. */
export class Leaders {
  readonly #world: World;
  readonly #claims: Claims;
  readonly #of: readonly { readonly name: Deployment; readonly writers: Writers; readonly visibility: Visibility }[];

  constructor(world: World, violate: Violate) {
    this.#world = world;
    const names = world.history.second === undefined ? deploymentNames.slice(0, 1) : deploymentNames;
    this.#of = names.map((name) => ({
      name,
      writers: new Writers(world, name, violate),
      visibility: new Visibility(world, () => this.#problemsOf(name), violate),
    }));
    const leads = (name: Deployment): boolean => this.#of.some((one) => one.name === name && one.writers.leads);
    this.#claims = new Claims(world, leads, violate);
    world.api.onChange(kinds.Event, (_type, { reason = "", involvedObject: { uid = "" } }) => {
      for (const { visibility } of this.#of) visibility.shown(reason, uid);
    });
  }

  /** The first deployment has those of nodes, and of whatever is left over. */
  #problemsOf(name: Deployment): readonly Problem[] {
    const problems = problemsOf(this.#world);
    if (this.#of.length === 1) return problems;
    const ofSecond = new Set(
      this.#world.services().flatMap((one) => (deploymentOf(one) === "second" ? [keyOf(one)] : [])),
    );
    const isOfSecond = ({ kind, object = "" }: Problem): boolean => kind === "Service" && ofSecond.has(object);
    return problems.filter((problem) => isOfSecond(problem) === (name === "second"));
  }

  sent(request: HostRequest): void {
    for (const { writers } of this.#of) writers.sent(request);
    this.#claims.sent(request);
  }

  /** A request of a host has failed. */
  failed(host: SimulatedHost): void {
    for (const { writers, visibility } of this.#of) if (host === writers.leader) visibility.failed();
  }

  /** Called every minute. */
  check(): void {
    for (const { writers, visibility } of this.#of) visibility.check(writers.leader);
  }

  /** True if each deployment has a process that leads. */
  get areComplete(): boolean {
    return this.#of.every(({ writers }) => writers.leader !== undefined);
  }
}

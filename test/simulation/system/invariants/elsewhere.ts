import { defaultLoadBalancerName, keyOf, kinds, type Service } from "cloud-controller-host/sdk";

import { addressesOf } from "../../../kit/services.ts";
import { isForThem, isTheirs, theirAddress } from "../actions/theirs.ts";
import type { AzureView } from "../azure-view.ts";
import type { World } from "../world.ts";
import type { Violate } from "./table.ts";

const isServed = (service: Service): boolean => isTheirs(service) && addressesOf(service).join() === theirAddress;

/**
 * A Service that another controller serves keeps the address that it shows. One that it serves from the beginning also gets
 * no finalizer, and nothing in Azure.
 */
export class Elsewhere {
  readonly #violate: Violate;
  /** By UID. */
  readonly #services = new Map<string, Service>();

  constructor({ api }: Pick<World, "api">, violate: Violate) {
    this.#violate = violate;
    api.onChange(kinds.Service, (...change) => this.#changed(...change));
  }

  #changed(type: "ADDED" | "MODIFIED" | "DELETED", service: Service, before?: Service): void {
    const { uid = "", finalizers = [] } = service.metadata ?? {};
    if (type === "ADDED" && isTheirs(service)) this.#services.set(uid, service);
    if (type === "DELETED" || !isTheirs(service)) this.#services.delete(uid);
    if (before !== undefined && isServed(before) && isForThem(service) && !isServed(service))
      this.#violate("others' property", `${keyOf(service)} lost the address that another controller has given it`);
    if (this.#services.has(uid) && finalizers.length > 0)
      this.#violate("others' property", `${keyOf(service)}, which another controller serves, got ${finalizers.join()}`);
  }

  check({ resources }: Pick<AzureView, "resources">): void {
    if (this.#services.size === 0) return;
    const text = JSON.stringify(resources);
    for (const service of this.#services.values())
      if (text.includes(defaultLoadBalancerName(service)))
        this.#violate("others' property", `${keyOf(service)}, which another controller serves, has something in Azure`);
  }
}

import { defaultLoadBalancerName, kinds, type Service } from "cloud-controller-host/sdk";

import { areAllMarked, type Deployment, markOf } from "../deployments.ts";
import type { HostRequest, World } from "../world.ts";
import type { Violate } from "./table.ts";

/** A deployment that marks nothing may still end what it does for a Service that it has served until then. */
const endMs = 3 * 60_000;

type Scene = Pick<World, "api" | "now" | "services"> & { readonly history: Pick<World["history"], "second"> };
type Request = Pick<HostRequest, "isWrite"> & {
  readonly host: { readonly index: number; readonly deployment: Deployment };
  readonly exchange: Pick<HostRequest["exchange"], "method" | "path">;
};

/** A Service has one writer among the deployments: the one whose mark it has, as long as that leads. */
export class Claims {
  readonly #world: Scene;
  readonly #leads: (deployment: Deployment) => boolean;
  readonly #violate: Violate;
  /** When each Service has got the mark that it has, by UID. */
  readonly #markedAt = new Map<string, number>();

  constructor(world: Scene, leads: (deployment: Deployment) => boolean, violate: Violate) {
    this.#world = world;
    this.#leads = leads;
    this.#violate = violate;
    world.api.onChange(kinds.Service, (_type, service, before) => {
      if (before === undefined || markOf(before) !== markOf(service))
        this.#markedAt.set(service.metadata?.uid ?? "", world.now);
    });
  }

  sent({ host, isWrite, exchange: { method, path } }: Request): void {
    const { second } = this.#world.history;
    if (second === undefined || !isWrite) return;
    const service = this.#world.services().find((one) => isFor(one, path));
    const mark = service && markOf(service);
    if (mark === undefined || mark === host.deployment || !this.#leads(mark)) return;
    const markedMs = this.#world.now - (this.#markedAt.get(service?.metadata?.uid ?? "") ?? 0);
    if (!areAllMarked(second) && markedMs < endMs) return;
    this.#violate("one writer", `host${host.index} sends ${method} ${path}, which the ${mark} deployment serves`);
  }
}

/** True for the path of the Service, or of the public IP that is created for it. */
function isFor(service: Service, path: string): boolean {
  const { namespace = "", name = "" } = service.metadata ?? {};
  const [bare = ""] = path.split("?");
  return (
    `${bare}/`.startsWith(`/api/v1/namespaces/${namespace}/services/${name}/`) ||
    bare.includes(`/publicIPAddresses/kubernetes-${defaultLoadBalancerName(service)}`)
  );
}

import { defaultLoadBalancerName, keyOf, kinds, type Service } from "cloud-controller-host/sdk";

import { areAllMarked, type Deployment, markOf } from "../deployments.ts";
import type { HostRequest } from "../requests.ts";
import type { World } from "../world.ts";
import type { Violate } from "./table.ts";

/** A deployment that marks nothing may still end what it does for a Service that it has served until then. */
const endMs = 3 * 60_000;

type Scene = Pick<World, "abandoned" | "api" | "now" | "services"> & {
  readonly cluster: Pick<World["cluster"], "sharesAddresses">;
} & { readonly history: Pick<World["history"], "second"> };
type Request = Pick<HostRequest, "isWrite"> & {
  readonly host: { readonly index: number; readonly deployment: Deployment };
  readonly exchange: Pick<HostRequest["exchange"], "method" | "path" | "body">;
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

  sent({ host, isWrite, exchange: { method, path, body } }: Request): void {
    const { second } = this.#world.history;
    if (second === undefined || !isWrite) return;
    const { sharesAddresses } = this.#world.cluster;
    const service = this.#world
      .services()
      .find((one) => isAt(one, path, body) || (!sharesAddresses && isPublicIPOf(one, path)));
    if (service === undefined) return;
    const mark = markOf(service);
    if (mark === undefined || mark === host.deployment || !this.#leads(mark)) return;
    // What is still written may be for the one that had the name before.
    if (this.#world.abandoned.some((one) => keyOf(one.service) === keyOf(service))) return;
    const markedMs = this.#world.now - (this.#markedAt.get(service.metadata?.uid ?? "") ?? 0);
    if (!areAllMarked(second) && markedMs < endMs) return;
    this.#violate("one writer", `host${host.index} sends ${method} ${path}, which the ${mark} deployment serves`);
  }
}

const withoutQuery = (path: string): string => path.split("?")[0] ?? "";

/**
 * True for a write of the Service: one for another that had its name is refused for its UID, and one on a version of before,
 * such as the claim of a process that was paused, for that.
 */
function isAt({ metadata }: Service, path: string, body: string): boolean {
  const { namespace = "", name = "", uid = "", resourceVersion } = metadata ?? {};
  const isOfFormer = body.includes("uid") && !body.includes(uid);
  const [, version = resourceVersion] = /"resourceVersion":"([^"]*)"/u.exec(body) ?? [];
  return (
    !isOfFormer &&
    version === resourceVersion &&
    `${withoutQuery(path)}/`.startsWith(`/api/v1/namespaces/${namespace}/services/${name}/`)
  );
}

/** True for the public IP that is created for it. Where Services share addresses, each of them may be tagged there. */
const isPublicIPOf = (service: Service, path: string): boolean =>
  withoutQuery(path).includes(`/publicIPAddresses/kubernetes-${defaultLoadBalancerName(service)}`);

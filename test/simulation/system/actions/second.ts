import { annotations, kinds, type Service } from "cloud-controller-host/sdk";

import { areAllMarked, type Deployment, deploymentOf, markOf, selectionOf } from "../deployments.ts";
import type { Action } from "../history.ts";
import type { World } from "../world.ts";
import { freeName, restOf } from "./elsewhere.ts";
import { createAs, living, nameOf, namespace, retype } from "./services.ts";

type Way = (world: World, action: Pick<Action, "pick" | "forMs">) => void;

/** A Service that comes for the second deployment. */
const createForSecond: Way = (world, { pick }) => {
  const { second } = world.history;
  const rest = restOf(pick, ways);
  const name = freeName(world, rest);
  if (second !== undefined && name !== undefined) createAs(world, name, rest, selectionOf(second, "second"));
};

/** One of the Services that want a load balancer, of a deployment or with some mark. */
function chosen(world: World, pick: number, is: (service: Service) => boolean): Service | undefined {
  const found = living(world).filter((service) => service.spec?.type === "LoadBalancer" && is(service));
  return found[restOf(pick, ways) % Math.max(1, found.length)];
}

function give(world: World, name: string, to: Deployment, afterMs: number): void {
  const { second } = world.history;
  if (second === undefined) return;
  const { metadata, spec } = selectionOf(second, to);
  if (!areAllMarked(second)) {
    retype(world, name, "ClusterIP");
    world.after(afterMs, () => {
      const isOpen = world.api.get(kinds.Service, { namespace, name })?.spec?.type === "ClusterIP";
      if (isOpen) retype(world, name, "LoadBalancer", spec);
    });
    return;
  }
  world.note("user", `labels ${name} for the ${to} deployment`);
  world.api.update(kinds.Service, { namespace, name }, (before) => ({
    ...before,
    metadata: { ...before.metadata, labels: metadata?.labels ?? {} },
  }));
}

/** A Service goes to the other deployment: by its labels or, as a class does not change, by way of another type. */
const move: Way = (world, { pick, forMs }) => {
  const service = chosen(world, pick, () => true);
  if (service === undefined) return;
  const to = deploymentOf(service) === "first" ? "second" : "first";
  give(world, nameOf(service), to, forMs * 0.05);
};

/** The same, and back after a while. */
const moveAndBack: Way = (world, action) => {
  const service = chosen(world, action.pick, () => true);
  if (service === undefined) return;
  const [name, from] = [nameOf(service), deploymentOf(service)];
  move(world, action);
  world.after(action.forMs * 0.3, () => {
    const current = living(world).find((one) => nameOf(one) === name);
    if (current?.spec?.type === "LoadBalancer" && deploymentOf(current) !== from)
      give(world, name, from, action.forMs * 0.05);
  });
};

/** A client replaces the whole Service by what its user has written, without the mark. */
const stripMark: Way = (world, { pick }) => {
  const service = chosen(world, pick, (one) => markOf(one) !== undefined);
  if (service === undefined) return;
  const name = nameOf(service);
  world.note("user", `replaces ${name} without its mark`);
  world.api.update(kinds.Service, { namespace, name }, ({ metadata, ...rest }) => {
    const { [annotations.servedBy]: _mark, ...others } = metadata?.annotations ?? {};
    return { ...rest, metadata: { ...metadata, annotations: others } };
  });
};

/** What happens to Services of two deployments, by number. */
export const ways = {
  move,
  createForSecond,
  stripMark,
  moveAndBack,
} as const satisfies Readonly<Record<string, Way>>;

/** Something with the Services of two deployments. */
export function serveSecond(world: World, action: Action): void {
  const all = Object.values(ways);
  if (world.history.second !== undefined) all[action.pick % all.length]?.(world, action);
}

/** The second deployment has Services from the beginning. */
export function startSecond(world: World): void {
  for (const pick of [0, 1]) ways.createForSecond(world, { pick: pick * Object.keys(ways).length, forMs: 0 });
}

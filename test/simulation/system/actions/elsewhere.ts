import { annotations, keyOf, kinds, type Service } from "cloud-controller-host/sdk";

import { addressesOf } from "../../../kit/services.ts";
import type { Action } from "../history.ts";
import type { World } from "../world.ts";
import { createAs, living, mostOf, nameOf, namespace, retype } from "./services.ts";
import { isForThem, isMarked, isTheirs, theirAddress, theirClass, theirMark } from "./theirs.ts";

/** What they take to give a Service an address. */
const theirPauseMs = 2_000;

/** Starts another controller of the cluster: whatever writes the status of a Service of theirs, they write it again. */
export function startTheirs(world: World): void {
  world.api.onChange(kinds.Service, (type, service) => {
    if (type === "DELETED" || !isForThem(service) || addressesOf(service).join() === theirAddress) return;
    world.after(theirPauseMs, () => serve(world, nameOf(service)));
  });
}

function serve(world: World, name: string): void {
  const service = world.api.get(kinds.Service, { namespace, name });
  if (service === undefined || !isForThem(service) || addressesOf(service).join() === theirAddress) return;
  world.note("other", `gives ${name} an address`);
  const status = { loadBalancer: { ingress: [{ ip: theirAddress }] } };
  world.api.update(kinds.Service, { namespace, name }, (before) => ({ ...before, status }), "status");
}

/** What of a number does not choose the way. */
export const restOf = (pick: number, all: Readonly<Record<string, Way>>): number =>
  Math.floor(pick / Object.keys(all).length);

type Way = (world: World, action: Action) => void;

/** A name that no Service has. */
export function freeName(world: World, pick: number): string | undefined {
  const most = mostOf(world);
  const names = Array.from({ length: most }, (_, index) => `s${(pick + index) % most}`);
  return names.find((name) => world.api.get(kinds.Service, { namespace, name }) === undefined);
}

const createTheirs =
  (more: Service): Way =>
  (world, { pick }) => {
    const name = freeName(world, pick);
    if (name !== undefined) createAs(world, name, restOf(pick, ways), more);
  };

/** Ours becomes theirs, by way of another type: a class does not change. */
const giveAway: Way = (world, { pick, forMs }) => {
  const ours = living(world).filter((service) => service.spec?.type === "LoadBalancer" && !isTheirs(service));
  const service = ours[restOf(pick, ways) % Math.max(1, ours.length)];
  if (service === undefined) return;
  const name = nameOf(service);
  retype(world, name, "ClusterIP");
  world.after(forMs * 0.02, () => {
    const isOpen = world.api.get(kinds.Service, { namespace, name })?.spec?.type === "ClusterIP";
    if (isOpen) retype(world, name, "LoadBalancer", { loadBalancerClass: theirClass });
  });
};

/** Theirs becomes ours; a mark goes without a change of type. */
const takeBack: Way = (world, { pick, forMs }) => {
  const theirs = living(world).filter(isForThem);
  const service = theirs[restOf(pick, ways) % Math.max(1, theirs.length)];
  if (service === undefined) return;
  const name = nameOf(service);
  if (isMarked(service)) {
    world.note("other", `leaves ${keyOf(service)}`);
    world.api.update(kinds.Service, { namespace, name }, ({ metadata, ...rest }) => {
      const { [annotations.servedBy]: _mark, ...others } = metadata?.annotations ?? {};
      return { ...rest, metadata: { ...metadata, annotations: others } };
    });
    return;
  }
  retype(world, name, "ClusterIP");
  world.after(forMs * 0.02, () => retype(world, name, "LoadBalancer"));
};

/** What happens to a Service, by number. */
export const ways = {
  giveAway,
  takeBack,
  createMarked: createTheirs({ metadata: { annotations: { [annotations.servedBy]: theirMark } } }),
  createOfClass: createTheirs({ spec: { loadBalancerClass: theirClass } }),
} as const satisfies Readonly<Record<string, Way>>;

/** Something with a Service of another controller. */
export function serveElsewhere(world: World, action: Action): void {
  const all = Object.values(ways);
  all[action.pick % all.length]?.(world, action);
}

import { defaultLoadBalancerName, keyOf } from "cloud-controller-host/sdk";

import type { ServiceIntent, ServiceKey } from "../model/model.ts";

/** Services in a write that ARM rejected, by its error. */
const carriedBy = new WeakMap<Error, readonly ServiceKey[]>();

/** To be called with the error of a rejected write and the Services that it carried. */
export const blame = (error: Error, services: readonly ServiceKey[]): void => void carriedBy.set(error, services);

/** Intents that a rejected write points at: those whose names are in ARM's message, else all that the write carried. */
export function blamedFor<Intent extends ServiceIntent>(error: Error, intents: readonly Intent[]): readonly Intent[] {
  const services = carriedBy.get(error) ?? [];
  const carried = intents.filter(({ service }) => services.includes(keyOf(service)));
  const text = error.message.toLowerCase();
  const named = carried.filter(({ service }) => text.includes(defaultLoadBalancerName(service).toLowerCase()));
  return named.length > 0 ? named : carried;
}

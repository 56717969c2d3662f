import { defaultLoadBalancerName, keyOf, type Service } from "cloud-controller-host/sdk";

import type { ServiceKey } from "../model/model.ts";
import { sameWish } from "./wanted.ts";

/** Services that are to be written apart from others in one resource. */
interface Trial {
  /** Groups that wait for their turn. */
  readonly groups: (readonly ServiceKey[])[];
  /** Rejections until the rest waits for its retry: each rejected Service costs about two writes per halving. */
  attempts: number;
}

/**
 * Services in writes that ARM rejected, by resource: the group is halved until the one at fault is alone. A group that
 * waits is not planned: no other Service waits for it but one that would take its port, and it lets all others that need
 * its resource go first.
 */
export class Rejections {
  readonly #trials = new Map<string, Trial>();
  readonly #waiting = new Set<ServiceKey>();
  /** Services that have failed, as they were then: they are written apart until that is accepted. */
  readonly #suspects = new Map<ServiceKey, { readonly id: string; readonly service: Service }>();

  isWaiting(key: ServiceKey): boolean {
    return this.#waiting.has(key);
  }

  /** To be called when a Service is wanted. */
  wanted(service: Service): void {
    const suspect = this.#suspects.get(keyOf(service));
    if (suspect === undefined || this.#waiting.has(keyOf(service))) return;
    if (sameWish(suspect.service, service)) this.#wait(suspect.id, [keyOf(service)], 1);
    else this.#suspects.delete(keyOf(service));
  }

  /** To be called when a Service is done with success, or is not wanted any more. */
  cleared(key: ServiceKey): void {
    this.#suspects.delete(key);
  }

  /** Returns the Services that fail: the only one, or all when the attempts are used up. The others are tried again. */
  rejected(id: string, error: Error, services: readonly Service[]): readonly Service[] {
    const trial = this.#trials.get(id);
    if (services.length === 1 || trial?.attempts === 0) {
      // One of several may be innocent: with the same others, its next attempt would fail like this one.
      for (const service of services) this.#suspects.set(keyOf(service), { id, service });
      return services;
    }
    if (trial !== undefined) trial.attempts -= 1;
    this.#wait(id, secondPart(error, services).map(keyOf), services.length);
    return [];
  }

  /** Releases the next group of each resource that no other Service is about to write. True if there is any. */
  releaseNext(isWritten: (id: string) => boolean): boolean {
    let isAny = false;
    for (const [id, { groups }] of this.#trials) {
      if (isWritten(id)) continue;
      const group = groups.shift();
      for (const key of group ?? []) this.#waiting.delete(key);
      if (group === undefined) this.#trials.delete(id);
      else isAny = true;
    }
    return isAny;
  }

  #wait(id: string, group: readonly ServiceKey[], count: number): void {
    const trial = this.#trials.get(id) ?? { groups: [], attempts: 7 + 2 * Math.ceil(Math.log2(count)) };
    this.#trials.set(id, trial);
    if (count > 1) trial.groups.unshift(group);
    else trial.groups.push(group);
    for (const key of group) this.#waiting.add(key);
  }
}

/** The Services that ARM's message names, unless it names all; else the second half of the namespaces or, in one, of the Services. */
function secondPart(error: Error, services: readonly Service[]): readonly Service[] {
  const text = error.message.toLowerCase();
  const named = services.filter((service) => text.includes(defaultLoadBalancerName(service).toLowerCase()));
  if (named.length > 0 && named.length < services.length) return named;
  const namespaces = [...Map.groupBy(services, ({ metadata }) => metadata?.namespace).values()];
  return namespaces.length > 1 ? secondHalf(namespaces).flat() : secondHalf(services);
}

const secondHalf = <T>(items: readonly T[]): readonly T[] => items.slice(Math.ceil(items.length / 2));

import { finalizers, hasFinalizer, type InformerHandler, keyOf, type Service } from "cloud-controller-host/sdk";

import { keepLatest } from "../../../keep-latest.ts";
import type { ServiceKey } from "../../model/model.ts";
import type { PlannerConfig } from "../../model/planner-config.ts";
import { statusAddresses } from "../../plan/draft/ingress.ts";
import { hasType } from "../../service/identity.ts";
import { choosesAddress, readSubject } from "../../service/subject.ts";
import type { WriteOutcome } from "../apply/apply.ts";

/** Of a Service whose writes all fail, and of all Services: those that are deleted may stay. */
const maxWishes = 10;
const maxServices = 5_000;

/**
 * Services that chose an address, or named additional ones, as security rules were written for them. The rules may be
 * written before the load balancer, which ARM may then reject: once such a Service wants another address, or is deleted,
 * nothing else shows what it has opened on the former one. A process that starts plans all Services of that address, and
 * closes the rest; where deployments share Services, it leaves what none of them names or has in its record, which may be a
 * new address.
 */
export class OpenedAddresses {
  readonly #config: PlannerConfig;
  readonly #wishes = new Map<ServiceKey, readonly Service[]>();
  readonly #cleared = new Map<ServiceKey, readonly string[]>();
  /** The API server clears the status of a Service with its type, also in the midst of a move, when no frontend has it. */
  readonly handler: InformerHandler<Service> = {
    updated: (before, after) => {
      const isReleased = isKept(before) && !isKept(after);
      const addresses = statusAddresses(before);
      if (isReleased || statusAddresses(after).length > 0) this.#cleared.delete(keyOf(after));
      else if (addresses.length > 0 && !hasType(after)) this.#cleared.set(keyOf(after), addresses);
      keepLatest(this.#cleared, maxServices);
    },
    deleted: (service) => void this.#cleared.delete(keyOf(service)),
  };

  constructor(config: PlannerConfig) {
    this.#config = config;
  }

  /** The Services as they were then, by key. */
  get wishes(): ReadonlyMap<ServiceKey, readonly Service[]> {
    return this.#wishes;
  }

  /** Addresses that Services showed as their type changed, by key, until their security rules are written. */
  get cleared(): ReadonlyMap<ServiceKey, readonly string[]> {
    return this.#cleared;
  }

  /** Called with each write that ARM may have carried out, and the Services that it may have opened something for. */
  wrote({ write, kind }: Pick<WriteOutcome, "write" | "kind">, ensured: readonly Service[]): void {
    if (write.kind !== "put-security-group") return;
    // It has closed what they had opened before.
    if (kind === "written")
      for (const key of write.services) for (const known of [this.#wishes, this.#cleared]) known.delete(key);
    for (const service of ensured) {
      const { subject } = readSubject(service, this.#config);
      if (!choosesAddress(subject) && subject.additionalAddresses.length === 0) continue;
      const known = this.#wishes.get(keyOf(service)) ?? [];
      this.#wishes.set(keyOf(service), [...known, service].slice(-maxWishes));
    }
    keepLatest(this.#wishes, maxServices);
  }
}

/** True until its cleanup is over. */
const isKept = (service: Service): boolean => hasFinalizer(service, finalizers.loadBalancerCleanup);

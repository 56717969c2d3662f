import { keyOf, type Service } from "cloud-controller-host/sdk";

import { keepLatest } from "../../../keep-latest.ts";
import type { ServiceKey } from "../../model/model.ts";
import type { PlannerConfig } from "../../model/planner-config.ts";
import { choosesAddress, readSubject } from "../../service/subject.ts";
import type { WriteOutcome } from "../apply/apply.ts";

/** Of a Service whose writes all fail, and of all Services: those that are deleted may stay. */
const maxWishes = 10;
const maxServices = 5_000;

/**
 * Services that chose an address, or named additional ones, as security rules were written for them. The rules may be
 * written before the load balancer, which ARM may then reject: once such a Service wants another address, or is deleted,
 * nothing else shows what it has opened on the former one. A process that starts plans all Services of that address, and
 * closes the rest; where deployments share Services, it leaves what none of them names, which may be a new address.
 */
export class OpenedAddresses {
  readonly #config: PlannerConfig;
  readonly #wishes = new Map<ServiceKey, readonly Service[]>();

  constructor(config: PlannerConfig) {
    this.#config = config;
  }

  /** The Services as they were then, by key. */
  get wishes(): ReadonlyMap<ServiceKey, readonly Service[]> {
    return this.#wishes;
  }

  /** Called with each write that ARM may have carried out, and the Services that it may have opened something for. */
  wrote({ write, kind }: Pick<WriteOutcome, "write" | "kind">, ensured: readonly Service[]): void {
    if (write.kind !== "put-security-group") return;
    // It has closed what they had opened before.
    if (kind === "written") for (const key of write.services) this.#wishes.delete(key);
    for (const service of ensured) {
      const { subject } = readSubject(service, this.#config);
      if (!choosesAddress(subject) && subject.additionalAddresses.length === 0) continue;
      const known = this.#wishes.get(keyOf(service)) ?? [];
      this.#wishes.set(keyOf(service), [...known, service].slice(-maxWishes));
    }
    keepLatest(this.#wishes, maxServices);
  }
}

import { type CloudContext, keyOf, type Node, type Service } from "cloud-controller-host/sdk";

import type { Observed, PlanEvent, ServiceIntent, ServiceKey } from "../model/model.ts";
import type { Plan } from "../model/plan-model.ts";

/**
 * Events and warnings of plans: every plan finds the same ones. An event is recorded once until its subject is done, and a
 * warning about a Service's settings is logged once until they no longer have it, however often the Service is retried.
 */
export class Notices {
  readonly #context: Pick<CloudContext, "events" | "log">;
  readonly #given = new Map<string, Set<string>>();
  /** Warnings of the latest plan of each Service that has any. */
  readonly #warnings = new Map<ServiceKey, readonly string[]>();

  constructor(context: Pick<CloudContext, "events" | "log">) {
    this.#context = context;
  }

  /** Events and warnings of a plan of the active Services. */
  report({ results, nodeEvents }: Plan, active: readonly ServiceIntent[], { nodes }: Observed): void {
    for (const { service } of active) {
      const key = keyOf(service);
      const { events = [], warnings } = results.get(key) ?? {};
      for (const event of events) this.record(service, key, event);
      if (warnings !== undefined) this.#warn(key, warnings);
    }
    for (const [name, events] of nodeEvents) {
      const node = nodes.find(({ metadata }) => metadata?.name === name);
      if (node !== undefined) for (const event of events) this.record(node, name, event);
    }
  }

  record(subject: Service | Node, name: string, { type, reason, message }: PlanEvent): void {
    if (this.#isNew(name, `${reason}\n${message}`)) this.#context.events.event(subject, type, reason, message);
  }

  /** Forgets the events of a Service, or all. */
  forget(service?: ServiceKey): void {
    if (service === undefined) this.#given.clear();
    else this.#given.delete(service);
  }

  #warn(service: ServiceKey, warnings: readonly string[]): void {
    const known = this.#warnings.get(service) ?? [];
    for (const setting of warnings)
      if (!known.includes(setting)) this.#context.log.warn("Service has an invalid setting", { service, setting });
    if (warnings.length === 0) this.#warnings.delete(service);
    else this.#warnings.set(service, warnings);
  }

  #isNew(name: string, text: string): boolean {
    const given = this.#given.get(name) ?? new Set();
    this.#given.set(name, given);
    const { size } = given;
    return given.add(text).size > size;
  }
}

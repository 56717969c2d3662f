import { type CloudContext, keyOf, type Node, type Service } from "cloud-controller-host/sdk";

import type { Observed, PlanEvent, ServiceIntent, ServiceKey } from "../model/model.ts";
import type { Plan } from "../model/plan-model.ts";

/** Events and warnings of plans, each once until its subject is done: every plan finds the same ones. */
export class Notices {
  readonly #context: Pick<CloudContext, "events" | "log">;
  readonly #given = new Map<string, Set<string>>();

  constructor(context: Pick<CloudContext, "events" | "log">) {
    this.#context = context;
  }

  /** Events and warnings of a plan of the active Services. */
  report({ results, nodeEvents }: Plan, active: readonly ServiceIntent[], { nodes }: Observed): void {
    for (const { service } of active) {
      const key = keyOf(service);
      const { events = [], warnings = [] } = results.get(key) ?? {};
      for (const event of events) this.record(service, key, event);
      for (const warning of warnings) this.#warn(key, warning);
    }
    for (const [name, events] of nodeEvents) {
      const node = nodes.find(({ metadata }) => metadata?.name === name);
      if (node !== undefined) for (const event of events) this.record(node, name, event);
    }
  }

  record(subject: Service | Node, name: string, { type, reason, message }: PlanEvent): void {
    if (this.#isNew(name, `${reason}\n${message}`)) this.#context.events.event(subject, type, reason, message);
  }

  /** Forgets what was reported for a Service, or everything. */
  forget(service?: ServiceKey): void {
    if (service === undefined) this.#given.clear();
    else this.#given.delete(service);
  }

  #warn(service: ServiceKey, warning: string): void {
    if (!this.#isNew(service, warning)) return;
    this.#context.log.warn("Service has an invalid setting", { service, setting: warning });
  }

  #isNew(name: string, text: string): boolean {
    const given = this.#given.get(name) ?? new Set();
    this.#given.set(name, given);
    const { size } = given;
    return given.add(text).size > size;
  }
}

import { type Explanation, type Fact, kinds } from "cloud-controller-host/sdk";

import { concerns } from "../process/writes/record.ts";
import { sectionsOf } from "./clean.ts";
import { type Ask, CloudParts } from "./cloud-parts.ts";
import { errorsOfNodes } from "./found.ts";
import { nodeFacts, serviceFacts } from "./object-facts.ts";
import { writeRow } from "./object-rows.ts";
import type { Answers } from "./schema.ts";
import type { ConsoleSources } from "./sources.ts";
import { eventsOf } from "./views.ts";

const maxWrites = 100;

/** One Service or node as a tree, with its events and writes. */
export class ObjectView {
  readonly #sources: ConsoleSources;
  readonly #parts: CloudParts;

  constructor(sources: ConsoleSources) {
    this.#sources = sources;
    this.#parts = new CloudParts(sources.clock, sources.cloudName);
  }

  /** `services/default/web` or `nodes/vm-0`; undefined for an object that is not known here. */
  async of(path: readonly string[]): Promise<Answers["object"] | undefined> {
    const [list, ...names] = path;
    const key = names.join("/");
    const { informers, explain } = this.#sources;
    if (list === "services") {
      const services = informers.stored(kinds.Service);
      const service = services?.get(key);
      const nodes = informers.stored(kinds.Node)?.list() ?? [];
      const ask = () => service && explain()?.service?.(service, nodes, services?.list() ?? []);
      return service && this.#view(`Service ${key}`, serviceFacts(service), ask);
    }
    const node = informers.stored(kinds.Node)?.get(key);
    const facts = node && [...nodeFacts(node), ...this.#errorOf(key)];
    return node && this.#view(`Node ${key}`, facts, () => explain()?.node?.(node));
  }

  /** The error of a node that has failed for a while: no condition and no event of it has one. */
  #errorOf(node: string): readonly Fact[] {
    const text = errorsOfNodes(this.#sources.ownWarnings()).get(node);
    return text === undefined ? [] : [{ name: "last error", value: text }];
  }

  async #view(subject: string, facts: Explanation["facts"], ask: Ask): Promise<Answers["object"]> {
    const { events, writes } = this.#sources;
    const { tree, failure } = await this.#parts.of(subject, ask);
    return {
      subject,
      tree: [{ title: subject, ...(facts && { facts: [...facts] }), children: sectionsOf(tree) }],
      ...(failure !== undefined && { failure }),
      events: eventsOf(events.recent.others.filter((event) => event.subject === subject)),
      writes: writes.records
        .filter((write) => concerns(write, subject))
        .toReversed()
        .slice(0, maxWrites)
        .map(writeRow),
    };
  }
}

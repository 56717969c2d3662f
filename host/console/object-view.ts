import { type Explanation, kinds, messageOf } from "cloud-controller-host/sdk";
import { LRUCache } from "lru-cache";

import { within } from "../async/timeout.ts";
import { sectionsOf } from "./clean.ts";
import { nodeFacts, serviceFacts } from "./object-facts.ts";
import { writeRow } from "./object-rows.ts";
import type { Answers } from "./schema.ts";
import type { ConsoleSources } from "./sources.ts";
import { eventsOf } from "./views.ts";

/** An answer of the cloud serves every page for so long: its requests come out of the controllers' budget. */
const cacheMs = 15_000;
const limitMs = 20_000;
const maxWrites = 100;

interface CloudPart {
  readonly tree: readonly Explanation[];
  readonly failure?: string;
}

/** One Service or node as a tree, with its events and writes. At most one object is read from the cloud at a time. */
export class ObjectView {
  readonly #sources: ConsoleSources;
  readonly #parts = new LRUCache<string, Promise<CloudPart>>({ max: 50, ttl: cacheMs });
  #reading: Promise<unknown> = Promise.resolve();

  constructor(sources: ConsoleSources) {
    this.#sources = sources;
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
    return node && this.#view(`Node ${key}`, nodeFacts(node), () => explain()?.node?.(node));
  }

  async #view(
    subject: string,
    facts: Explanation["facts"],
    ask: () => Promise<readonly Explanation[]> | undefined,
  ): Promise<Answers["object"]> {
    const { events, writes } = this.#sources;
    const { tree, failure } = await this.#cloudPart(subject, ask);
    const isAbout = (resource: string): boolean => resource === subject || resource.startsWith(`${subject} (`);
    return {
      subject,
      tree: [{ title: subject, ...(facts && { facts: [...facts] }), children: sectionsOf(tree) }],
      ...(failure !== undefined && { failure }),
      events: eventsOf(events.recent.others.filter((event) => event.subject === subject)),
      writes: writes.records
        .filter(({ resource, causes }) => isAbout(resource) || causes.includes(subject))
        .toReversed()
        .slice(0, maxWrites)
        .map(writeRow),
    };
  }

  #cloudPart(subject: string, ask: () => Promise<readonly Explanation[]> | undefined): Promise<CloudPart> {
    const known = this.#parts.get(subject);
    if (known !== undefined) return known;
    const before = this.#reading;
    const reading = before.then(() => this.#read(ask));
    this.#reading = reading;
    this.#parts.set(subject, reading);
    return reading;
  }

  /** Never rejects. */
  async #read(ask: () => Promise<readonly Explanation[]> | undefined): Promise<CloudPart> {
    const { clock, cloudName } = this.#sources;
    try {
      const asked = Promise.try(ask);
      const tree = await within(clock, limitMs, asked);
      if (!tree.done) return { tree: [], failure: `the cloud "${cloudName}" has not answered in ${limitMs / 1000} s` };
      return { tree: tree.value ?? [] };
    } catch (error) {
      return { tree: [], failure: messageOf(error) };
    }
  }
}

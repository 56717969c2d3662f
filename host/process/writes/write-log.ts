import {
  type Clock,
  type CloudWrite,
  keyOf,
  type KindRef,
  type KubeClient,
  type KubeObject,
  type Node,
  type ObjectName,
  type Service,
} from "cloud-controller-host/sdk";

import { Fifo } from "../../async/fifo.ts";
import { type FieldChange, fieldChanges } from "../../changes/fields.ts";
import { Reasons } from "../../changes/reasons.ts";
import { relevantNode, relevantService } from "../../changes/relevant.ts";
import { recordOf, type WriteRecord, type WriteSource } from "./record.ts";
import { recordedClient } from "./recorded-client.ts";

/** Time after a reload in which its changed keys may be the cause of a write. */
const limitMs = 10 * 60_000;
const maxKeys = 10;

/**
 * Keys of the cloud config as causes of writes. A write of the generation that a reload has begun is for the keys that it
 * changed, as long as no Service or node behind the write has changed since.
 */
class ConfigCauses {
  #reload: { readonly generation: number; readonly keys: readonly string[]; readonly atMs: number } | undefined;
  /** Services and nodes that have changed since. */
  readonly #changed = new Set<string>();

  reloaded(generation: number, keys: readonly string[], atMs: number): void {
    this.#reload = { generation, keys: keys.slice(0, maxKeys), atMs };
    this.#changed.clear();
  }

  /** An object like `Service default/web`. */
  changed(reason: string): void {
    if (this.#reload !== undefined) this.#changed.add(reason);
  }

  /** `causes` are the Services and nodes behind the write. */
  of(generation: number, causes: readonly string[], atMs: number): readonly string[] {
    if (this.#reload !== undefined && atMs - this.#reload.atMs > limitMs) {
      this.#reload = undefined;
      this.#changed.clear();
    }
    if (this.#reload?.generation !== generation || causes.some((cause) => this.#changed.has(cause))) return [];
    return this.#reload.keys.map((key) => `config key ${key}`);
  }
}

/** About the writes of a day of a cluster at rest, or of a minute in which hundreds of nodes join. */
const capacity = 1_000;
/** Length limit of their JSON. */
const maxCharacters = 2 * 1024 * 1024;
/** Fields in which causes are looked for: a write does not wait for its record. */
const maxExaminedFields = 1_000;

export interface WriteLogOptions {
  readonly clock: Pick<Clock, "now">;
  /** An object as a watch last showed it. */
  readonly find?: (kind: KindRef, name: ObjectName) => KubeObject | undefined;
  /** Receives each record as one line of JSON. It neither waits nor throws. */
  readonly audit?: (line: string) => void;
}

/** The latest writes of this process, oldest first. It outlives reloads. */
export class WriteLog {
  readonly #options: WriteLogOptions;
  readonly #reasons = new Reasons();
  readonly #configCauses = new ConfigCauses();
  readonly #records = new Fifo<{ readonly record: WriteRecord; readonly characters: number }>();
  #characters = 0;
  #count = 0;

  constructor(options: WriteLogOptions) {
    this.#options = options;
  }

  get records(): readonly WriteRecord[] {
    return [...this.#records].map(({ record }) => record);
  }

  /** Number of writes recorded since the start, including those no longer kept. */
  get count(): number {
    return this.#count;
  }

  /** Handlers of watches by which records name their causes. */
  readonly services = {
    added: (service: Service) => {
      this.#reasons.addService(service);
      this.#configCauses.changed(`Service ${keyOf(service)}`);
    },
    updated: (before: Service, service: Service) => {
      this.#reasons.addService(service);
      if (!Bun.deepEquals(relevantService(before), relevantService(service)))
        this.#configCauses.changed(`Service ${keyOf(service)}`);
    },
    deleted: (service: Service) => {
      this.#reasons.deleted(`Service ${keyOf(service)}`);
      this.#configCauses.changed(`Service ${keyOf(service)}`);
    },
  };
  readonly nodes = {
    added: (node: Node) => {
      this.#reasons.addNode(node);
      this.#configCauses.changed(`Node ${keyOf(node)}`);
    },
    /** Most updates report a node's status. The parts that identify it in a write are among the relevant ones. */
    updated: (before: Node, node: Node) => {
      if (!Bun.deepEquals(relevantNode(before), relevantNode(node))) this.nodes.added(node);
    },
    deleted: (node: Node) => {
      this.#reasons.deleted(`Node ${keyOf(node)}`);
      this.#configCauses.changed(`Node ${keyOf(node)}`);
    },
  };

  /** A reload has changed these keys of the cloud config; the generation runs with them. */
  configChanged(generation: number, keys: readonly string[]): void {
    this.#configCauses.reloaded(generation, keys, this.#options.clock.now());
  }

  add(source: WriteSource, { change, ...write }: CloudWrite): void {
    const fields = change === undefined ? [] : fieldChanges(change.before, change.after);
    const isDeletion = change !== undefined && change.after === undefined;
    this.#record(source, write, fields, isDeletion ? fieldChanges(undefined, change.before) : fields);
  }

  /** Wraps a controller's client so that its writes are recorded. */
  of(client: KubeClient, controller: string, generation: number): KubeClient {
    const source = { controller, generation, system: "kubernetes" } as const;
    return recordedClient(client, {
      find: (kind, name) => this.#options.find?.(kind, name),
      record: (write, fields) => this.#record(source, write, fields, fields),
    });
  }

  #record(
    source: WriteSource,
    write: Omit<CloudWrite, "change">,
    fields: readonly FieldChange[],
    about: readonly FieldChange[],
  ): void {
    const now = this.#options.clock.now();
    const objects = this.#reasons.of(write.resource, about.slice(0, maxExaminedFields));
    // A drift is another writer's.
    const isOwn = write.operation !== "drift";
    const causes = isOwn ? [...this.#configCauses.of(source.generation, objects, now), ...objects] : objects;
    const record = recordOf(now, source, write, { causes, fields });
    const line = JSON.stringify(record);
    this.#records.push({ record, characters: line.length });
    this.#characters += line.length;
    this.#count += 1;
    while (this.#records.size > capacity || this.#characters > maxCharacters)
      this.#characters -= this.#records.shift()?.characters ?? 0;
    this.#options.audit?.(line);
  }
}

import { forEachConcurrently } from "cloud-controller-host/sdk";

import type { SharedRead } from "./shared-read.ts";

/** A list of machines as it was read. */
export interface MachineTable<Row> {
  readonly byKey: ReadonlyMap<string, Row>;
  /** Lower-case computer name to row. */
  readonly byName: ReadonlyMap<string, Row>;
  /** How many pages the list took. One page is one moment; more than one may miss what moved between them. */
  readonly pages: number;
}

interface Question<Row> {
  readonly answer: PromiseWithResolvers<Row | undefined>;
}

const workers = 8;

/**
 * Sure answers about single machines. Questions asked together are answered by one fresh list, or by a read of each
 * where that costs fewer requests. Absence from a list of several pages is no proof and is confirmed by a read of the
 * machine itself.
 */
export class Confirmations<Row> {
  readonly #list: SharedRead<MachineTable<Row>>;
  readonly #get: (key: string) => Promise<Row | undefined>;
  #asked = new Map<string, Question<Row>>();

  /** `get` reads one machine; it answers undefined only when the cloud is sure that there is none. */
  constructor(list: SharedRead<MachineTable<Row>>, get: (key: string) => Promise<Row | undefined>) {
    this.#list = list;
    this.#get = get;
  }

  /** The machine as the cloud has it now, by a read that begins after this call; undefined when it is gone for sure. */
  ask(key: string): Promise<Row | undefined> {
    if (this.#asked.size === 0) setImmediate(() => void this.#answer());
    const question = this.#asked.get(key) ?? { answer: Promise.withResolvers<Row | undefined>() };
    this.#asked.set(key, question);
    return question.answer.promise;
  }

  async #answer(): Promise<void> {
    const asked = this.#asked;
    this.#asked = new Map();
    try {
      const pages = this.#list.last?.pages ?? 1;
      const table = asked.size < pages ? undefined : await this.#list.get("fresh");
      await forEachConcurrently({ workers }, [...asked], async ([key, { answer }]) => {
        const row = table?.byKey.get(key);
        if (row !== undefined || table?.pages === 1) answer.resolve(row);
        else await this.#get(key).then(answer.resolve, answer.reject);
      });
    } catch (error) {
      for (const { answer } of asked.values()) answer.reject(error);
    }
  }
}

import { mkdir, readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

export type Collection = "instances" | "load-balancers" | "routes";

/** The API of the folder cloud: one JSON file per resource, `<directory>/<collection>/<name>.json`. */
export class FolderBackend {
  /** Added to every call, in milliseconds. */
  delayMs = 0;
  /** Number of files written and removed. */
  writes = 0;
  readonly #directory: string;

  constructor(directory: string) {
    this.#directory = directory;
  }

  async list<T>(collection: Collection, signal?: AbortSignal): Promise<ReadonlyMap<string, T>> {
    await this.#delay(signal);
    const names = await readdir(join(this.#directory, collection)).catch(emptyWhenMissing);
    const found = new Map<string, T>();
    for (const file of names.filter((name) => name.endsWith(".json")).toSorted()) {
      const text = await readFile(join(this.#directory, collection, file), "utf8").catch(undefinedWhenMissing);
      if (text !== undefined) found.set(decodeURIComponent(file.slice(0, -".json".length)), JSON.parse(text));
    }
    return found;
  }

  async get<T>(collection: Collection, name: string, signal?: AbortSignal): Promise<T | undefined> {
    await this.#delay(signal);
    const text = await readFile(this.#path(collection, name), "utf8").catch(undefinedWhenMissing);
    return text === undefined ? undefined : JSON.parse(text);
  }

  /** Writes a file of its own and renames it: a reader sees the old content or the new, never a part. */
  async put(collection: Collection, name: string, resource: object, signal?: AbortSignal): Promise<void> {
    await this.#delay(signal);
    const path = this.#path(collection, name);
    await mkdir(join(this.#directory, collection), { recursive: true });
    await writeFile(`${path}.new`, `${JSON.stringify(resource, undefined, 2)}\n`);
    await rename(`${path}.new`, path);
    this.writes++;
  }

  async delete(collection: Collection, name: string, signal?: AbortSignal): Promise<void> {
    if ((await this.get(collection, name, signal)) === undefined) return;
    await rm(this.#path(collection, name), { force: true });
    this.writes++;
  }

  #path(collection: Collection, name: string): string {
    return join(this.#directory, collection, `${encodeURIComponent(name)}.json`);
  }

  async #delay(signal: AbortSignal | undefined): Promise<void> {
    signal?.throwIfAborted();
    if (this.delayMs > 0) await sleep(this.delayMs, undefined, signal === undefined ? {} : { signal });
  }
}

const isMissing = (error: unknown): boolean => error instanceof Error && "code" in error && error.code === "ENOENT";

/** Only a missing file means "not found"; any other error must not look like a deleted instance. */
function undefinedWhenMissing(error: unknown): undefined {
  if (!isMissing(error)) throw error;
}

function emptyWhenMissing(error: unknown): readonly string[] {
  if (!isMissing(error)) throw error;
  return [];
}

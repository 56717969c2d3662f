/** For so long after a reload, its changed keys are looked for behind writes. */
const limitMs = 10 * 60_000;
const maxKeys = 10;

/**
 * Keys of the cloud config as causes of writes. A write of the generation that a reload has begun is for the keys that it
 * changed, as long as no Service or node behind the write has changed since.
 */
export class ConfigCauses {
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

import type { AzureSimulator } from "../../../plugins/azure-cloud/simulator/simulator.ts";

/** Operations that take most of an hour. */
export class LongOperations {
  readonly #azure: Pick<AzureSimulator, "operations" | "prolongOperations">;
  readonly #now: () => number;
  /** When those on a resource whose path has a text end, in virtual time. */
  readonly #ends = new Map<string, number>();

  constructor(azure: Pick<AzureSimulator, "operations" | "prolongOperations">, now: () => number) {
    this.#azure = azure;
    this.#now = now;
  }

  /** Operations on a resource that begin from now on last until then. */
  prolong(path: string, until: number): void {
    this.#ends.set(path.toLowerCase(), until);
    this.#azure.prolongOperations((id) => this.#lasts(id));
  }

  #lasts(id: string): boolean {
    for (const [path, end] of this.#ends) if (id.includes(path) && this.#now() < end) return true;
    return false;
  }

  /** Lower-case parts of the paths of resources whose operations last now. */
  get paths(): readonly string[] {
    return [...this.#ends].flatMap(([path, end]) => (this.#now() < end ? [path] : []));
  }

  /** The same, and lower-case ids of resources with any operation in progress. */
  get underway(): readonly string[] {
    return [...this.paths, ...this.#azure.operations()];
  }

  /** When the last of them ends. */
  get lastEnd(): number {
    return Math.max(0, ...this.#ends.values());
  }
}

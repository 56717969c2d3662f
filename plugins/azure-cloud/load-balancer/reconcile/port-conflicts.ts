import { CodedError, isRefusal, keyOf, type Service } from "cloud-controller-host/sdk";

import type { ServiceKey } from "../model/model.ts";
import type { Reconciled } from "./wanted.ts";

/** Services that are planned together at most: each Service that is refused costs as many. */
const maxTogether = 16;

/**
 * Services that were refused for a port which another Service has on the address that they ask for. Two of them that
 * exchange their addresses are each refused for as long as the other one is not planned with it.
 */
export class PortConflicts {
  readonly #refused = new Map<ServiceKey, Service>();

  /** To be called when a Service is deleted, or has left. */
  forget(service: Service): void {
    this.#refused.delete(keyOf(service));
  }

  /** Submits a Service, and once more together with the others where it is refused: `together` submits those as well. */
  async submit(
    service: Service,
    submit: () => Promise<Reconciled>,
    together: (others: readonly Service[]) => void,
  ): Promise<Reconciled> {
    const key = keyOf(service);
    try {
      const result = await submit();
      this.#refused.delete(key);
      return result;
    } catch (error) {
      this.#refused.delete(key);
      if (!isPortConflict(error)) throw error;
      // The latest: those before may be refused for as long as they exist.
      const others = [...this.#refused.values()].slice(-maxTogether);
      this.#refused.set(key, service);
      if (others.length === 0) throw error;
      together(others);
    }
    const result = await submit();
    this.#refused.delete(key);
    return result;
  }
}

const isPortConflict = (error: unknown): boolean =>
  error instanceof CodedError && isRefusal(error) && error.code === "PortConflict";

import type { Collection } from "../store/collection.ts";

/** The cluster IPs and node ports that Services hold. */
export class ServiceAddresses {
  readonly services: Collection;
  constructor(services: Collection) {
    this.services = services;
  }
}

import type { Clock, Fence, KubeClient, Logger } from "cloud-controller-host/sdk";

import { Clients, type ClientsOptions } from "./clients.ts";
import type { ApiServer } from "./credentials.ts";
import { serviceAccountApi } from "./service-account.ts";
import type { Transport } from "./transport.ts";

/** Namespace of the controllers' service accounts. */
export const serviceAccountNamespace = "kube-system";

export interface ServiceAccountClientsOptions {
  readonly root: ApiServer;
  /** Requests tokens with the credentials of this process. */
  readonly transport: Transport;
  readonly clients: ClientsOptions;
  readonly clock: Clock;
  readonly log: Logger;
}

/** Clients that each authenticate as the service account of their name. They outlive every reload. */
export class ServiceAccountClients {
  readonly #options: ServiceAccountClientsOptions;
  readonly #accounts = new Map<string, Clients>();

  constructor(options: ServiceAccountClientsOptions) {
    this.#options = options;
  }

  /** The client that authenticates as the service account of that name. */
  client(name: string, fence?: Fence): KubeClient {
    return this.#account(name).client(`system:serviceaccount:${serviceAccountNamespace}:${name}`, fence);
  }

  close(): void {
    for (const clients of this.#accounts.values()) clients.close();
    this.#accounts.clear();
  }

  #account(name: string): Clients {
    const known = this.#accounts.get(name);
    if (known !== undefined) return known;
    const { root, clients, ...shared } = this.#options;
    const api = serviceAccountApi(root, { ...shared, namespace: serviceAccountNamespace, name });
    const made = new Clients(api, clients);
    this.#accounts.set(name, made);
    return made;
  }
}

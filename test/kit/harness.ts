import { kinds, type KubeClient, type KubeEvent } from "cloud-controller-host/sdk";

import type { Options } from "../../host/config/options.ts";
import { createClient } from "../../host/kube/connection/client.ts";
import { type ApiServerOptions, SandboxApiServer } from "../../host/sandbox/index.ts";
import { clientNames, ControllerRunner } from "./runner.ts";

export type { RunOptions } from "./runner.ts";

/**
 * A cluster in this process for the tests of controllers: the sandbox's API server, and on it everything that the host
 * lends to a controller: transport, client, fence, informer pool, work queues, events, metrics, log. Only the cloud is
 * not real. Take a new one for each test; it starts in milliseconds and ends with all that ran in it.
 */
export class TestCluster extends ControllerRunner {
  /** Its `requests` hold those of the informers too. */
  readonly api: SandboxApiServer;
  /** The test's own client; what it does is in no list of what the controllers did. */
  readonly admin: KubeClient;

  static async start(options: ApiServerOptions & { readonly flags?: Partial<Options> } = {}): Promise<TestCluster> {
    return new TestCluster(await SandboxApiServer.start(options), options.flags);
  }

  private constructor(api: SandboxApiServer, flags: Partial<Options> | undefined) {
    super((clientName) => {
      const headers = { Authorization: `Bearer ${api.tokens.of(clientName)}` };
      const credentials = { tls: { ca: api.ca }, headers };
      return { url: api.url, proxy: undefined, credentials: async () => credentials };
    }, flags);
    this.api = api;
    this.admin = createClient(this.transport(clientNames.test));
  }

  /** Events that have reached the API server, oldest first. */
  events(reason?: string): readonly KubeEvent[] {
    return this.api.list(kinds.Event).filter((event) => reason === undefined || event.reason === reason);
  }

  /** The first event of that reason, for `eventually`. */
  event(reason: string): KubeEvent | undefined {
    return this.events(reason)[0];
  }

  override async [Symbol.asyncDispose](): Promise<void> {
    try {
      await super[Symbol.asyncDispose]();
    } finally {
      await this.api.close();
    }
  }
}

import { CodedError, type KindRef, kinds, type KubeClient, type KubeEvent } from "cloud-controller-host/sdk";
import { type ApiServerOptions, SandboxApiServer } from "cloud-controller-host/sdk/testing/api-server";

import type { Options } from "../../config/flags/options.ts";
import { createClient } from "../../kube/connection/client.ts";
import type { TestGeneration } from "./generation.ts";
import { clientNames, ControllerRunner } from "./runner.ts";

/**
 * An in-process cluster for tests of controllers: the sandbox's API server with the host's own transport, client, fence,
 * informers, work queues, events, metrics and log. The test provides the cloud. It starts in milliseconds: use one per
 * test. Its disposal stops everything that runs in it.
 */
export class TestCluster extends ControllerRunner {
  /** Its `requests` include those of the informers. */
  readonly api: SandboxApiServer;
  /** The test's own client. Its requests are not in `sent` and `writes`. */
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

  /** Events on the API server, oldest first. */
  events(reason?: string): readonly KubeEvent[] {
    return this.api.list(kinds.Event).filter((event) => reason === undefined || event.reason === reason);
  }

  /** The first event with that reason, for `eventually`. */
  event(reason: string): KubeEvent | undefined {
    return this.events(reason)[0];
  }

  /** Serves the kinds that the plugin declares. */
  override generation(...[plugin, options]: Parameters<ControllerRunner["generation"]>): TestGeneration {
    this.api.serve(plugin.kinds ?? []);
    return super.generation(plugin, options);
  }

  protected override assertServed(kind: KindRef): void {
    if (this.api.serves(kind)) return;
    const { plural, group } = kind;
    throw new CodedError(
      "KindNotServed",
      `${group === "" ? plural : `${plural}.${group}`} is not served: declare it in the plugin's \`kinds\`, or pass it ` +
        "as `controllerHarness({ kinds })` or `TestCluster.start({ kinds })`",
    );
  }

  override async [Symbol.asyncDispose](): Promise<void> {
    try {
      await super[Symbol.asyncDispose]();
    } finally {
      await this.api.close();
    }
  }
}

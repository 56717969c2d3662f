import { afterEach } from "bun:test";

import { controllerNames } from "cloud-controller-host/sdk";

import { simulateAzure, type SimulatedAzure } from "./azure.ts";
import { HostProcess, type HostProcessOptions } from "./host-process.ts";
import { rolesOf } from "./host-roles.ts";
import type { Platform } from "./platform.ts";

/** Short leases: a take-over after a crash is seen within seconds. */
export const shortLease: readonly string[] = [
  "--leader-elect-lease-duration=6s",
  "--leader-elect-renew-deadline=5s",
  "--leader-elect-retry-period=500ms",
];

/** Leases that a busy machine renews in time, and that a test can outlast. */
export const steadyRenewDeadlineMs = 5_000;
export const steadyLease: readonly string[] = [
  "--leader-elect-lease-duration=7s",
  `--leader-elect-renew-deadline=${steadyRenewDeadlineMs}ms`,
  "--leader-elect-retry-period=1s",
];

/** The fixture of a test that runs hosts. Everything that it starts ends with the test. */
export class HostLab {
  readonly #platform: () => Platform;
  #stack = new AsyncDisposableStack();
  #azure: Promise<SimulatedAzure> | undefined;

  constructor(platform: () => Platform) {
    this.#platform = platform;
    afterEach(() => this.#end());
  }

  /** The simulated Azure of this test. */
  azure(): Promise<SimulatedAzure> {
    this.#azure ??= simulateAzure().then((azure) => this.#stack.use(azure));
    return this.#azure;
  }

  /** Starts a host with the roles that its plugins declare. By default it runs the cloud-node controller alone. */
  async start({ flags = [], ...options }: Partial<HostProcessOptions> = {}): Promise<HostProcess> {
    const { config } = await this.azure();
    const kubeconfig = await this.#platform().kubeconfig(await rolesOf([controllerNames.cloudNode]));
    return this.run({
      ...options,
      flags: [
        `--kubeconfig=${kubeconfig}`,
        `--cloud-config=${config}`,
        "--enable-dynamic-reloading",
        `--controllers=${controllerNames.cloudNode}`,
        ...flags,
      ],
    });
  }

  /** Starts a host with these flags and no others. */
  run(options: HostProcessOptions): HostProcess {
    return this.#stack.use(new HostProcess(options));
  }

  /** Disposes of a resource at the end of the test. */
  use<T extends AsyncDisposable>(resource: T): T {
    return this.#stack.use(resource);
  }

  async #end(): Promise<void> {
    const stack = this.#stack;
    this.#stack = new AsyncDisposableStack();
    this.#azure = undefined;
    await stack.disposeAsync();
  }
}

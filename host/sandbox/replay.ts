import { writeFile } from "node:fs/promises";
import { join } from "node:path";

import { type CloudPlugin, CodedError } from "cloud-controller-host/sdk";
import { SandboxApiServer } from "cloud-controller-host/sdk/testing/api-server";

import type { Bundle } from "../bundle/bundle.ts";
import { flagsOfBundle, loadObjects, simulate } from "./contents.ts";
import { temporaryDirectory } from "./directory.ts";

/** The cluster and the cloud of a bundle, in this process. */
export interface Replay extends AsyncDisposable {
  /** Point a host at it, with the flags under which the bundle was written. */
  readonly flags: readonly string[];
  /** Starts it with the plugin of the bundle's cloud. The files that `flags` name exist from then on. */
  start(cloud: CloudPlugin | undefined): Promise<void>;
}

export async function openReplay(bundle: Bundle): Promise<Replay> {
  await using opening = new AsyncDisposableStack();
  const directory = opening.use(await temporaryDirectory()).path;
  const [kubeconfig, cloudConfig] = [join(directory, "kubeconfig"), join(directory, "cloud-config")];
  const running = opening.move();
  return {
    flags: [...flagsOfBundle(bundle), `--kubeconfig=${kubeconfig}`, `--cloud-config=${cloudConfig}`],
    async start(cloud) {
      const simulator = await simulate(cloud, join(directory, "cloud"), bundle);
      if (simulator === undefined)
        throw new CodedError(
          "NotSimulated",
          `the cloud "${bundle.cloudProvider}" has no simulator to open the bundle with`,
        );
      running.use(simulator);
      await writeFile(cloudConfig, simulator.cloudConfig, { mode: 0o600 });
      const api = running.use(await SandboxApiServer.start());
      loadObjects(api, bundle);
      await writeFile(kubeconfig, api.kubeconfig("admin"), { mode: 0o600 });
    },
    [Symbol.asyncDispose]: () => running.disposeAsync(),
  };
}

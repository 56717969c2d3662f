import { eventually } from "cloud-controller-host/sdk/testing";

import type { LoadedPlugins } from "../../../host/generation/plugins/load.ts";
import type { Supervisor } from "../../../host/generation/supervisor.ts";

/** Begins with these plugins, and leads and reloads until the result is disposed of. The first generation runs then. */
export async function leading(supervisor: Supervisor, plugins: LoadedPlugins): Promise<AsyncDisposable> {
  const stop = new AbortController();
  await supervisor.begin(plugins, stop.signal);
  const ended = [supervisor.lead(stop.signal), supervisor.serveReloads(stop.signal)];
  await eventually("the first generation runs", () => supervisor.status.running);
  return {
    async [Symbol.asyncDispose]() {
      stop.abort();
      await Promise.all(ended);
    },
  };
}

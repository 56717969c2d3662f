import type { Informers } from "cloud-controller-host/sdk";

import { loadApiServer } from "../../host/kube/api-server.ts";
import { InformerPool } from "../../host/kube/informer-pool.ts";
import { createTransport } from "../../host/kube/transport.ts";
import { systemClock } from "../../host/process/clock.ts";
import { createLogger } from "../../host/process/log.ts";

/** Informers of a test's own, apart from those of any host. */
export interface Watcher extends AsyncDisposable {
  readonly informers: Informers;
  synced(): Promise<void>;
}

export function openWatcher(kubeconfig: string): Watcher {
  const transport = createTransport(loadApiServer({ kubeconfig }), { userAgent: "watcher", qps: -1 });
  const log = createLogger({ format: "json", verbosity: 0, write: () => undefined });
  const pool = new InformerPool({ transport, clock: systemClock, log });
  const share = pool.share();
  return {
    informers: share,
    synced: () => share.synced(),
    async [Symbol.asyncDispose]() {
      share.release();
      await pool.close();
      transport.close();
    },
  };
}

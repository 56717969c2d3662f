import type { Informers } from "cloud-controller-host/sdk";

import { systemClock } from "../../host/async/clock.ts";
import { loadApiServer } from "../../host/kube/connection/api-server.ts";
import { createTransport } from "../../host/kube/connection/transport.ts";
import { InformerPool } from "../../host/kube/informers/pool.ts";
import { createLogger } from "../../host/process/log/log.ts";

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

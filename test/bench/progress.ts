import { writeFile } from "node:fs/promises";
import { join } from "node:path";

import { keyOf, type KindRef, type KubeObject } from "cloud-controller-host/sdk";

import { systemClock } from "../../host/async/clock.ts";
import { loadApiServer } from "../../host/kube/connection/api-server.ts";
import { createTransport } from "../../host/kube/connection/transport.ts";
import { InformerPool } from "../../host/kube/informers/pool.ts";
import { createLogger } from "../../host/process/log/log.ts";
import type { Cluster } from "../envtest/cluster.ts";

export interface Progress extends AsyncDisposable {
  /** Resolves when that many objects are done, or have been. */
  reached(count: number): Promise<void>;
}

/** Watches as an administrator, apart from the host, until objects are as they should be. */
export async function watchProgress<T extends KubeObject>(
  cluster: Cluster,
  folder: string,
  kind: KindRef<T>,
  isDone: (object: T) => boolean,
): Promise<Progress> {
  const path = join(folder, `${Bun.randomUUIDv7()}.kubeconfig`);
  await writeFile(path, await Bun.file(await cluster.kubeconfig("watcher", ["system:masters"])).text());
  const transport = createTransport(loadApiServer({ kubeconfig: path }), { userAgent: "bench", qps: -1 });
  const log = createLogger({ format: "json", verbosity: 0, write: () => undefined });
  const pool = new InformerPool({ transport, clock: systemClock, log });
  const share = pool.share();
  const done = new Set<string>();
  let wake: () => void = () => undefined;
  const look = (object: T): void => {
    if (!isDone(object)) return;
    done.add(keyOf(object));
    wake();
  };
  share.of(kind).handle({ added: look, updated: (_, object) => look(object) });
  await share.synced();
  return {
    async reached(count) {
      while (done.size < count) await new Promise<void>((resolve) => (wake = resolve));
    },
    async [Symbol.asyncDispose]() {
      share.release();
      await pool.close();
      transport.close();
    },
  };
}

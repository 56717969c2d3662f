import { writeFile } from "node:fs/promises";
import { join } from "node:path";

import { CodedError, keyOf, type KindRef, type KubeObject } from "cloud-controller-host/sdk";

import { systemClock } from "../../host/async/clock.ts";
import { loadApiServer } from "../../host/kube/connection/api-server.ts";
import { createTransport } from "../../host/kube/connection/transport.ts";
import { InformerPool } from "../../host/kube/informers/pool.ts";
import { createLogger } from "../../host/process/log/log.ts";
import type { Cluster } from "../envtest/cluster.ts";
import { phaseMs } from "./world.ts";

export interface Progress extends AsyncDisposable {
  /** Resolves when that many objects are done, or have been; rejects with those that are missing after too long. */
  reached(count: number, limitMs?: number): Promise<void>;
}

/** Missing objects that an error names. */
const maxNamed = 3;

/** Watches as an administrator, apart from the host, until objects are as they should be; `stateOf` tells why not. */
export async function watchProgress<T extends KubeObject>(
  cluster: Pick<Cluster, "kubeconfig">,
  folder: string,
  kind: KindRef<T>,
  isDone: (object: T) => boolean,
  stateOf: (object: T) => string = () => "",
): Promise<Progress> {
  const path = join(folder, `${Bun.randomUUIDv7()}.kubeconfig`);
  await writeFile(path, await Bun.file(await cluster.kubeconfig("watcher", ["system:masters"])).text());
  const transport = createTransport(loadApiServer({ kubeconfig: path }), { userAgent: "bench", qps: -1 });
  const log = createLogger({ format: "json", verbosity: 0, write: () => undefined });
  const pool = new InformerPool({ transport, clock: systemClock, log });
  const share = pool.share();
  const done = new Set<string>();
  const waiting = new Map<string, T>();
  let wake: () => void = () => undefined;
  const look = (object: T): void => {
    const key = keyOf(object);
    if (!isDone(object)) return void (done.has(key) || waiting.set(key, object));
    done.add(key);
    waiting.delete(key);
    wake();
  };
  const missing = (count: number): string => {
    const named = [...waiting].slice(0, maxNamed).map(([key, object]) => `${key} ${stateOf(object)}`.trim());
    return `${done.size} of ${count} ${kind.plural} are done in time; missing: ${named.join("; ")}`;
  };
  share.of(kind).handle({ added: look, updated: (_, object) => look(object) });
  await share.synced();
  return {
    async reached(count, limitMs = phaseMs) {
      const deadline = performance.now() + limitMs;
      while (done.size < count) {
        if (performance.now() > deadline) throw new CodedError("NotReached", missing(count));
        await Promise.race([new Promise<void>((resolve) => (wake = resolve)), Bun.sleep(1_000)]);
      }
    },
    async [Symbol.asyncDispose]() {
      share.release();
      await pool.close();
      transport.close();
    },
  };
}

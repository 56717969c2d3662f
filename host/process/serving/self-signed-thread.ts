/** The thread that creates a serving certificate. Its answer is the pair. */
import { parentPort, workerData } from "node:worker_threads";

import { selfSigned, type SelfSignedRequest } from "./self-signed.ts";

async function answer({ bindAddress, nowMs, keyType }: SelfSignedRequest): Promise<void> {
  parentPort?.postMessage(await selfSigned(bindAddress, nowMs, keyType), []);
}

if (parentPort !== null) await answer(workerData);

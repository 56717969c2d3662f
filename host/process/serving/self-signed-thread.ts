/** The thread that creates a serving certificate. Its answer is the pair. */
import { parentPort, workerData } from "node:worker_threads";

import { selfSigned, type SelfSignedRequest } from "./self-signed.ts";

const { bindAddress, nowMs, keyType }: SelfSignedRequest = workerData;
parentPort?.postMessage(await selfSigned(bindAddress, nowMs, keyType), []);

import { messageOf } from "cloud-controller-host/sdk";

import { findAssets } from "../envtest/assets.ts";
import { startControlPlane } from "../envtest/control-plane.ts";
import { absentVariable, passOn } from "../envtest/handover.ts";

/** Environment variables for the process that runs the tests. */
export interface Prepared extends AsyncDisposable {
  readonly environment: Readonly<Record<string, string>>;
}

/** Starts a control plane for each worker that runs test files, or returns the reason why it cannot. */
export async function prepare(workers: number): Promise<Prepared> {
  await using planes = new AsyncDisposableStack();
  try {
    const assets = await findAssets(process.env);
    if (!assets.found) return absent(assets.reason);
    const starting = Array.from({ length: workers }, async () => planes.use(await startControlPlane(assets.directory)));
    // Waits for all of them: one that starts after another has failed must be stopped, too.
    await Promise.allSettled(starting);
    const started = await Promise.all(starting);
    const kept = planes.move();
    return {
      environment: passOn(started.map(({ handoverFile }) => handoverFile)),
      [Symbol.asyncDispose]: () => kept.disposeAsync(),
    };
  } catch (error) {
    return absent(messageOf(error));
  }
}

const absent = (reason: string): Prepared => ({
  environment: { [absentVariable]: reason },
  [Symbol.asyncDispose]: () => Promise.resolve(),
});

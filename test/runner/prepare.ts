import { join } from "node:path";

import { messageOf } from "cloud-controller-host/sdk";

import { assembleImage } from "../deploy/image.ts";
import { findAssets } from "../envtest/assets.ts";
import { startControlPlane } from "../envtest/control-plane.ts";
import { absentVariable, passOn } from "../envtest/handover.ts";
import { hostMainVariable } from "../kit/host-main.ts";

/** Environment variables for the process that runs the tests. */
export interface Prepared extends AsyncDisposable {
  readonly environment: Readonly<Record<string, string>>;
}

/** For each of several processes that run tests side by side. */
interface PreparedApart extends AsyncDisposable {
  readonly environments: readonly Prepared["environment"][];
}

/**
 * Starts a control plane for each worker that runs test files, or returns the reason why it cannot. `workers`: of each
 * process that runs tests.
 */
export async function prepareControlPlanes(workers: readonly number[]): Promise<PreparedApart> {
  await using planes = new AsyncDisposableStack();
  try {
    const assets = await findAssets(process.env);
    if (!assets.found) return absent(workers, assets.reason);
    const all = workers.reduce((sum, one) => sum + one, 0);
    const starting = Array.from({ length: all }, async () => planes.use(await startControlPlane(assets.directory)));
    // Waits for all of them: one that starts after another has failed must be stopped, too.
    await Promise.allSettled(starting);
    const started = await Promise.all(starting);
    const files = started.map(({ handoverFile }) => handoverFile);
    const kept = planes.move();
    return {
      environments: workers.map((count) => passOn(files.splice(0, count))),
      [Symbol.asyncDispose]: () => kept.disposeAsync(),
    };
  } catch (error) {
    return absent(workers, messageOf(error));
  }
}

const absent = (workers: readonly number[], reason: string): PreparedApart => ({
  environments: workers.map(() => ({ [absentVariable]: reason })),
  [Symbol.asyncDispose]: () => Promise.resolve(),
});

const fromSource: Prepared = { environment: {}, [Symbol.asyncDispose]: () => Promise.resolve() };

/**
 * Bundles the host as the image has it, for all hosts that test files start: a start takes two thirds of the processor time
 * that it takes from source. Where the image cannot be assembled, hosts run from source.
 */
export async function prepareHost(): Promise<Prepared> {
  if (process.env[hostMainVariable] !== undefined) return fromSource;
  try {
    const image = await assembleImage();
    return {
      environment: { [hostMainVariable]: join(image.root, "app/host/main.ts") },
      [Symbol.asyncDispose]: () => image[Symbol.asyncDispose](),
    };
  } catch (error) {
    process.stderr.write(`Hosts of tests run from source: ${messageOf(error)}\n`);
    return fromSource;
  }
}

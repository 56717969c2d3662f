import { messageOf } from "cloud-controller-host/sdk";

import { findAssets } from "../envtest/assets.ts";
import { startControlPlane } from "../envtest/control-plane.ts";
import { absentVariable, handoverVariable } from "../envtest/handover.ts";

/** What the tests need around them, as variables for their process. */
export interface Prepared extends AsyncDisposable {
  readonly environment: Readonly<Record<string, string>>;
}

/** Starts one control plane for all test files, or finds out why there can be none. */
export async function prepare(): Promise<Prepared> {
  try {
    const assets = await findAssets(process.env);
    if (!assets.found) return absent(assets.reason);
    const plane = await startControlPlane(assets.directory);
    return {
      environment: { [handoverVariable]: plane.handoverFile },
      [Symbol.asyncDispose]: () => plane[Symbol.asyncDispose](),
    };
  } catch (error) {
    return absent(messageOf(error));
  }
}

const absent = (reason: string): Prepared => ({
  environment: { [absentVariable]: reason },
  [Symbol.asyncDispose]: () => Promise.resolve(),
});

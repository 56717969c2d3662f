import { plugin } from "bun";
import * as sdk from "cloud-controller-host/sdk";

let registered = false;

/**
 * Lets a plugin anywhere on the disk import the SDK by its name, without a `node_modules` of its own, and get the
 * very module that the host uses: an `instanceof ApiError` holds across the wall, and across every reload.
 */
export function provideSdk(): void {
  if (registered) return;
  registered = true;
  plugin({
    name: "cloud-controller-host/sdk",
    setup(build) {
      build.module("cloud-controller-host/sdk", () => ({ exports: { ...sdk }, loader: "object" }));
    },
  });
}

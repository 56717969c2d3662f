import { describe, expect, test } from "bun:test";

import type { KubeClient, KubeObject } from "cloud-controller-host/sdk";

import { leaseConfirmations } from "../../../host/run/process-scope.ts";
import { errorOf } from "../../kit/rejection.ts";

const lease = {
  apiVersion: "coordination.k8s.io/v1",
  kind: "Lease",
  metadata: { name: "ccm", namespace: "kube-system" },
};

describe("confirmations of removals", () => {
  test("are not waited for longer than 10 s", async () => {
    const client: Pick<KubeClient, "get"> = {
      get: <T extends KubeObject>(_kind: unknown, _name: unknown, options?: { readonly signal?: AbortSignal }) => {
        const { promise, reject } = Promise.withResolvers<T>();
        options?.signal?.addEventListener("abort", () => reject(options.signal?.reason));
        return promise;
      },
    };
    const begun = performance.now();
    expect(await errorOf(leaseConfirmations(client, lease).isConfirmed("abc"))).toMatchObject({ name: "TimeoutError" });
    expect(performance.now() - begun).toBeLessThan(15_000);
  }, 120_000);
});

import { describe, expect, test } from "bun:test";

import { keyOf, type Service } from "cloud-controller-host/sdk";
import { eventually } from "cloud-controller-host/sdk/testing";

import { errorOf } from "../../../kit/rejection.ts";
import { azureState, expectConverged } from "./azure-state.ts";
import { type Cluster, fast, openCluster, serviceOf } from "./cluster.ts";

const waitMs = 60_000;
const internal = serviceOf("web", { annotations: { "azure-load-balancer-internal": "true" } });

interface Trouble {
  readonly service?: Service;
  /** Begins it; resolves with what shows that the process is in the middle of it, and what ends it. */
  readonly begin: (cluster: Cluster) => {
    readonly isMet: (attempts: number) => boolean;
    readonly end?: () => void;
  };
}

const held =
  (method: string, path: string | RegExp): Trouble["begin"] =>
  ({ world }) => {
    const hold = world.simulator.hold({ method, path });
    return { isMet: () => hold.waiting() > 0, end: () => hold.release() };
  };
const failing =
  (method: string, path: string | RegExp, failure: { readonly status: number; readonly code: string }) =>
  ({ world }: Cluster) => {
    world.simulator.failNext({ method, path }, { ...failure, times: 10_000 });
    return { isMet: (attempts: number) => attempts > 1, end: () => world.simulator.clearFailures() };
  };

const subnets = "/virtualNetworks/vnet0/subnets/";
const troubles: Readonly<Record<string, Trouble>> = {
  "the operation of a public IP is in flight": { begin: held("GET", "/operations/") },
  "a load balancer is being written": { begin: held("PUT", "/loadBalancers/") },
  "the security group is being written": { begin: held("PUT", "/networkSecurityGroups/") },
  "an instance is being written": { service: internal, begin: held("PUT", /virtualMachines\/1$/u) },
  "ARM rejects a Service": { begin: failing("PUT", "/loadBalancers/", { status: 400, code: "InvalidRequest" }) },
  "ARM reports conflicts without end": {
    begin: failing("PUT", "/loadBalancers/", { status: 409, code: "AnotherOperationInProgress" }),
  },
  "a subnet may not be read": {
    service: internal,
    begin: failing("GET", subnets, { status: 403, code: "AuthorizationFailed" }),
  },
  "an instance may not be read": {
    begin: failing("GET", /virtualMachines\/1$/u, { status: 403, code: "AuthorizationFailed" }),
  },
  "scale sets may not be read": {
    begin: failing("GET", /virtualMachineScaleSets$/u, { status: 403, code: "AuthorizationFailed" }),
  },
  "reads are a minute behind": {
    begin: ({ world }) => {
      world.simulator.setReadLag(600);
      return { isMet: (attempts) => attempts > 1, end: () => world.simulator.setReadLag(0) };
    },
  },
};

describe("a process that ends while", () => {
  for (const [what, { service: web = serviceOf("web"), begin }] of Object.entries(troubles))
    test(`a process that ends while ${what} leaves nothing behind once the next one has ensured, or deleted, its Services`, async () => {
      for (const isDeleted of [false, true]) {
        await using cluster = await openCluster(2);
        const first = await cluster.start({}, fast(100));
        await cluster.ensure(first, serviceOf("other"));
        const trouble = begin(cluster);
        const ended = new AbortController();
        let attempts = 0;
        const cut = (async () => {
          for (; !ended.signal.aborted; attempts += 1, await Bun.sleep(1)) await errorOf(cluster.ensure(first, web));
        })();
        await eventually(what, () => trouble.isMet(attempts), waitMs);
        ended.abort();
        first.crash();
        trouble.end?.();
        await cut;
        const next = await cluster.start({}, fast(100));
        const step = isDeleted ? () => cluster.remove(next, web) : () => cluster.ensure(next, web);
        await eventually("the next one succeeds", async () => (await errorOf(step())) === undefined, waitMs);
        await cluster.ensure(next, serviceOf("other"));
        expect(cluster.services.has(keyOf(web))).toBe(!isDeleted);
        expect(azureState(cluster.world.simulator).frontends).toHaveLength(isDeleted ? 1 : 2);
        expectConverged(cluster);
      }
    });
});

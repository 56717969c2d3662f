import { describe, expect, test } from "bun:test";

import { keyOf, type Service } from "cloud-controller-host/sdk";
import { eventually } from "cloud-controller-host/sdk/testing";

import { errorOf } from "../../../kit/rejection.ts";
import { azureState, expectConverged } from "./azure-state.ts";
import { type Cluster, fast, type Generation, openCluster, serviceOf } from "./cluster.ts";

/** A minute takes 0.6 s. */
const speed = 100;
const waitMs = 60_000;

const kinds: Readonly<Record<string, (name: string) => Service>> = {
  external: (name) => serviceOf(name),
  internal: (name) => serviceOf(name, { annotations: { "azure-load-balancer-internal": "true" } }),
};

/** Tries again like the service controller; resolves once it has succeeded. */
const retried = (what: string, work: () => Promise<void>): Promise<unknown> =>
  eventually(what, async () => (await errorOf(work())) === undefined, waitMs);

const frontends = ({ world }: Cluster): number => azureState(world.simulator).frontends.length;

describe.each([1, 10, 60])("reads that are %d s behind every write", (seconds) => {
  /** Another Service is there before reads lag. */
  async function lagging(kind: string) {
    const cluster = await openCluster(1);
    const make = kinds[kind] ?? serviceOf;
    const start = (): Promise<Generation> => cluster.start({ disableAPICallCache: true }, fast(speed));
    const generation = await start();
    await cluster.ensure(generation, make("other"));
    cluster.world.simulator.setReadLag((seconds * 1000) / speed);
    return { cluster, make, start, generation };
  }

  for (const kind of Object.keys(kinds)) {
    test(`an ${kind} Service is created, changed and deleted while reads are ${seconds} s behind, and nothing is left or lost`, async () => {
      const { cluster, make, generation } = await lagging(kind);
      await using _ = cluster;
      const web = make("web");
      await retried("it is created", () => cluster.ensure(generation, web));
      expect(frontends(cluster)).toBe(2);
      const ports = [{ name: "other", protocol: "TCP", port: 81, nodePort: 30_081 }];
      await retried("it is changed", () => cluster.ensure(generation, { ...web, spec: { ...web.spec, ports } }));
      await retried("it is deleted", () => cluster.remove(generation, web));
      expect(frontends(cluster)).toBe(1);
      cluster.world.simulator.setReadLag(0);
      expectConverged(cluster);
    });

    test(`an ${kind} Service that is deleted as soon as it is created while reads are ${seconds} s behind leaves nothing`, async () => {
      const { cluster, make, generation } = await lagging(kind);
      await using _ = cluster;
      const web = make("web");
      await errorOf(cluster.ensure(generation, web));
      await retried("it is deleted", () => cluster.remove(generation, web));
      expect(frontends(cluster)).toBe(1);
      cluster.world.simulator.setReadLag(0);
      expectConverged(cluster);
    });

    test(`an ${kind} Service whose process crashes before it has an address, and which is deleted while reads are ${seconds} s behind, leaves nothing`, async () => {
      const { cluster, make, start, generation } = await lagging(kind);
      await using _ = cluster;
      const { simulator } = cluster.world;
      const web = make("web");
      const hold = simulator.hold({ method: "PUT", path: "/virtualMachines/" });
      const end = new AbortController();
      const cut = (async () => {
        for (; !end.signal.aborted; await Bun.sleep(1)) await errorOf(cluster.ensure(generation, web));
      })();
      await eventually("its load balancer is written", () => frontends(cluster) === 2, waitMs);
      end.abort();
      generation.crash();
      hold.release();
      await cut;
      const next = await start();
      await retried("it is deleted", () => cluster.remove(next, web));
      expect(frontends(cluster)).toBe(1);
      simulator.setReadLag(0);
      await retried("the other one is as wanted", () => cluster.ensure(next, make("other")));
      expectConverged(cluster);
    });

    test(`the load balancer of an ${kind} Service that was just created is not deleted with the one before it while reads are ${seconds} s behind`, async () => {
      const { cluster, make, generation } = await lagging(kind);
      await using _ = cluster;
      const web = make("web");
      await retried("it is created", () => cluster.ensure(generation, web));
      cluster.world.simulator.clearLog();
      await retried("the other one is deleted", () => cluster.remove(generation, make("other")));
      expect(cluster.writes().filter((write) => write.startsWith("DELETE loadBalancers"))).toEqual([]);
      expect([frontends(cluster), cluster.services.has(keyOf(web))]).toEqual([1, true]);
    });
  }
});

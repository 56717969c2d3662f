import { expect, test } from "bun:test";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";

import { eventually } from "cloud-controller-host/sdk/testing";

import { startSimulator } from "../../../plugins/azure-cloud/simulator/simulator.ts";
import type { Cluster } from "../../envtest/cluster.ts";
import { describeOnRealApiServer } from "../../envtest/shared.ts";
import { serveCloud, type ServedCloud } from "../../kit/cloud-server.ts";
import { allControllers } from "../../kit/controllers-host.ts";
import { HostProcess } from "../../kit/host-process.ts";
import { hostUser, rolesOf } from "../../kit/host-roles.ts";
import { tapWire, type Wiretap } from "../../kit/wiretap.ts";
import { beginDay, script } from "./day.ts";
import { differences } from "./differences.ts";
import { inOrder, recordedDay, type RecordedWrite, type Write, writesOf } from "./writes.ts";

/** The writes of the recorded day as ours should be, and the differences that were applied. */
function expectedDay(): { readonly writes: readonly RecordedWrite[]; readonly used: ReadonlySet<string> } {
  const used = new Set<string>();
  const writes = recordedDay.flatMap((recorded) => {
    let write: RecordedWrite | undefined = recorded;
    for (const { what, concerns, ours } of differences) {
      if (write === undefined || !concerns(write)) continue;
      used.add(what);
      write = ours(write);
    }
    return write === undefined ? [] : [write];
  });
  return { writes, used };
}

const expected = expectedDay();

/** Renewals depend on the clock: only the first one is compared. */
function isNoLaterRenewal(write: Write, index: number, all: readonly Write[]): boolean {
  const isRenewal = ({ verb, uri }: Write): boolean => verb === "update" && uri.includes("/leases/");
  return !isRenewal(write) || all.findIndex(isRenewal) === index;
}

interface Host {
  readonly process: HostProcess;
  readonly tap: Wiretap;
}

/** A host of ours on the day's cloud: machines from the Azure simulator, addresses handed out in order. */
async function prepareDay(stack: AsyncDisposableStack, cluster: Cluster) {
  const cloud = stack.use(await serveCloud());
  const simulator = stack.use(await startSimulator({ directory: cloud.folder }));
  handOutAddresses(cloud);
  const routes = cloud.memory.hold("createRoute");
  await cluster.grant(hostUser, await rolesOf(allControllers));
  const tap = stack.use(await tapWire(cluster, hostUser, cloud.folder));
  const config = join(cloud.folder, "golden.json");
  // The recording used short-lived caches, too: a VM that was powered off was noticed within seconds.
  const azure: unknown = JSON.parse(simulator.configWith({ vmssVirtualMachinesCacheTTLInSeconds: 1 }));
  const remote: unknown = JSON.parse(await Bun.file(cloud.config).text());
  await writeFile(config, JSON.stringify({ azure, remote }));
  const started = Promise.withResolvers<Host>();
  return {
    simulator,
    tap,
    host: started.promise,
    routesAreMade: () => routes.release(),
    startHost: async () => {
      const process = stack.use(
        new HostProcess({
          flags: [
            `--kubeconfig=${tap.kubeconfig}`,
            "--cloud-provider=golden-cloud",
            `--cloud-config=${config}`,
            `--plugin-dir=${join(import.meta.dir, "fixtures")}`,
            `--controllers=${allControllers.join(",")}`,
            "--cluster-cidr=10.244.0.0/16",
            "--allocate-node-cidrs",
            "--concurrent-node-syncs=1",
            "--node-monitor-period=300ms",
            "--route-reconciliation-period=300ms",
          ],
        }),
      );
      started.resolve({ process, tap });
    },
  };
}

function handOutAddresses({ memory }: ServedCloud): void {
  let given = 0;
  memory.intercept("ensureLoadBalancer", async ({ target, proceed }) => {
    const before = memory.balancers.get(target);
    await proceed();
    const made = memory.balancers.get(target);
    const status = before?.status ?? { ingress: [{ ip: `20.0.0.${++given}` }] };
    if (made !== undefined) memory.balancers.set(target, { ...made, status });
    return status;
  });
}

describeOnRealApiServer("the recorded day of a small cluster", (cluster) => {
  test("is written as the Go provider wrote it, except for the listed differences", async () => {
    await using stack = new AsyncDisposableStack();
    const { admin } = cluster;
    const day = { admin, ...(await prepareDay(stack, cluster)) };
    await beginDay(day);
    let reported = 0;
    for (const { step, act } of script) {
      const seen = day.simulator.requests().length;
      await act(day);
      const { process, tap } = await day.host;
      const all = (): readonly Write[] => writesOf(tap.requests).filter(isNoLaterRenewal);
      const found = (): readonly string[] => inOrder(all().slice(reported));
      const wanted = inOrder(expected.writes.filter((write) => write.step === step));
      if (wanted.length === 0)
        await process.eventually(
          "the cloud is asked again and again",
          () => day.simulator.requests().length > seen + 4,
        );
      // What is not written in time shows below, beside what was written in its place.
      else await eventually(step, () => found().join() === wanted.join(), 20_000).catch(() => undefined);
      expect({ step, writes: found() }).toEqual({ step, writes: wanted });
      reported = all().length;
    }
    const patches = day.tap.requests.filter(({ method }) => method === "PATCH");
    expect(new Set(patches.map(({ contentType }) => contentType))).toEqual(
      new Set(["application/json-patch+json", "application/strategic-merge-patch+json"]),
    );
  });
});

test("every listed difference occurs", () => {
  expect(differences.map(({ what }) => what).filter((what) => !expected.used.has(what))).toEqual([]);
});

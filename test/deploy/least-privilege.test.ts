import { expect, test } from "bun:test";

import { kinds, type Node, taints, taintsOf } from "cloud-controller-host/sdk";
import { eventually } from "cloud-controller-host/sdk/testing";

import { grantedBy, usedBy } from "./grants.ts";
import { release } from "./helm.ts";
import { modes } from "./modes.ts";
import { describeDeployment, type Stage } from "./stage.ts";

/** What is granted and not seen here, and why it is granted all the same. */
const unseen: Readonly<Record<string, string>> = Object.fromEntries(
  ["list services", "patch services/status", "watch services"].map((permit) => [
    permit,
    "the Azure cloud of this version has no load balancers, so that the service controller does not start",
  ]),
);

/** Everything that asks for a rule of its own, and no waiting. */
const everything = {
  ...modes.secret.values,
  ...modes.migration.values,
  extraArgs: ["--node-monitor-period=1s", "--cloud-node-lifecycle-controller-grace-period-seconds=0"],
};

/** What Azure says of machines is asked anew each second. */
const impatient = { vmssVirtualMachinesCacheTTLInSeconds: 1, vmssCacheTTLInSeconds: 1 };

async function nodeOf({ cluster }: Stage, name: string): Promise<Node> {
  return cluster.admin.get(kinds.Node, { name });
}

/** The node waits for the cloud once more; what is then told of it has been told before. */
async function waitAgain({ cluster }: Stage, name: string): Promise<void> {
  const waiting = [{ key: taints.uninitialized, value: "true", effect: "NoSchedule" }];
  await cluster.admin.patch(kinds.Node, { name }, "merge", { spec: { taints: waiting } });
}

/** The kubelet has not been heard of. */
async function loseKubelet({ cluster }: Stage, name: string): Promise<void> {
  const conditions = [{ type: "Ready", status: "Unknown", reason: "NodeStatusUnknown", message: "no word" }];
  await cluster.admin.patch(kinds.Node, { name }, "strategic", { status: { conditions } }, { subresource: "status" });
}

describeDeployment("roles", (stage) => {
  test("grant all that a host asks for, and nothing that no host asks for", async () => {
    await stage().configure(impatient);
    const manifests = await stage().install(everything);
    const pod = await stage().start(manifests);
    await stage().until(
      pod,
      "it holds both locks",
      ({ locks }) => locks.length === 2 && locks.every(({ leading }) => leading),
    );
    const [lost = "", stopped = "", again = ""] = await stage().join(3);
    await stage().initialised([lost, stopped, again]);
    await eventually("all have pod CIDRs", async () =>
      (await stage().cluster.admin.list(kinds.Node)).every(({ spec }) => spec?.podCIDR !== undefined),
    );
    await waitAgain(stage(), again);
    await stage().initialised([again]);
    await loseKubelet(stage(), stopped);
    stage().azure.changeMachine(stopped, { powerState: "deallocated" });
    await pod.container.eventually("the stopped one is tainted", async () =>
      taintsOf(await nodeOf(stage(), stopped)).some(({ key }) => key === taints.shutdown),
    );
    await loseKubelet(stage(), lost);
    await stage().azure.removeInstance(lost);
    await pod.container.eventually("the lost one is deleted", () =>
      nodeOf(stage(), lost).then(
        () => false,
        () => true,
      ),
    );
    await stage().metrics(pod);
    await stage().configure({ ...impatient, userAgent: "changed" });
    await stage().until(pod, "the second generation runs", ({ generation, running }) => generation === 2 && running);
    await pod.container.stop(pod.graceSeconds);

    const used = usedBy(await stage().asked());
    const granted = grantedBy(manifests, release);
    expect(granted.filter((permit) => !used.has(permit))).toEqual(Object.keys(unseen).toSorted());
  });
});

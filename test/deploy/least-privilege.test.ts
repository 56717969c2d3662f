import { expect, setDefaultTimeout, test } from "bun:test";

import { kinds, taints } from "cloud-controller-host/sdk";
import { eventually } from "cloud-controller-host/sdk/testing";

import { grantedBy, usedBy } from "./grants.ts";
import { release } from "./helm.ts";
import { modes } from "./modes.ts";
import { isGone, isTainted, loseKubelet, nodeOf, waitAgain } from "./nodes.ts";
import { describeDeployment } from "./stage.ts";

setDefaultTimeout(120_000);

const multiple = "used only with several load balancers";
const locked = "no Service of type LoadBalancer in this test; service-features.test.ts has them";

/** Granted and not used in this scenario, with the reason. */
const unseen: Readonly<Record<string, string>> = {
  "get leases.coordination.k8s.io aks-managed-resource-locker in kube-system": locked,
  "get services": "nothing is removed without a cause in this test; the tests of the removal guard have such removals",
  "list endpointslices.discovery.k8s.io": multiple,
  "list namespaces": multiple,
  "patch services/status": "no Service of type LoadBalancer in this test; each-controller.test.ts has one",
  "update leases.coordination.k8s.io aks-managed-resource-locker in kube-system": locked,
  "watch endpointslices.discovery.k8s.io": multiple,
  "watch namespaces": multiple,
};

/** Everything that asks for a rule of its own, and no waiting. */
const everything = {
  ...modes.secret.values,
  ...modes.migration.values,
  // Everything that the host does, under the policy.
  admissionPolicy: { enabled: true },
  extraArgs: ["--node-monitor-period=1s", "--cloud-node-lifecycle-controller-grace-period-seconds=0"],
};

/** VMs are read again each second. */
const impatient = { vmssVirtualMachinesCacheTTLInSeconds: 1, vmssCacheTTLInSeconds: 1 };

describeDeployment("roles", (stage) => {
  test("grant everything that a host requests, and nothing that no host requests", async () => {
    const { admin } = stage().cluster;
    await stage().configure(impatient);
    const manifests = await stage().install(everything);
    const pod = await stage().start(manifests);
    await stage().until(
      pod,
      "it holds both locks",
      ({ locks }) => locks.length === 2 && locks.every(({ leading }) => leading),
    );
    const [lost = "", stopped = "", again = ""] = await stage().join(3);
    await stage().initialized([lost, stopped, again]);
    await eventually("all have pod CIDRs", async () =>
      (await admin.list(kinds.Node)).every(({ spec }) => spec?.podCIDR !== undefined),
    );
    await waitAgain(admin, again);
    await stage().initialized([again]);
    await loseKubelet(admin, stopped);
    stage().azure.changeInstance(stopped, { powerState: "deallocated" });
    await pod.container.eventually("the stopped one is tainted", async () =>
      isTainted(await nodeOf(admin, stopped), taints.shutdown),
    );
    await loseKubelet(admin, lost);
    await stage().azure.removeInstance(lost);
    await pod.container.eventually("the lost one is deleted", () => isGone(admin, lost));
    await stage().metrics(pod);
    await stage().configure({ ...impatient, userAgent: "changed" });
    await stage().until(pod, "the second generation runs", ({ generation, running }) => generation === 2 && running);
    await pod.container.stop(pod.graceSeconds);

    const used = usedBy(await stage().requested());
    const granted = grantedBy(manifests, release);
    expect(granted.filter((permit) => !used.has(permit))).toEqual(Object.keys(unseen).toSorted());
  });
});

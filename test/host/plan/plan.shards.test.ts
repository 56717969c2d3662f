import { expect, setDefaultTimeout, test } from "bun:test";

import { kinds } from "cloud-controller-host/sdk";

import { announcementBy, announcementKey } from "../../../host/process/leader-election/announcement.ts";
import { planDocumentOf } from "../../kit/plan.ts";
import { SandboxLab } from "../sandbox-lab.ts";

setDefaultTimeout(120_000);

test("a plan names the shard that leads and serves some of the same Services: the host would not lead", async () => {
  await using lab = await SandboxLab.open();
  const served = { shard: "east", services: true, loadBalancerClass: "", serviceSelector: "shard=east" };
  const annotations = { [announcementKey]: announcementBy("pod-east_1", served) };
  const metadata = { namespace: "kube-system", name: "cloud-controller-manager-east", annotations };
  const spec = { holderIdentity: "pod-east_1", leaseDurationSeconds: 3_600, renewTime: "2026-11-22T12:00:00.000000Z" };
  lab.api.create(kinds.Lease, { metadata, spec });
  const failuresOf = async (selector: string): Promise<readonly string[]> => {
    const flags = lab.flags(["--controllers=service-lb-controller", `--service-selector=${selector}`]);
    return (await planDocumentOf(flags)).failures;
  };
  expect(await failuresOf("shard notin (east)")).toEqual([]);
  expect(await failuresOf("team=blue")).toEqual([
    "leadership: a host with these flags would not lead: pod-east_1, the holder of the Lease cloud-controller-manager-east, serves some of the same Services",
  ]);
});

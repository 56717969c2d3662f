import { expect, setDefaultTimeout, test } from "bun:test";

import { kinds } from "cloud-controller-host/sdk";

import { shortLease } from "../../kit/host-under-test.ts";
import { SandboxLab } from "../sandbox-lab.ts";

setDefaultTimeout(120_000);

test("ten reloads under one leadership change nothing in the Lease but its renewals", async () => {
  await using lab = await SandboxLab.open();
  const host = lab.start({ flags: ["--enable-dynamic-reloading"] });
  await host.until("it runs", ({ running }) => running);
  const { renewTime: _, ...before } = lab.lease() ?? {};
  for (let generation = 2; generation <= 11; generation++) {
    await lab.changeConfig();
    await host.until("the next one runs", (status) => status.generation === generation && status.running);
  }
  const { renewTime: __, ...after } = lab.lease() ?? {};
  expect(after).toEqual(before);
  expect(host.lines("Successfully acquired lease")).toHaveLength(1);
  expect(await (await host.get("/metrics")).text()).toContain(
    'leader_election_master_status{name="cloud-controller-manager"} 1\n',
  );
});

test("ends a generation with the leadership under which it runs", async () => {
  await using lab = await SandboxLab.open();
  const host = lab.start({ flags: [...shortLease, "--enable-dynamic-reloading"] });
  await host.until("it runs", ({ running }) => running);
  await lab.changeConfig();
  await host.until("the next one runs", ({ generation, running }) => generation === 2 && running);
  lab.api.update(kinds.Lease, { namespace: "kube-system", name: "cloud-controller-manager" }, (lease) => ({
    ...lease,
    spec: { ...lease.spec, holderIdentity: "an-intruder", leaseDurationSeconds: 3600 },
  }));
  expect(await host.ended()).toBe(1);
  const stopped = host.lines('cloud-node-controller] "Controller stopped" generation=2');
  expect(stopped).toHaveLength(1);
});

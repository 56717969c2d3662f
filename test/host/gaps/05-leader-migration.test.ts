import { expect, setDefaultTimeout, test } from "bun:test";

import { SandboxLab } from "../sandbox-lab.ts";

setDefaultTimeout(120_000);

const shared = "cloud-provider-extraction-migration";

test("--enable-leader-migration alone moves route, service and lifecycle under the second lock, across reloads", async () => {
  await using lab = await SandboxLab.open();
  const host = lab.start({
    flags: [
      "--enable-leader-migration",
      "--enable-dynamic-reloading",
      "--controllers=cloud-node,cloud-node-lifecycle,service,route",
      "--cluster-cidr=10.244.0.0/16",
    ],
  });
  const both = await host.until(
    "both locks are held",
    ({ locks }) => locks.length === 2 && locks.every(({ leading }) => leading),
  );
  expect(both.locks.map(({ lease }) => lease)).toEqual(["cloud-controller-manager", shared]);
  await host.until("each lock has its controllers", ({ locks }) =>
    locks.every(({ controllers }) => controllers.length > 0),
  );
  const under = async (index: number): Promise<readonly string[]> =>
    (await host.status()).locks[index]?.controllers ?? [];
  expect(await under(0)).toEqual(["cloud-node-controller"]);
  expect(await under(1)).toContain("cloud-node-lifecycle-controller");
  for (const name of ["service-lb-controller", "node-route-controller"]) expect(await under(0)).not.toContain(name);

  const tenure = (): unknown[] =>
    [undefined, shared].map((name) => {
      const { renewTime: _, ...rest } = lab.lease(name) ?? {};
      return rest;
    });
  const before = tenure();
  expect(before).toMatchObject([{ holderIdentity: both.identity }, { holderIdentity: both.identity }]);
  await lab.changeConfig();
  await host.until("the next one runs", ({ generation, running }) => generation === 2 && running);
  await host.until("under both locks", ({ locks }) => locks.every(({ controllers }) => controllers.length > 0));
  expect(tenure()).toEqual(before);
  expect(await host.stop()).toBe(0);
  expect([lab.lease()?.holderIdentity, lab.lease(shared)?.holderIdentity]).toEqual(["", ""]);
});

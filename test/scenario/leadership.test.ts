import { expect, setDefaultTimeout, test } from "bun:test";

import { kinds, type Lease } from "cloud-controller-host/sdk";

import { HostLab, shortLease } from "../kit/host-under-test.ts";
import { describeOnBoth } from "../kit/platform.ts";

setDefaultTimeout(120_000);

describeOnBoth("leadership", (platform) => {
  const lab = new HostLab(platform);
  const lease = async (): Promise<Lease["spec"]> => {
    const found: Lease = await platform().admin.get(kinds.Lease, {
      namespace: "kube-system",
      name: "cloud-controller-manager",
    });
    return found.spec;
  };

  test("goes to a second host when the leader is killed, once its lease has expired", async () => {
    const first = await lab.start({ flags: shortLease });
    await first.until("the first leads", ({ leading, running }) => leading && running);
    const second = await lab.start({ flags: shortLease });
    await second.until("the second stands by, ready", ({ generation, leading }) => generation === 1 && !leading);
    expect((await second.status()).running).toBe(false);
    first.signal("SIGKILL");
    await first.ended();
    const { identity } = await second.until("the second leads", ({ leading, running }) => leading && running);
    expect(await lease()).toMatchObject({ holderIdentity: identity, leaseTransitions: 1 });
  });

  test("is handed over at once on a clean stop, which exits 0", async () => {
    // If the hand-over waited for the lease to expire, this test would.
    const flags = ["--leader-elect-lease-duration=60s"];
    const first = await lab.start({ flags });
    await first.until("the first leads", ({ leading, running }) => leading && running);
    const second = await lab.start({ flags });
    await second.until("the second stands by", ({ generation, leading }) => generation === 1 && !leading);
    const stopped = Date.now();
    expect(await first.stop()).toBe(0);
    await second.until("the second leads", ({ leading, running }) => leading && running);
    expect(Date.now() - stopped).toBeLessThan(30_000);
    expect((await lease())?.leaseTransitions).toBe(1);
  });

  test("leadership without a successor leaves an empty lease behind", async () => {
    const host = await lab.start();
    await host.until("it leads", ({ leading }) => leading);
    host.signal("SIGINT");
    expect(await host.ended()).toBe(0);
    expect((await lease())?.holderIdentity).toBe("");
  });

  test("leadership that is lost to another holder ends the process with status 1, and nothing more is written", async () => {
    const host = await lab.start({ flags: shortLease });
    await host.until("it leads", ({ leading }) => leading);
    const found: Lease = await platform().admin.get(kinds.Lease, {
      namespace: "kube-system",
      name: "cloud-controller-manager",
    });
    await platform().admin.patch(kinds.Lease, { namespace: "kube-system", name: "cloud-controller-manager" }, "merge", {
      spec: { ...found.spec, holderIdentity: "an-intruder", leaseDurationSeconds: 60 },
    });
    expect(await host.ended()).toBe(1);
    expect((await lease())?.holderIdentity).toBe("an-intruder");
  });
});

import { expect, setDefaultTimeout, test } from "bun:test";

import { kinds, type Lease } from "cloud-controller-host/sdk";

import { usedBy } from "./grants.ts";
import { modes } from "./modes.ts";
import { describeDeployment, type Stage } from "./stage.ts";

setDefaultTimeout(120_000);

/** A dead leader's lease runs out within seconds. */
const shortLease = { leaseDurationSeconds: 4, renewDeadlineSeconds: 3, retryPeriodSeconds: 1 };

async function leaseOf({ cluster }: Stage): Promise<Lease["spec"]> {
  const lease = await cluster.admin.get(kinds.Lease, { namespace: "kube-system", name: "cloud-controller-manager" });
  return lease.spec;
}

describeDeployment("two replicas", (stage) => {
  test("hand over when the leader receives SIGTERM, within its grace period and without losing a node", async () => {
    await stage().configure();
    const manifests = await stage().install(modes.reloadedFile.values);
    const first = await stage().start(manifests);
    await stage().until(first, "the first leads", ({ leading, running }) => leading && running);
    const second = await stage().start(manifests);
    await second.container.ready();
    const standby = await stage().until(second, "the second has all loaded", ({ generation }) => generation === 1);
    expect(standby).toMatchObject({ leading: false, running: false });

    const before = await stage().join(3);
    const stopping = first.container.stop(first.graceSeconds);
    const meanwhile = await stage().join(3);
    expect(await stopping).toEqual({ status: 0, killed: false });
    await stage().until(second, "the second leads", ({ leading, running }) => leading && running);
    const after = await stage().join(1);
    await stage().initialized([...before, ...meanwhile, ...after]);
    const lease = await leaseOf(stage());
    expect(lease?.holderIdentity).toStartWith(second.container.name);
    expect(lease?.leaseTransitions).toBe(1);
  });

  test("hand over when the leader does not stop and is killed after its grace period", async () => {
    await stage().configure();
    const manifests = await stage().install({ leaderElection: shortLease, drainTimeoutSeconds: 1 });
    const first = await stage().start(manifests);
    await stage().until(first, "the first leads", ({ leading, running }) => leading && running);
    const second = await stage().start(manifests);
    await second.container.ready();

    await first.container.signal("SIGSTOP");
    const names = await stage().join(2);
    expect(await first.container.stop(first.graceSeconds)).toMatchObject({ killed: true });
    await stage().until(second, "the second leads", ({ leading, running }) => leading && running);
    await stage().initialized(names);
    expect((await leaseOf(stage()))?.holderIdentity).toStartWith(second.container.name);
  });

  test("never both write: a standby only reads and watches the Lease", async () => {
    await stage().configure();
    const manifests = await stage().install(modes.reloadedFile.values);
    const first = await stage().start(manifests);
    await stage().until(first, "the first leads", ({ leading, running }) => leading && running);
    await first.container.stop(first.graceSeconds);
    await holdLease(stage());
    const mark = await stage().cluster.audit.mark();
    const second = await stage().start(manifests);
    await stage().until(second, "the second stands by", ({ generation }) => generation === 1);
    await stage().join(2);
    await second.container.eventually("it has seen the nodes", async () => {
      const text = await (await stage().metrics(second)).text();
      return /informer_store_resource_version\{[^}]*resource="nodes"/.test(text);
    });
    const requested = await stage().requested(mark);
    const written = requested.filter(({ verb, resource }) => !readVerbs.has(verb) && !reviews.has(resource));
    expect([...usedBy(written)]).toEqual([]);
  });
});

const readVerbs = new Set(["get", "list", "watch"]);
const reviews = new Set(["tokenreviews", "subjectaccessreviews"]);

/** Another replica leads, and keeps leading. */
async function holdLease({ cluster }: Stage): Promise<void> {
  const renewTime = new Date().toISOString().replace("Z", "000Z");
  await cluster.admin.patch(kinds.Lease, { namespace: "kube-system", name: "cloud-controller-manager" }, "merge", {
    spec: { holderIdentity: "another-replica", leaseDurationSeconds: 3600, renewTime, acquireTime: renewTime },
  });
}

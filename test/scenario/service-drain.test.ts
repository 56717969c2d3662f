import { expect, setDefaultTimeout, test } from "bun:test";

import { kinds, type Taint } from "cloud-controller-host/sdk";

import { objectAt, objectsAt, stringAt } from "../../plugins/azure-cloud/json.ts";
import { drainRecord } from "../../plugins/azure-cloud/load-balancer/model/drain.ts";
import { jumpingClock } from "../kit/clocks.ts";
import { balancedService } from "../kit/services.ts";
import { describeServices, type ServiceLab } from "./service-lab.ts";

setDefaultTimeout(120_000);

const config = { loadBalancerBackendPoolConfigurationType: "nodeIP", loadBalancerDrainTimeInSeconds: 600 };
const [first, second, third] = ["vmss0000000", "vmss0000001", "vmss0000002"] as const;

/** Members of the IPv4 pool with the state that Azure shows: `vmss0000000 Down`. */
function pool({ simulator }: ServiceLab): readonly string[] {
  const balancer = simulator.get("/providers/Microsoft.Network/loadBalancers/kubernetes");
  const [found] = objectsAt(balancer?.properties, "backendAddressPools");
  return objectsAt(objectAt(found, "properties"), "loadBalancerBackendAddresses").map((address) => {
    const isDown = stringAt(objectAt(address, "properties"), "adminState") === "Down";
    return `${stringAt(address, "name")}${isDown ? " Down" : ""}`;
  });
}

const shows = (lab: ServiceLab, ...members: readonly string[]) =>
  lab.eventually(
    `the pool has ${members.join(", ")}; it has ${pool(lab).join(", ")}`,
    () => pool(lab).toSorted().join() === members.toSorted().join(),
  );

const taint = ({ admin }: ServiceLab, name: string, ...taints: readonly Taint[]) =>
  admin.patch(kinds.Node, { name }, "merge", { spec: { taints } });
const disrupted: Taint = { key: "karpenter.sh/disrupted", effect: "NoSchedule" };
const recordOf = async ({ admin }: ServiceLab, name: string): Promise<string | undefined> =>
  (await admin.get(kinds.Node, { name })).metadata?.annotations?.[drainRecord];
/** Resolves with the record once it has the time. */
const drainBegun = (lab: ServiceLab, name: string): Promise<string> =>
  lab.eventually(`${name} has the time of its drain`, async () => {
    const record = await recordOf(lab, name);
    return record?.startsWith("2") && record;
  });
const isForgotten = (lab: ServiceLab, name: string) =>
  lab.eventually(`${name} has no record`, async () => (await recordOf(lab, name)) === undefined);

describeServices("a node that is about to leave", (open) => {
  test("gets no new connections first, and leaves after the drain time, across a restart", async () => {
    const clock = jumpingClock();
    await using lab = await open({ config, clock });
    await lab.start();
    await lab.create(balancedService("web"));
    await lab.served("web");
    expect(pool(lab)).toEqual([first, second, third]);
    await taint(lab, second, disrupted);
    await shows(lab, first, `${second} Down`, third);
    const begun = await drainBegun(lab, second);
    clock.jump(500_000);
    expect(await lab.restart(1)).toEqual([]);
    expect(await recordOf(lab, second)).toBe(begun);
    expect(pool(lab)).toEqual([first, `${second} Down`, third]);
    clock.jump(101_000);
    await shows(lab, first, third);
    await isForgotten(lab, second);
    // It does not join again while the taint lasts.
    expect(await lab.restart(1)).toEqual([]);
    await taint(lab, second);
    await shows(lab, first, third, second);
  });

  test("gets connections again when it does not leave after all, and then drains for the full time", async () => {
    const clock = jumpingClock();
    await using lab = await open({ config, clock });
    await lab.start();
    await lab.create(balancedService("web"));
    await lab.served("web");
    await taint(lab, first, { key: "ToBeDeletedByClusterAutoscaler", effect: "NoSchedule" });
    await shows(lab, `${first} Down`, second, third);
    await drainBegun(lab, first);
    await lab.restart(1);
    clock.jump(500_000);
    await taint(lab, first);
    await shows(lab, first, second, third);
    await isForgotten(lab, first);
    await taint(lab, first, disrupted);
    await shows(lab, `${first} Down`, second, third);
    const begun = await drainBegun(lab, first);
    clock.jump(Date.parse(begun) + 599_000 - clock.now());
    expect(await lab.restart(1)).toEqual([]);
    expect(pool(lab)).toEqual([`${first} Down`, second, third]);
    // A node that is deleted needs no drain any more.
    await lab.admin.delete(kinds.Node, { name: first });
    await shows(lab, second, third);
  });

  test("keeps serving while all others leave as well, and drains once there is another one", async () => {
    const clock = jumpingClock();
    await using lab = await open({ config, clock });
    await lab.start();
    await lab.create(balancedService("web"));
    await lab.served("web");
    for (const name of [first, second, third]) await taint(lab, name, disrupted);
    for (const name of [first, second, third]) await drainBegun(lab, name);
    await shows(lab, first, second, third);
    clock.jump(3_600_000);
    expect(await lab.restart(1)).toEqual([]);
    await shows(lab, first, second, third);
    await taint(lab, third);
    await shows(lab, `${first} Down`, `${second} Down`, third);
    const begun = await drainBegun(lab, first);
    expect(Date.parse(begun)).toBeGreaterThan(clock.now() - 60_000);
  });

  test("drains from the beginning when the process ended between the record and the state, or before the time", async () => {
    const clock = jumpingClock();
    await using lab = await open({ config, clock });
    await lab.start();
    await lab.create(balancedService("web"));
    await lab.served("web");
    await lab.stop();
    const record = (value: string) =>
      lab.admin.patch(kinds.Node, { name: first }, "merge", { metadata: { annotations: { [drainRecord]: value } } });
    // An old time without the state that it belongs to, and a text of anyone.
    for (const left of ["requested", "2026-01-01T00:00:00Z", "2999-01-01T00:00:00Z", "soon"]) {
      await record(left);
      await taint(lab, first, disrupted);
      await lab.start();
      await shows(lab, `${first} Down`, second, third);
      expect(Date.parse(await drainBegun(lab, first))).toBeGreaterThan(clock.now() - 60_000);
      await lab.stop();
      // The state is there, and its time was not written.
      await record("requested");
      await lab.start();
      expect(Date.parse(await drainBegun(lab, first))).toBeGreaterThan(clock.now() - 60_000);
      await taint(lab, first);
      await isForgotten(lab, first);
      await shows(lab, first, second, third);
      await lab.stop();
    }
  });

  test("is drained for the longest time that a Service of its pool asks for, and not at all by default", async () => {
    const clock = jumpingClock();
    const { loadBalancerBackendPoolConfigurationType } = config;
    await using lab = await open({ config: { loadBalancerBackendPoolConfigurationType }, clock });
    await lab.start();
    await lab.create(balancedService("web"));
    await lab.served("web");
    await lab.admin.patch(kinds.Node, { name: first }, "merge", {
      metadata: { labels: { "node.kubernetes.io/exclude-from-external-load-balancers": "" } },
    });
    await shows(lab, second, third);
    expect(await recordOf(lab, first)).toBeUndefined();
    await taint(lab, third, disrupted);
    const annotated = (name: string, seconds: string) => {
      const service = balancedService(name);
      const annotations = { "service.beta.kubernetes.io/azure-load-balancer-drain-seconds": seconds };
      return lab.create({ ...service, metadata: { ...service.metadata, annotations } });
    };
    await annotated("short", "60");
    await annotated("long", "3600");
    for (const name of ["short", "long"]) await lab.served(name);
    await shows(lab, second, `${third} Down`);
    await drainBegun(lab, third);
    clock.jump(3_500_000);
    expect(await lab.restart(3)).toEqual([]);
    await lab.remove("long");
    clock.jump(10_000);
    await shows(lab, second);
  });
});

import { expect, test } from "bun:test";

import type { CloudWrite } from "cloud-controller-host/sdk";
import { manualClock } from "cloud-controller-host/sdk/testing";

import type { Observed } from "../../../../../plugins/azure-cloud/load-balancer/model/model.ts";
import { Drifts } from "../../../../../plugins/azure-cloud/load-balancer/removals/drifts.ts";
import { loggerInto } from "../../world.ts";
import { world } from "../world.ts";

const id = "/subscriptions/sub0/resourceGroups/rg0/providers/Microsoft.Network/loadBalancers/kubernetes";
const name = `a${"0".repeat(31)}-TCP-80`;

function reader() {
  const records: CloudWrite[] = [];
  const nothing = () => ({ inc: () => undefined, observe: () => undefined, set: () => undefined });
  const clock = manualClock();
  const drifts = new Drifts({
    clock,
    events: { event: () => undefined },
    log: loggerInto([]),
    metrics: { counter: nothing, histogram: nothing, gauge: nothing },
    recordWrite: (write) => void records.push(write),
  });
  const show = (observed: Partial<Observed>): void => drifts.seen({ ...world({}), ...observed }, () => []);
  const read = (etag: string, idleTimeoutInMinutes: number): void => {
    const rule = { name, protocol: "Tcp", frontendPort: 80, idleTimeoutInMinutes };
    show({ loadBalancers: [{ id, etag, loadBalancingRules: [rule] }] });
  };
  return { clock, drifts, read, records, show };
}

test("a read that lags behind shows a former version of a resource, which is not drift", () => {
  const { drifts, read, records } = reader();
  read("1", 4);
  drifts.started(id);
  drifts.ended(id);
  read("2", 5);
  read("1", 4);
  read("2", 5);
  expect(records).toEqual([]);
  read("3", 6);
  expect(records).toHaveLength(1);
});

test("a read during a write of this process is not drift, whichever version it shows", () => {
  const { drifts, read, records } = reader();
  read("1", 4);
  drifts.started(id);
  read("2", 5);
  drifts.ended(id);
  read("3", 6);
  expect(records).toEqual([]);
});

test("a resource that no read has shown for an hour is forgotten", async () => {
  const { clock, read, records, show } = reader();
  read("1", 4);
  read("2", 5);
  await clock.advance(3_500_000);
  read("2", 5);
  await clock.advance(3_500_000);
  show({});
  read("3", 6);
  expect(records).toHaveLength(2);
  await clock.advance(3_700_000);
  show({});
  read("4", 7);
  expect(records).toHaveLength(2);
  read("5", 6);
  read("6", 4);
  expect(records.map(({ repaired }) => repaired)).toEqual([false, false, false, false]);
});

const linkId = id.replace("loadBalancers/kubernetes", "privateLinkServices/pls-a");
const ownTags = { "k8s-azure-owner-service": "default/web", "k8s-azure-cluster-name": "kubernetes" };

test("what others decide about a private link service is not drift: its connections, and tags of their own", () => {
  const { records, show } = reader();
  const link = (etag: string, more: object, tags: Record<string, string> = ownTags): void =>
    show({ privateLinkServices: [{ id: linkId, etag, location: "eastus", fqdns: ["a"], tags, ...more }] });
  link("1", {});
  link("2", { privateEndpointConnections: [{ name: "one" }], alias: "pls.eastus" });
  link("3", {}, { ...ownTags, team: "net" });
  expect(records).toEqual([]);
  link("4", { fqdns: ["b"] });
  expect(records.map(({ resource, change }) => [resource, change?.before, change?.after])).toEqual([
    [linkId, { fqdns: ["a"] }, { fqdns: ["b"] }],
  ]);
  link("5", {});
  expect(records.map(({ repaired }) => repaired)).toEqual([false, false, true]);
});

test.each([
  ["autoApproval", { subscriptions: ["sub1"] }],
  ["enableProxyProtocol", true],
  ["ipConfigurations", [{ name: "static" }]],
  ["loadBalancerFrontendIpConfigurations", [{ id: `${id}/frontendIPConfigurations/other` }]],
  ["visibility", { subscriptions: ["sub1"] }],
])("%s that another writer gave a private link service of ours is drift", (key, value) => {
  const { records, show } = reader();
  show({ privateLinkServices: [{ id: linkId, etag: "1", location: "eastus", tags: ownTags }] });
  show({ privateLinkServices: [{ id: linkId, etag: "2", location: "eastus", tags: ownTags, [key]: value }] });
  expect(records.map(({ change }) => Object.keys(Object(change?.after)))).toEqual([[key]]);
});

test("a rule that another writer adds is drift until it is gone, and is looked for among those of Services", () => {
  const { drifts, records } = reader();
  const asked: string[] = [];
  const read = (etag: string, ...names: readonly string[]): void =>
    drifts.seen(
      { ...world({}), loadBalancers: [{ id, etag, loadBalancingRules: names.map((one) => ({ name: one })) }] },
      (texts) => (asked.push(texts), []),
    );
  read("1", name);
  read("2", name, name.replace("80", "81"));
  read("2", name, name.replace("80", "81"));
  expect(records.map(({ repaired }) => repaired)).toEqual([false]);
  expect(asked).toEqual([expect.stringContaining("TCP-81")]);
  read("3", name);
  expect(records.map(({ repaired }) => repaired)).toEqual([false, false, true]);
});

test("a private link service without our tag is not ours", () => {
  const { records, show } = reader();
  const link = (etag: string, fqdns: string[]): void =>
    show({ privateLinkServices: [{ id: linkId, etag, location: "eastus", fqdns, tags: {} }] });
  link("1", ["a"]);
  link("2", ["b"]);
  expect(records).toEqual([]);
});

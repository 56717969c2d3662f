import { expect, test } from "bun:test";

import type { CloudWrite } from "cloud-controller-host/sdk";
import { manualClock } from "cloud-controller-host/sdk/testing";

import { Drifts } from "../../../../../plugins/azure-cloud/load-balancer/removals/drifts.ts";
import { loggerInto } from "../../world.ts";
import { world } from "../world.ts";

const id = "/subscriptions/sub0/resourceGroups/rg0/providers/Microsoft.Network/loadBalancers/kubernetes";
const name = `a${"0".repeat(31)}-TCP-80`;

function reader() {
  const records: CloudWrite[] = [];
  const nothing = () => ({ inc: () => undefined, observe: () => undefined, set: () => undefined });
  const drifts = new Drifts({
    clock: manualClock(),
    events: { event: () => undefined },
    log: loggerInto([]),
    metrics: { counter: nothing, histogram: nothing, gauge: nothing },
    recordWrite: (write) => void records.push(write),
  });
  const read = (etag: string, idleTimeoutInMinutes: number): void => {
    const rule = { name, protocol: "Tcp", frontendPort: 80, idleTimeoutInMinutes };
    drifts.seen({ ...world({}), loadBalancers: [{ id, etag, loadBalancingRules: [rule] }] }, () => []);
  };
  return { drifts, read, records };
}

test("a read that lags behind shows a former version of a resource, and is no drift", () => {
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

test("a read during a write of this process is no drift, whichever version it shows", () => {
  const { drifts, read, records } = reader();
  read("1", 4);
  drifts.started(id);
  read("2", 5);
  drifts.ended(id);
  read("3", 6);
  expect(records).toEqual([]);
});

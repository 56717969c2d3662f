import { afterEach, beforeEach, expect, test } from "bun:test";

import { kinds } from "cloud-controller-host/sdk";

import type { AzureView } from "../azure-view.ts";
import { clusters } from "../clusters.ts";
import { leases } from "../pace.ts";
import { ClusterRig } from "./cluster-rig.ts";
import { Storms } from "./storms.ts";

let rig: ClusterRig;
beforeEach(async () => void (rig = await ClusterRig.start()));
afterEach(() => rig[Symbol.asyncDispose]());

const minuteMs = 60_000;

interface Setup {
  readonly hosts?: number;
  readonly isSecond?: boolean;
}

function watch({ hosts = 1, isSecond = false }: Setup = {}) {
  const broken: string[] = [];
  const world = {
    api: rig.api,
    lease: leases.default,
    get now() {
      return rig.now;
    },
    cluster: clusters.plain,
    forgiven: [],
    services: () => rig.services(),
    view: (): AzureView => {
      throw new Error("nothing in Azure matters where no address is shared");
    },
    history: isSecond ? { second: { pair: "label", hosts: 1 } as const } : {},
    hosts: { length: hosts },
  };
  const storms = new Storms(world, (invariant, text) => void broken.push(`${invariant}: ${text}`));
  const send = (requests: number, path = "/loadBalancers"): readonly string[] => {
    for (let sent = 0; sent < requests; sent += 1) storms.sent(path);
    return broken.splice(0);
  };
  const rested = (requests: number, ms = minuteMs): number => {
    storms.rested(requests, ms);
    return broken.splice(0).length;
  };
  return { send, rested, storms };
}

/** With a Pod CIDR, or without. */
const addNodes = (count: number, from = 0, podCIDR?: string): void => {
  for (let index = from; index < from + count; index += 1)
    rig.api.create(kinds.Node, { metadata: { name: `node-${index}` }, spec: podCIDR === undefined ? {} : { podCIDR } });
};

test("fifteen hundred requests are a storm in one minute, and not in two", () => {
  const { send, storms } = watch();
  expect(send(1_499)).toEqual([]);
  rig.now = minuteMs;
  expect(send(1_499)).toEqual([]);
  expect(send(1)).toEqual(["no request storm: 1500 requests in a minute"]);
  expect(storms.requests).toBe(2_999);
});

test("each node of more than twenty may cause more requests", () => {
  const { send } = watch();
  addNodes(20);
  expect(send(1_500)).toHaveLength(1);
  rig.now = minuteMs;
  addNodes(2, 20);
  expect(send(1_539)).toEqual([]);
  expect(send(1)).toHaveLength(1);
});

test("further pages of a list count in a minute, and not at rest", () => {
  const { send, storms } = watch();
  expect(send(10)).toEqual([]);
  expect(send(1_489, "/virtualMachines?api-version=2025-04-01&%24skiptoken=1")).toEqual([]);
  expect(storms.counted).toBe(10);
  expect(send(1)).toEqual(["no request storm: 1500 requests in a minute"]);
});

/** What one host may send at rest in a minute, with the renewals of its Lease. */
const most = 30 + minuteMs / leases.default.retryPeriodMs;

test.each<readonly [what: string, setup: Setup, requests: number]>([
  ["one host", {}, most],
  ["each of two hosts", { hosts: 2 }, 2 * most],
  ["a host that reads the Lease of another deployment", { isSecond: true }, most + 12],
])("the requests of %s at rest have a bound", (_what, setup, requests) => {
  const { rested } = watch(setup);
  expect([rested(requests), rested(requests + 1)]).toEqual([0, 1]);
  expect([rested(2 * requests, 2 * minuteMs), rested(2 * requests + 1, 2 * minuteMs)]).toEqual([0, 1]);
});

test("a Service that is refused and a node without a Pod CIDR may cause more requests at rest", () => {
  const { rested } = watch();
  rig.addService("fine");
  addNodes(1, 0, "10.244.0.0/24");
  expect([rested(most), rested(most + 1)]).toEqual([0, 1]);
  rig.addService("refused", {}, { "azure-load-balancer-tcp-idle-timeout": "1" });
  expect([rested(most + 8), rested(most + 9)]).toEqual([0, 1]);
  addNodes(1, 1);
  expect([rested(most + 16), rested(most + 17)]).toEqual([0, 1]);
});

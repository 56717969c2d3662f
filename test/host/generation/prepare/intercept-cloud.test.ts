import { expect, test } from "bun:test";

import type { Cloud, Service } from "cloud-controller-host/sdk";

import { interceptCloud } from "../../../../host/generation/prepare/intercept-cloud.ts";
import { wholeCloud } from "../../../kit/whole-cloud.ts";

const ingress = [{ ip: "20.0.0.1" }];
const service: Service = { metadata: { name: "web", namespace: "default" }, status: { loadBalancer: { ingress } } };
const other: Service = { metadata: { name: "api", namespace: "default" } };
const node = { metadata: { name: "node-0" } };
const route = { name: "r0", targetNode: "node-0", destinationCIDR: "10.244.0.0/24" };

type Made = (cloud: Cloud) => Promise<unknown> | undefined;
const done = { status: "fulfilled", value: undefined };

const reads: Readonly<Record<string, Made>> = {
  instanceExists: ({ instances }) => instances?.instanceExists(node),
  instanceShutdown: ({ instances }) => instances?.instanceShutdown(node),
  instanceMetadata: ({ instances }) => instances?.instanceMetadata(node),
  getLoadBalancer: ({ loadBalancers }) => loadBalancers?.getLoadBalancer("c", service),
  listRoutes: ({ routes }) => routes?.listRoutes("c"),
  nodeMasks: ({ nodeMasks }) => nodeMasks?.nodeMasks(node),
};

const writes: Readonly<Record<string, readonly [made: Made, subject: string, instead: unknown]>> = {
  ensureLoadBalancer: [
    ({ loadBalancers }) => loadBalancers?.ensureLoadBalancer("c", service, []),
    "default/web",
    { ingress },
  ],
  updateLoadBalancer: [
    ({ loadBalancers }) => loadBalancers?.updateLoadBalancer("c", service, []),
    "default/web",
    undefined,
  ],
  ensureLoadBalancerDeleted: [
    ({ loadBalancers }) => loadBalancers?.ensureLoadBalancerDeleted("c", service),
    "default/web",
    undefined,
  ],
  updateLoadBalancers: [
    ({ loadBalancers }) => loadBalancers?.updateLoadBalancers?.("c", [service, other], []),
    "default/web, default/api",
    [done, done],
  ],
  createRoute: [({ routes }) => routes?.createRoute("c", "", route), "10.244.0.0/24 to node-0", undefined],
  deleteRoute: [({ routes }) => routes?.deleteRoute("c", route), "r0", undefined],
};

/** A cloud whose reads are made, and whose writes are replaced. */
function intercepted(inner = wholeCloud()) {
  const calls: unknown[] = [];
  const cloud = interceptCloud(inner, {
    read(method, call) {
      calls.push(["read", method]);
      return call();
    },
    write(method, _call, subject, instead) {
      calls.push(["write", method, subject]);
      return Promise.resolve(instead);
    },
  });
  return { cloud, calls };
}

test.each(Object.entries(reads))("the call %s of a cloud is a read", async (method, made) => {
  const { cloud, calls } = intercepted();
  await made(cloud)?.catch(() => undefined);
  expect(calls).toEqual([["read", method]]);
});

test.each(Object.entries(writes))(
  "the call %s of a cloud is a write, with its subject and a result for when it is not made",
  async (method, [made, subject, instead]) => {
    const { cloud, calls } = intercepted();
    const result = await made(cloud);
    expect([calls, result]).toEqual([[["write", method, subject]], instead]);
  },
);

test("the loops of a cloud run until the signal of their generation aborts", async () => {
  const seen: boolean[] = [];
  const run = (signal: AbortSignal): Promise<void> => Promise.resolve(void seen.push(signal.aborted));
  await intercepted({ ...wholeCloud(), run }).cloud.run?.(AbortSignal.abort());
  expect(seen).toEqual([true]);
});

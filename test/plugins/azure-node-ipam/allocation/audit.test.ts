import { describe, expect, test } from "bun:test";

import { keyOf, kinds, type KubeClient, type Node, parseCIDR } from "cloud-controller-host/sdk";
import { manualClock } from "cloud-controller-host/sdk/testing";

import { createLogger } from "../../../../host/process/log/log.ts";
import { listNodes, OrphanAudit } from "../../../../plugins/azure-node-ipam/allocation/audit.ts";
import { ipamEvents } from "../../../../plugins/azure-node-ipam/nodes/events.ts";
import { NodeRecords } from "../../../../plugins/azure-node-ipam/nodes/records.ts";
import { TestCluster } from "../../../kit/harness.ts";
import { aNode, clientOf, giveAs } from "../nodes.ts";
import { cidrs, openAllocations } from "../open-allocations.ts";

const never = new AbortController().signal;
const unused = (): never => {
  throw new Error("not used by the audit");
};

/** An audit over nodes in the watch, with lists that the test answers. */
function openAudit(watched: readonly Node[]) {
  const { allocations, observe } = openAllocations({ clusters: ["10.0.0.0/16"], masks: [24] });
  const lists: PromiseWithResolvers<readonly never[]>[] = [];
  const client: KubeClient = {
    list: () => {
      const list = Promise.withResolvers<readonly never[]>();
      lists.push(list);
      return list.promise;
    },
    get: unused,
    create: unused,
    replace: unused,
    patch: unused,
    delete: unused,
    deleteCollection: unused,
    evict: unused,
  };
  const log = createLogger({ format: "json", verbosity: 0, write: () => undefined });
  const settings = {
    type: "RangeAllocator",
    clusters: cidrs("10.0.0.0/16"),
    masks: [24],
    services: [],
    configureCloudRoutes: false,
  } as const;
  const records = new NodeRecords({
    settings,
    allocations,
    log,
    events: ipamEvents({ events: { event: () => undefined } }),
  });
  const byName = new Map(watched.map((node) => [keyOf(node), node]));
  const nodes = { get: (key: string) => byName.get(key), list: () => [...byName.values()], size: byName.size };
  const clock = manualClock();
  return { audit: new OrphanAudit({ client, clock, nodes, allocations, records }), allocations, observe, lists, clock };
}

describe("the audit of orphaned CIDRs", () => {
  test("frees the CIDRs of deleted nodes only: not of a watched node, nor of one whose claim changed meanwhile", async () => {
    const { audit, allocations, observe, lists } = openAudit([aNode("watched")]);
    observe("orphan", "10.0.0.0/24");
    observe("watched", "10.0.1.0/24");
    observe("changed", "10.0.2.0/24");
    const running = audit.run(never);
    allocations.observe("changed", "another uid", [parseCIDR("10.0.3.0/24")]);
    lists[0]?.resolve([]);
    await running;
    expect([...allocations.claims.keys()]).toEqual(["watched", "changed"]);
  });

  test("lists the nodes at most once a minute, and once for all callers", async () => {
    const { audit, lists, clock } = openAudit([]);
    let ended = 0;
    const both = [0, 1].map(() => audit.run(never).then(() => (ended += 1)));
    await new Promise((resolve) => setImmediate(resolve));
    expect(ended).toBe(0);
    lists[0]?.resolve([]);
    await Promise.all(both);
    await clock.advance(59_999);
    await audit.run(never);
    expect(lists).toHaveLength(1);
    await clock.advance(1);
    const again = audit.run(never);
    expect(lists).toHaveLength(2);
    lists[1]?.resolve([]);
    await again;
  });
});

test("listNodes keeps only the fields that an allocator reads", async () => {
  await using cluster = await TestCluster.start();
  const condition = { type: "NetworkUnavailable", status: "True" };
  cluster.api.create(
    kinds.Node,
    aNode("node0", [], {
      metadata: { labels: { a: "b" }, annotations: { c: "d" } },
      spec: { providerID: "memory://node0", taints: [{ key: "t", effect: "NoSchedule" }] },
      status: { conditions: [condition], addresses: [{ type: "InternalIP", address: "10.0.0.4" }] },
    }),
  );
  await giveAs(cluster, "some-program", "node0", "10.0.0.0/24");
  const labeled = { apiVersion: "v1", kind: "Node", metadata: { name: "node0", labels: { e: "f" } } };
  await clientOf(cluster, "labeler").patch(kinds.Node, { name: "node0" }, "apply", labeled);
  const [node] = await listNodes(clientOf(cluster, "lister"), never);
  expect(Object.keys(node?.metadata ?? {}).toSorted()).toEqual(["creationTimestamp", "managedFields", "name", "uid"]);
  expect(node?.metadata?.managedFields?.map(({ manager }) => manager)).toEqual(["some-program"]);
  expect(node?.spec).toEqual({ providerID: "memory://node0", podCIDR: "10.0.0.0/24", podCIDRs: ["10.0.0.0/24"] });
  expect(node?.status).toEqual({ conditions: [expect.objectContaining(condition)] });
});

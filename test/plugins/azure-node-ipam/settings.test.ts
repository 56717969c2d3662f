import { describe, expect, test } from "bun:test";

import { type MemoryCloud, memoryCloud } from "cloud-controller-host/sdk/testing";

import { defaultOptions } from "../../../host/config/flags/options.ts";
import { complete } from "../../../host/config/validate/complete.ts";
import plugin from "../../../plugins/azure-node-ipam/plugin.ts";
import { TestCluster } from "../../kit/harness.ts";
import type { Flags } from "./nodes.ts";

/** What init makes of the flags, and what it logs; it rejects where the plugin does not start. */
async function init(flags: Flags, memory: MemoryCloud = memoryCloud()) {
  await using cluster = await TestCluster.start();
  const bound = plugin.bind({});
  if (!bound.ok) throw new Error(bound.problems.join());
  const config = complete({ ...defaultOptions, allocateNodeCidrs: true, ...flags });
  const { context } = cluster.generation(plugin);
  const outcome = await bound.value(config, memory.cloud)(context);
  return { outcome, log: [...cluster.log] };
}

const starts = async (flags: Flags): Promise<void> => expect((await init(flags)).outcome).toHaveProperty("run");

const range = { clusterCidr: "10.0.0.0/21", serviceClusterIpRange: "10.1.0.0/21" };
const cloud = { ...range, cidrAllocatorType: "CloudAllocator" };

describe("the masks of node CIDRs", () => {
  test("valid_range_allocator", () => starts(range));
  test("valid_cloud_allocator", () => starts(cloud));
  test("valid_CIDR_smaller_than_mask_cloud_allocator", () => starts({ ...cloud, clusterCidr: "10.0.0.0/26" }));

  for (const [name, serviceClusterIpRange] of [
    ["valid_range_allocator_dualstack", "10.1.0.0/21"],
    ["valid_range_allocator_dualstack_dualstackservice", "10.1.0.0/21,3000::/10"],
  ] as const)
    test(`${name}: an IPv6 set that is too large is an error, not a crash`, async () => {
      const flags = { clusterCidr: "10.0.0.0/21,2000::/10", serviceClusterIpRange, nodeCidrMaskSizeIpv6: 98 };
      await expect(init(flags)).rejects.toThrow(
        "new CIDR set failed; the node CIDR size is too big: --node-cidr-mask-size-ipv6 is 98, and with --cluster-cidr 2000::/10 it may be at most 26",
      );
    });
});

describe("the controller starts", () => {
  for (const [name, flags] of [
    ["with a cluster of each family", { clusterCidr: "10.0.0.0/16,2001:db8::/48" }],
    ["with the families the other way round", { clusterCidr: "2001:db8::/48,10.0.0.0/16" }],
    ["with zeros before numbers in the cluster CIDR, and blanks around it", { clusterCidr: " 010.000.000.000/16 " }],
    ["without a service range", { clusterCidr: "10.0.0.0/16", serviceClusterIpRange: "" }],
    ["with one block for all", { clusterCidr: "10.0.0.0/24" }],
    ["with as many blocks as can be", { clusterCidr: "10.0.0.0/8", nodeCidrMaskSizeIpv4: 32 }],
  ] as const)
    test(name, () => starts(flags));

  test("the controller starts with a service range that Go's strict parser rejects, and excludes nothing", async () => {
    const { outcome, log } = await init({ ...range, serviceClusterIpRange: "010.1.0.0/21" });
    expect(outcome).toHaveProperty("run");
    expect(log.filter((each) => each.includes("Invalid service range"))).toHaveLength(1);
  });

  test("the controller starts with an invalid service range, and logs it", async () => {
    const { outcome, log } = await init({ ...range, serviceClusterIpRange: "10.1.0.0/21,nonsense" });
    expect(outcome).toHaveProperty("run");
    const [line = ""] = log.filter((each) => each.includes("Invalid service range"));
    expect(line).toContain("nonsense");
  });

  test("the controller starts with a service range that leaves no block for nodes, and logs it", async () => {
    const { outcome, log } = await init({ clusterCidr: "10.0.0.0/16", serviceClusterIpRange: "10.0.0.0/8" });
    expect(outcome).toHaveProperty("run");
    expect(log.join("\n")).toContain("The service range leaves nothing of the cluster CIDR for nodes");
    expect((await init(range)).log).toEqual([]);
    expect((await init({ clusterCidr: "10.0.0.0/16", serviceClusterIpRange: "10.0.0.0/17" })).log).toEqual([]);
  });

  test("the controller does not start without --allocate-node-cidrs, whatever the other flags say", async () => {
    const { outcome } = await init({ allocateNodeCidrs: false, clusterCidr: "nonsense" });
    expect(outcome).toEqual({ skipped: "--allocate-node-cidrs is false" });
  });
});

describe("the controller does not start, and logs the reason", () => {
  for (const [name, flags, message] of [
    ["without a cluster CIDR", { clusterCidr: "" }, 'invalid CIDR[0]: "" is not a CIDR'],
    [
      "valid_skip_cluster_CIDR_validation_for_cloud_allocator: nor with one that cannot be read",
      { ...cloud, clusterCidr: "10.0.0.0/16,invalid" },
      'invalid CIDR[1]: "invalid" is not a CIDR',
    ],
    [
      "with two clusters of one family",
      { clusterCidr: "10.0.0.0/16,10.1.0.0/16" },
      "len of ClusterCIDRs==2 and they are not configured as dual stack (at least one from each IPFamily",
    ],
    [
      "with three clusters",
      { clusterCidr: "10.0.0.0/16,2001:db8::/48,10.1.0.0/16" },
      "len of clusters is:3 > more than max allowed of 2",
    ],
    [
      "with nodes larger than the cluster",
      { clusterCidr: "10.0.0.0/26" },
      "--node-cidr-mask-size-ipv4 is 24, but --cluster-cidr 10.0.0.0/26 is smaller than one such block",
    ],
    ["with more bits than there are", { ...range, nodeCidrMaskSizeIpv4: 33 }, "but an address has only 32 bits"],
    [
      "with more blocks of IPv4 than can be kept count of",
      { clusterCidr: "0.0.0.0/4", nodeCidrMaskSizeIpv4: 30 },
      "with --cluster-cidr 0.0.0.0/4 it may be at most 28",
    ],
    [
      "with two service ranges of one family",
      { ...range, serviceClusterIpRange: "10.1.0.0/21,10.2.0.0/21" },
      "serviceCIDR and secondaryServiceCIDR are not dualstack (from different IPfamiles)",
    ],
    [
      "with an allocator that there is not",
      { ...range, cidrAllocatorType: "IPAMFromCloud" },
      "invalid CIDR allocator type: IPAMFromCloud",
    ],
  ] as const)
    test(name, async () => {
      await expect(init(flags)).rejects.toThrow(message);
    });

  test("the controller does not start, and logs the reason, with CloudAllocator and a cloud that does not return node mask sizes", async () => {
    await expect(init(cloud, memoryCloud({ name: "other", without: ["nodeMasks"] }))).rejects.toThrow(
      "cloudCIDRAllocator does not support other provider",
    );
  });
});

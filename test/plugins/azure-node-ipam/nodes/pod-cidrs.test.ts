import { describe, expect, test } from "bun:test";

import { parseCIDR } from "cloud-controller-host/sdk";

import { readPodCidrs } from "../../../../plugins/azure-node-ipam/nodes/pod-cidrs.ts";
import { aNode } from "../nodes.ts";

const range = {
  type: "RangeAllocator",
  clusters: ["10.244.0.0/20", "2001:db8::/48"].map((text) => parseCIDR(text)),
  masks: [24, 64],
} as const;

/** What no API server of today lets through is read as well: a node must never stand in the way of the others. */
describe("the pod CIDRs of a node", () => {
  for (const { name, podCIDRs, counted, problems } of [
    { name: "are read for each family", podCIDRs: ["10.244.1.7/24", "2001:db8:0:1::/64"], problems: [] },
    { name: "are read in either order of families", podCIDRs: ["2001:db8:0:1::/64", "10.244.1.0/24"], problems: [] },
    {
      name: "with an invalid one report it and keep the others",
      podCIDRs: ["banana", "10.244.1.0/24"],
      counted: ["10.244.1.0/24"],
      problems: ['PodCIDRInvalid: it is ignored: "banana" is not a CIDR such as 10.244.0.0/16'],
    },
    {
      name: "with too long a prefix report it",
      podCIDRs: ["10.244.1.0/24", "2001:db8::/999"],
      counted: ["10.244.1.0/24"],
      problems: ['PodCIDRInvalid: it is ignored: "2001:db8::/999" has a prefix of more than 128 bits'],
    },
    {
      name: "with a second one of a family report it and keep it",
      podCIDRs: ["10.244.0.0/24", "10.244.1.0/24"],
      counted: ["10.244.0.0/24", "10.244.1.0/24"],
      problems: ["PodCIDRInvalid: 10.244.1.0/24 is a second one of the same IP family"],
    },
    {
      name: "report all their problems at once",
      podCIDRs: ["", "192.168.0.0/24", "::/0"],
      counted: [],
      problems: [
        'PodCIDRInvalid: it is ignored: "" is not a CIDR such as 10.244.0.0/16',
        "PodCIDROutOfRange: 192.168.0.0/24 is out the range of cluster cidr 10.244.0.0/20,2001:db8::/48",
        "PodCIDRInvalid: ::/0 is ignored: it covers all of cluster cidr 2001:db8::/48",
      ],
    },
  ])
    test(name, () => {
      const read = readPodCidrs(aNode("node0", podCIDRs), range);
      const expected = counted ?? podCIDRs.map((text) => parseCIDR(text).text);
      expect(read.cidrs.map(({ text }) => text)).toEqual(expected);
      expect(read.problems.map(({ fault, message }) => `${fault}: ${message}`)).toEqual(problems);
    });

  test("come from podCIDR when podCIDRs is missing", () => {
    const { cidrs } = readPodCidrs({ metadata: { name: "node0" }, spec: { podCIDR: "10.244.1.0/24" } }, range);
    expect(cidrs.map(({ text }) => text)).toEqual(["10.244.1.0/24"]);
  });

  test("may be as large as the range where the node mask size allows it", () => {
    const whole = aNode("node0", ["10.244.0.0/20"]);
    expect(readPodCidrs(whole, range).cidrs).toEqual([]);
    expect(readPodCidrs(whole, { ...range, masks: [20, 64] }).cidrs).toHaveLength(1);
    expect(readPodCidrs(whole, { ...range, type: "CloudAllocator" }).cidrs).toHaveLength(1);
  });
});

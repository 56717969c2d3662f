import { describe, expect, test } from "bun:test";

import type { NodeAddress } from "cloud-controller-host/sdk";

import { addressesFromNodeIP } from "../../../plugins/cloud-node/provided-node-ip.ts";
import { processorMs } from "../../kit/processor-time.ts";

/** `I 10.0.0.1` is an InternalIP, `E` an ExternalIP, `H` a Hostname; `ID` and `ED` are DNS names. */
const types: Readonly<Record<string, string>> = {
  I: "InternalIP",
  E: "ExternalIP",
  H: "Hostname",
  ID: "InternalDNS",
  ED: "ExternalDNS",
};
function addresses(text: string): readonly NodeAddress[] {
  return text.split(", ").map((entry) => {
    const [type = "", address = ""] = entry.split(" ");
    return { type: types[type] ?? type, address };
  });
}

const v6 = "fc01:1234::5678";

interface Row {
  readonly name: string;
  readonly nodeIP: string;
  readonly cloud: string;
  /** Undefined: an error. */
  readonly want: string | undefined;
}

const rows: readonly Row[] = [
  { name: "A single InternalIP", nodeIP: "10.1.1.1", cloud: "I 10.1.1.1, H hostname", want: "I 10.1.1.1, H hostname" },
  {
    name: "NodeIP is external",
    nodeIP: "55.55.55.55",
    cloud: "I 10.1.1.1, E 55.55.55.55, H hostname",
    want: "E 55.55.55.55, I 10.1.1.1, H hostname",
  },
  {
    name: "InternalIP and ExternalIP are the same",
    nodeIP: "55.55.55.55",
    cloud: "I 44.44.44.44, E 44.44.44.44, I 55.55.55.55, E 55.55.55.55, H hostname",
    want: "I 55.55.55.55, E 55.55.55.55, H hostname",
  },
  {
    name: "An Internal/ExternalIP, an Internal/ExternalDNS",
    nodeIP: "10.1.1.1",
    cloud: "I 10.1.1.1, E 55.55.55.55, ID ip-10-1-1-1.internal, ED ip-55.external, H hostname",
    want: "I 10.1.1.1, E 55.55.55.55, ID ip-10-1-1-1.internal, ED ip-55.external, H hostname",
  },
  {
    name: "An Internal with multiple internal IPs",
    nodeIP: "10.1.1.1",
    cloud: "I 10.1.1.1, I 10.2.2.2, I 10.3.3.3, E 55.55.55.55, H hostname",
    want: "I 10.1.1.1, E 55.55.55.55, H hostname",
  },
  {
    name: "An InternalIP that isn't valid: should error",
    nodeIP: "10.2.2.2",
    cloud: "I 10.1.1.1, E 55.55.55.55, H hostname",
    want: undefined,
  },
  {
    name: "Dual-stack cloud, with nodeIP, different IPv6 formats",
    nodeIP: "2600:1f14:1d4:d101::ba3d",
    cloud: "I 10.1.1.1, I 2600:1f14:1d4:d101:0:0:0:ba3d, H hostname",
    want: "I 2600:1f14:1d4:d101:0:0:0:ba3d, H hostname",
  },
  {
    name: "Single-stack cloud, dual-stack request",
    nodeIP: `10.1.1.1,${v6}`,
    cloud: "I 10.1.1.1, H hostname",
    want: undefined,
  },
  {
    name: "Dual-stack cloud, IPv4 first, IPv4-primary request",
    nodeIP: `10.1.1.1,${v6}`,
    cloud: `I 10.1.1.1, I ${v6}, H hostname`,
    want: `I 10.1.1.1, I ${v6}, H hostname`,
  },
  {
    name: "Dual-stack cloud, IPv6 first, IPv4-primary request",
    nodeIP: `10.1.1.1,${v6}`,
    cloud: `I ${v6}, I 10.1.1.1, H hostname`,
    want: `I 10.1.1.1, I ${v6}, H hostname`,
  },
  {
    name: "Dual-stack cloud, dual-stack request, multiple IPs",
    nodeIP: `10.1.1.1,${v6}`,
    cloud: `I 10.1.1.1, I 10.1.1.2, I fc01:1234::1234, I ${v6}, H hostname`,
    want: `I 10.1.1.1, I ${v6}, H hostname`,
  },
  {
    name: "Dual-stack cloud, dual-stack request, extra ExternalIP",
    nodeIP: `10.1.1.1,${v6}`,
    cloud: `I 10.1.1.1, I 10.1.1.2, I fc01:1234::1234, I ${v6}, E 55.55.55.55, H hostname`,
    want: `I 10.1.1.1, I ${v6}, E 55.55.55.55, H hostname`,
  },
  {
    name: "Dual-stack cloud, dual-stack request, multiple ExternalIPs",
    nodeIP: `${v6},10.1.1.1`,
    cloud: `I 10.1.1.1, E 55.55.55.55, I ${v6}, E 2001:db1::1, H hostname`,
    want: `I ${v6}, I 10.1.1.1, E 55.55.55.55, E 2001:db1::1, H hostname`,
  },
  {
    name: "Dual-stack cloud, dual-stack request, mixed InternalIP/ExternalIP match",
    nodeIP: `55.55.55.55,${v6}`,
    cloud: `I 10.1.1.1, E 55.55.55.55, I ${v6}, E 2001:db1::1, H hostname`,
    want: `E 55.55.55.55, I ${v6}, H hostname`,
  },
];

describe("addresses by the node IP that kubelet provides", () => {
  for (const { name, nodeIP, cloud, want } of rows)
    test(name, () => {
      const choose = (): readonly NodeAddress[] => addressesFromNodeIP(nodeIP, addresses(cloud));
      if (want === undefined) expect(choose).toThrow("failed to get node address from cloud provider that matches ip");
      else expect(choose()).toEqual(addresses(want));
    });
});

describe("the provided node IP", () => {
  const cloud = addresses(`I 10.0.0.1, I ${v6}, H hostname`);
  const refused: readonly (readonly [nodeIP: string, why: string])[] = [
    ["", 'failed to parse node IP "": could not parse ""'],
    ["invalid-ip", 'failed to parse node IP "invalid-ip": could not parse "invalid-ip"'],
    [`10.0.0.1, ${v6}`, `could not parse " ${v6}"`],
    ["10.0.0.256", 'could not parse "10.0.0.256"'],
    ["10.0.1", 'could not parse "10.0.1"'],
    ["fe80::1%eth0", 'could not parse "fe80::1%eth0"'],
    ["10.0.0.1,10.0.0.2", "must contain either a single IP or a dual-stack pair of IPs"],
    [`10.0.0.1,${v6},10.0.0.2`, "must contain either a single IP or a dual-stack pair of IPs"],
    ["10.0.0.1,::ffff:10.0.0.2", "must contain either a single IP or a dual-stack pair of IPs"],
    [`0.0.0.0,${v6}`, "dual-stack node IP cannot include '0.0.0.0' or '::'"],
    ["10.0.0.1,::", "dual-stack node IP cannot include '0.0.0.0' or '::'"],
  ];
  for (const [nodeIP, why] of refused)
    test(`rejects "${nodeIP}"`, () => {
      expect(() => addressesFromNodeIP(nodeIP, cloud)).toThrow(why);
    });

  test("is rejected in little time when a kubelet has written a hundred kilobytes", () => {
    const hostile = "1:".repeat(125_000);
    const reject = (): void => {
      for (let round = 0; round < 5; round++)
        expect(() => addressesFromNodeIP(hostile, [])).toThrow("failed to parse node IP");
    };
    expect(processorMs(reject)).toBeLessThan(200);
  });

  test("reads octets of an IPv4 address as decimal, leading zeros included", () => {
    expect(addressesFromNodeIP("010.000.00.01", cloud)).toEqual(addresses("I 10.0.0.1, H hostname"));
  });

  test("reads octets of an IPv4 address up to 255", () => {
    const last = addresses("I 10.255.255.255");
    expect(addressesFromNodeIP("10.255.255.255", last)).toEqual(last);
  });

  test("treats an IPv4 address and its IPv4-mapped IPv6 address as equal", () => {
    expect(addressesFromNodeIP("::ffff:10.0.0.1", cloud)).toEqual(addresses("I 10.0.0.1, H hostname"));
  });
});

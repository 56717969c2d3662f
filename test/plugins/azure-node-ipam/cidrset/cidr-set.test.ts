import { describe, expect, test } from "bun:test";

import { parseCIDR } from "cloud-controller-host/sdk";

import { CidrSet } from "../../../../plugins/azure-node-ipam/cidrset/cidr-set.ts";

const newSet = (cluster: string, mask: number): CidrSet => new CidrSet(parseCIDR(cluster), mask);

function allocateNext(set: CidrSet): string | undefined {
  const found = set.findNext();
  if (found !== undefined) set.take(found);
  return found?.cidr.text;
}

function allocateNextWithMask(set: CidrSet, mask: number): string | undefined {
  const found = set.findAligned(mask);
  if (found !== undefined) set.mark(found);
  return found?.cidr.text;
}

function rangeOf(set: CidrSet, cidr: string): { readonly first: number; readonly last: number } {
  const range = set.rangeOf(parseCIDR(cidr));
  if (range === undefined) throw new Error(`${cidr} is out of the set`);
  return range;
}
const occupy = (set: CidrSet, cidr: string): number => set.mark(rangeOf(set, cidr));
const release = (set: CidrSet, cidr: string): number => set.clear(rangeOf(set, cidr));

function allocateAll(set: CidrSet, count: number): readonly string[] {
  const allocated: string[] = [];
  for (let index = 0; index < count; index++) allocated.push(allocateNext(set) ?? "none");
  return allocated;
}

const families = ["IPv4", "IPv6"] as const;

describe("a full CIDR set", () => {
  for (const [family, cluster] of [
    ["IPv4", "127.123.234.0/30"],
    ["IPv6", "beef:1234::/30"],
  ] as const)
    test(`Fully allocated CIDR with ${family}`, () => {
      const set = newSet(cluster, 30);
      const whole = parseCIDR(cluster).text;
      expect(allocateNext(set)).toBe(whole);
      expect(allocateNext(set)).toBeUndefined();
      release(set, whole);
      expect(allocateNext(set)).toBe(whole);
      expect(allocateNext(set)).toBeUndefined();
    });
});

describe("a full CIDR set with node mask sizes", () => {
  for (const [family, cluster] of [
    ["IPv4", "127.123.234.0/30"],
    ["IPv6", "beef:1234::/30"],
  ] as const)
    test(`Fully allocated CIDR with ${family}`, () => {
      const set = newSet(cluster, 30);
      const whole = parseCIDR(cluster).text;
      expect(allocateNextWithMask(set, 30)).toBe(whole);
      expect(allocateNext(set)).toBeUndefined();
      release(set, whole);
      expect(allocateNext(set)).toBe(whole);
      expect(allocateNext(set)).toBeUndefined();
    });
});

describe("a partly allocated CIDR set with node mask sizes", () => {
  const small = ["127.123.234.0/30", "beef:1234::/30"] as const;
  const large = ["10.244.0.0/16", "beef::/16"] as const;
  const upTo = (first: number, last: number): readonly number[] =>
    Array.from({ length: last - first + 1 }, (_, index) => first + index);
  const rows: readonly {
    readonly clusters: readonly [string, string];
    readonly finest: number;
    readonly wanted: number;
    readonly free: readonly number[];
    readonly expected?: readonly [string, string];
  }[] = [
    { clusters: small, finest: 32, wanted: 31, free: [0, 3] },
    { clusters: small, finest: 32, wanted: 31, free: [1, 2] },
    { clusters: small, finest: 32, wanted: 31, free: [2] },
    { clusters: small, finest: 32, wanted: 31, free: [2, 3], expected: ["127.123.234.2/31", "beef:1236::/31"] },
    { clusters: small, finest: 32, wanted: 31, free: [0, 1, 2], expected: ["127.123.234.0/31", "beef:1234::/31"] },
    { clusters: large, finest: 20, wanted: 17, free: upTo(8, 15), expected: ["10.244.128.0/17", "beef:8000::/17"] },
    { clusters: large, finest: 20, wanted: 17, free: upTo(8, 14) },
    {
      clusters: large,
      finest: 20,
      wanted: 19,
      free: [1, 3, 5, 7, 9, 11, 12, 13, 14],
      expected: ["10.244.192.0/19", "beef:c000::/19"],
    },
    { clusters: large, finest: 20, wanted: 19, free: [1, 3, 5, 7, 9, 11, 13, 14] },
  ];
  for (const { clusters, finest, wanted, free, expected } of rows)
    for (const [index, family] of families.entries()) {
      const room = expected === undefined ? "but there is not enough room" : "and there is enough room";
      test(`Partly allocated CIDR ${room} with ${family}: /${wanted} where ${free.join()} of /${finest} are free`, () => {
        const cluster = clusters[index] ?? "";
        const set = newSet(cluster, finest);
        occupy(set, cluster);
        for (const block of free) set.clear({ first: block, last: block });
        expect(allocateNextWithMask(set, wanted)).toBe(expected?.[index]);
      });
    }
});

describe("blocks by index", () => {
  for (const [name, cluster, mask, index, block] of [
    ["1st IP address indexed with IPv4", "127.123.3.0/16", 24, 0, "127.123.0.0/24"],
    ["16th IP address indexed with IPv4", "127.123.0.0/16", 24, 15, "127.123.15.0/24"],
    ["5th IP address indexed with IPv4", "192.168.5.219/28", 32, 5, "192.168.5.213/32"],
    ["1st IP address indexed with IPv6 /64", "2001:db8:1234:3::/48", 64, 0, "2001:db8:1234::/64"],
    ["16th IP address indexed with IPv6 /64", "2001:db8:1234::/48", 64, 15, "2001:db8:1234:f::/64"],
    ["6426th IP address indexed with IPv6 /63", "2001:db8:85a3::8a2e:370:7334/50", 63, 6425, "2001:db8:85a3:3232::/63"],
    ["1st IP address indexed with IPv6 /48", "2001:db8::/32", 48, 0, "2001:db8::/48"],
    ["16th IP address indexed with IPv6 /48", "2001:db8::/32", 48, 15, "2001:db8:f::/48"],
    ["6426th IP address indexed with IPv6 /48", "2001:db8:85a3::8a2e:370:7334/32", 48, 6425, "2001:db8:1919::/48"],
    ["1st IP address indexed with IPv6 /72", "2001:db8:1234:ff00::/56", 72, 0, "2001:db8:1234:ff00::/72"],
    ["16th IP address indexed with IPv6 /72", "2001:db8:1234:ff00::/56", 72, 15, "2001:db8:1234:ff00:f00::/72"],
    [
      "6426th IP address indexed with IPv6 /72",
      "2001:db8:1234:ff00::370:7334/56",
      72,
      6425,
      "2001:db8:1234:ff19:1900::/72",
    ],
    ["1st IP address indexed with IPv6 /96", "2001:db8:1234:0:1234::/80", 96, 0, "2001:db8:1234:0:1234::/96"],
    ["16th IP address indexed with IPv6 /96", "2001:db8:1234:0:1234::/80", 96, 15, "2001:db8:1234:0:1234:f::/96"],
    [
      "6426th IP address indexed with IPv6 /96",
      "2001:db8:1234:ff00::370:7334/80",
      96,
      6425,
      "2001:db8:1234:ff00:0:1919::/96",
    ],
  ] as const)
    test(name, () => {
      expect(newSet(cluster, mask).cidrAt(index).text).toBe(block);
    });
});

describe("allocations in random order", () => {
  for (const [family, cluster] of [
    ["IPv4", "127.123.0.0/16"],
    ["IPv6", "beef::/16"],
  ] as const)
    test(`RandomishAllocation with ${family}`, () => {
      const set = newSet(cluster, 24);
      const first = allocateAll(set, 256);
      expect(new Set(first).size).toBe(256);
      expect(allocateNext(set)).toBeUndefined();
      for (const cidr of first) release(set, cidr);
      expect(allocateAll(set, 256)).toEqual(first);
      expect(allocateNext(set)).toBeUndefined();
    });
});

describe("allocations beside occupied blocks", () => {
  for (const [family, cluster] of [
    ["IPv4", "127.123.0.0/16"],
    ["IPv6", "beef::/16"],
  ] as const)
    test(`AllocationOccupied with ${family}`, () => {
      const set = newSet(cluster, 24);
      const all = allocateAll(set, 256);
      for (const cidr of all) release(set, cidr);
      for (const cidr of all.slice(128)) occupy(set, cidr);
      occupy(set, all[128] ?? "");
      expect(allocateAll(set, 128)).toEqual(all.slice(0, 128));
      expect(allocateNext(set)).toBeUndefined();
    });
});

test("a block that is occupied or released twice counts once", () => {
  const set = newSet("10.42.0.0/16", 24);
  const used: number[] = [];
  for (const [work, cidr] of [
    [occupy, "10.42.5.0/24"],
    [occupy, "10.42.9.0/24"],
    [occupy, "10.42.8.0/22"],
    [occupy, "10.42.9.0/24"],
    [release, "10.42.9.0/24"],
    [release, "10.42.9.0/24"],
    [release, "10.42.4.0/22"],
  ] as const) {
    work(set, cidr);
    used.push(set.used);
  }
  expect(used).toEqual([1, 2, 5, 5, 4, 4, 3]);
  expect(new Set(allocateAll(set, 253))).not.toContain("none");
  expect(allocateNext(set)).toBeUndefined();
});

describe("the index of a CIDR", () => {
  for (const [name, cluster, mask, block, index] of [
    ["Get 0 Bit with IPv4", "127.0.0.0/8", 16, "127.0.0.0/16", 0],
    ["Get 0 Bit with IPv6", "be00::/8", 16, "be00::/16", 0],
    ["Get 123rd Bit with IPv4", "127.0.0.0/8", 16, "127.123.0.0/16", 123],
    ["Get xef Bit with IPv6", "be00::/8", 16, "beef::/16", 0xef],
    ["Get 168th Bit with IPv4", "127.0.0.0/8", 16, "127.168.0.0/16", 168],
    ["Get x68th Bit with IPv6", "be00::/8", 16, "be68::/16", 0x68],
    ["Get 224th Bit with IPv4", "127.0.0.0/8", 16, "127.224.0.0/16", 224],
    ["Get x24th Bit with IPv6", "be00::/8", 16, "be24::/16", 0x24],
    ["Get 12th Bit with IPv4", "192.168.0.0/16", 24, "192.168.12.0/24", 12],
    ["Get x12th Bit with IPv6", "beef::/16", 24, "beef:1200::/24", 0x12],
    ["Get 151st Bit with IPv4", "192.168.0.0/16", 24, "192.168.151.0/24", 151],
    ["Get x97st Bit with IPv6", "beef::/16", 24, "beef:9700::/24", 0x97],
    ["Get error with IPv4", "192.168.0.0/16", 24, "127.168.224.0/24", undefined],
    ["Get error with IPv6", "beef::/16", 24, "2001:db00::/24", undefined],
  ] as const)
    test(name, () => {
      expect(newSet(cluster, mask).rangeOf(parseCIDR(block))).toEqual(
        index === undefined ? undefined : { first: index, last: index },
      );
    });
});

describe("occupying CIDRs", () => {
  for (const [name, rows, first, last] of [
    [
      "Occupy all Bits",
      [
        ["127.0.0.0/8", 16, "127.0.0.0/8"],
        ["2001:beef:1200::/40", 48, "2001:beef:1200::/40"],
      ],
      0,
      255,
    ],
    [
      "Occupy every Bit",
      [
        ["127.0.0.0/8", 16, "127.0.0.0/2"],
        ["2001:beef:1200::/40", 48, "2001:beef:1234::/34"],
      ],
      0,
      255,
    ],
    [
      "Occupy 1st Bit",
      [
        ["127.0.0.0/8", 16, "127.0.0.0/16"],
        ["2001:beef:1200::/40", 48, "2001:beef:1200::/48"],
      ],
      0,
      0,
    ],
    [
      "Occupy 65535 Bits",
      [
        ["127.0.0.0/8", 32, "127.0.0.0/16"],
        ["2001:beef:1200::/48", 64, "2001:beef:1200::/48"],
      ],
      0,
      65_535,
    ],
    [
      "Occupy 257th Bit",
      [
        ["127.0.0.0/7", 16, "127.0.0.0/15"],
        ["2001:beef:7f00::/39", 48, "2001:beef:7f00::/47"],
      ],
      256,
      257,
    ],
    [
      "Occupy 128th Bit",
      [
        ["127.0.0.0/7", 15, "127.0.0.0/15"],
        ["2001:beef:7f00::/39", 47, "2001:beef:7f00::/47"],
      ],
      128,
      128,
    ],
    [
      "Occupy 1031st Bit",
      [
        ["127.0.0.0/7", 18, "127.0.0.0/15"],
        ["2001:beef:7f00::/39", 50, "2001:beef:7f00::/47"],
      ],
      1024,
      1031,
    ],
  ] as const)
    for (const [index, [cluster, mask, block]] of rows.entries())
      test(`${name} with ${families[index]}`, () => {
        const set = newSet(cluster, mask);
        const count = last - first + 1;
        expect(occupy(set, block)).toBe(count);
        expect(set.used).toBe(count);
        expect(set.isUsed(first) && set.isUsed(last)).toBe(true);
        expect(set.isUsed(first - 1) || set.isUsed(last + 1)).toBe(false);
      });
});

describe("a CIDR set of IPv6", () => {
  test("Max cluster subnet size with IPv4", () => {
    expect(allocateAll(newSet("127.0.0.0/8", 32), 2)).toEqual(["127.0.0.0/32", "127.0.0.1/32"]);
  });
  test("Max cluster subnet size with IPv6", () => {
    expect(() => newSet("beef:1234::/32", 49)).toThrow("new CIDR set failed; the node CIDR size is too big");
  });
  test("Allocate a few IPv6", () => {
    const allocated = allocateAll(newSet("2001:beef:1234:369b::/60", 64), 2);
    expect(allocated).toEqual(["2001:beef:1234:3690::/64", "2001:beef:1234:3691::/64"]);
  });
});

describe("a CIDR set", () => {
  test("rejects more IPv4 blocks than its counter can represent", () => {
    expect(newSet("10.0.0.0/8", 32).size).toBe(2 ** 24);
    expect(() => newSet("8.0.0.0/7", 32)).toThrow("too big");
  });

  for (const mask of [15, 33, 0, -1])
    test(`rejects blocks of size /${mask} in an IPv4 /16`, () => {
      expect(() => newSet("10.244.0.0/16", mask)).toThrow("new CIDR set failed; 10.244.0.0/16 holds no block");
    });

  test("reuses a released block only after all others", () => {
    const set = newSet("10.0.0.0/22", 24);
    expect(allocateNext(set)).toBe("10.0.0.0/24");
    release(set, "10.0.0.0/24");
    expect(allocateAll(set, 4)).toEqual(["10.0.1.0/24", "10.0.2.0/24", "10.0.3.0/24", "10.0.0.0/24"]);
  });

  test("reports the number of blocks that it examined", () => {
    const set = newSet("10.0.0.0/16", 24);
    occupy(set, "10.0.0.0/17");
    expect(set.findNext()?.tries).toBe(128);
    expect(set.findAligned(24)?.tries).toBe(129);
    expect(set.findAligned(17)?.tries).toBe(2);
    expect(set.findAligned(16)).toBeUndefined();
  });
});

import { describe, expect, test } from "bun:test";

import { containsAddress, lastAddress, messageOf, parseCIDR } from "cloud-controller-host/sdk";
import * as fc from "fast-check";

import { isResponsibleFor, readClusterCIDRs } from "../../../plugins/route/cluster-cidrs.ts";

describe("routes in the cluster CIDRs", () => {
  test.each([
    ["10.244.0.0/16", "10.244.0.0/24", true],
    ["10.244.0.0/16", "10.244.10.0/24", true],
    ["10.244.0.0/16", "10.244.255.0/24", true],
    ["10.244.0.0/14", "10.244.0.0/24", true],
    ["10.244.0.0/14", "10.247.255.0/24", true],
    ["a00:100::/10", "a00:100::/24", true],
    ["10.244.0.0/16", "10.224.0.0/24", false],
    ["10.244.0.0/16", "10.0.10.0/24", false],
    ["10.244.0.0/16", "10.255.255.0/24", false],
    ["10.244.0.0/14", "10.248.0.0/24", false],
    ["10.244.0.0/14", "10.243.255.0/24", false],
    ["a00:100::/10", "b00:100::/24", false],
  ] as const)("cluster %s, route %s", (cluster, route, ours) => {
    expect(isResponsibleFor(readClusterCIDRs(cluster), route)).toBe(ours);
  });

  test("a wider route is ours exactly when its first or last address is in a cluster CIDR", () => {
    const cluster = readClusterCIDRs("10.240.0.0/16");
    expect(isResponsibleFor(cluster, "10.240.0.0/12")).toBe(true);
    expect(isResponsibleFor(readClusterCIDRs("10.255.0.0/16"), "10.240.0.0/12")).toBe(true);
    expect(isResponsibleFor(cluster, "10.0.0.0/8")).toBe(false);
  });

  test("a destination of the other family is not ours, even with the same bytes", () => {
    expect(isResponsibleFor(readClusterCIDRs("10.244.0.0/16"), "::af4:100/120")).toBe(false);
    expect(isResponsibleFor(readClusterCIDRs("::af4:0/112"), "::af4:100/120")).toBe(true);
  });

  test("a route in either of two cluster CIDRs is ours", () => {
    const cluster = readClusterCIDRs("10.244.0.0/16,fd00::/48");
    expect(isResponsibleFor(cluster, "fd00:0:0:1::/64")).toBe(true);
    expect(isResponsibleFor(cluster, "10.244.1.0/24")).toBe(true);
    expect(isResponsibleFor(cluster, "fd01::/64")).toBe(false);
  });

  test.each(["", "10.244.0.0", "VirtualNetwork", "10.244.0.0/33", "10.244.0.0/24/1"])(
    "a destination that is not a CIDR is not ours: %p",
    (destination) => {
      expect(isResponsibleFor(readClusterCIDRs("10.244.0.0/16"), destination)).toBe(false);
    },
  );
});

const problemWith = (flag: string): string => {
  try {
    readClusterCIDRs(flag);
    return "";
  } catch (error) {
    return messageOf(error);
  }
};

describe("--cluster-cidr", () => {
  test("accepts one CIDR of either family, or one of each in either order", () => {
    for (const flag of ["10.244.0.0/16", "fd00::/48", " 10.244.0.0/16,fd00::/48 ", "fd00::/48,10.244.0.0/16"])
      expect(problemWith(flag)).toBe("");
  });

  test.each([
    ["", "invalid CIDR[0]: "],
    ["10.244.0.0/16,nonsense", "invalid CIDR[1]: "],
    ["10.244.0.0/16, fd00::/48", "invalid CIDR[1]: "],
    ["10.244.0.0/16,10.245.0.0/16", "len of ClusterCIDRs==2 and they are not configured as dual stack"],
    ["10.0.0.0/16,10.1.0.0/16,10.2.0.0/16", "len of ClusterCIDRs==3 and they are not configured as dual stack"],
    ["10.0.0.0/16,10.1.0.0/16,fd00::/48", "length of clusterCIDRs is:3 more than max allowed of 2"],
  ])("rejects %p with upstream's message", (flag, problem) => {
    expect(problemWith(flag)).toStartWith(problem);
  });

  test("the message for a missing flag includes the remedy", () => {
    expect(problemWith("")).toContain("--configure-cloud-routes=false");
  });
});

const toBigInt = (bytes: Uint8Array): bigint => bytes.reduce((sum, byte) => (sum << 8n) | BigInt(byte), 0n);

const dotted = (value: bigint): string =>
  [24n, 16n, 8n, 0n].map((shift) => ((value >> shift) & 0xffn).toString()).join(".");

describe("a CIDR", () => {
  test.each([
    ["10.244.3.7/24", 0x0af40300n, 0x0af403ffn],
    ["010.008.0.0/16", 0x0a080000n, 0x0a08ffffn],
    ["0.0.0.0/0", 0n, 0xffff_ffffn],
    ["255.255.255.255/32", 0xffff_ffffn, 0xffff_ffffn],
    ["::/0", 0n, (1n << 128n) - 1n],
    ["fd00::1/128", (0xfdn << 120n) + 1n, (0xfdn << 120n) + 1n],
  ])("%s has its first and last address", (text, first, last) => {
    const cidr = parseCIDR(text);
    expect([toBigInt(cidr.bytes), toBigInt(lastAddress(cidr))]).toEqual([first, last]);
  });

  test.each([
    "10.0.0.0/",
    "10.0.0/16",
    "10/8",
    "0x0a.0.0.0/8",
    "10.0.0.256/32",
    "fe80::1%eth0/64",
    "::/129",
    "1::2::3/8",
  ])("is invalid as %p", (text) => {
    expect(() => parseCIDR(text)).toThrow();
  });

  const seed = 20_260_103;

  test(`contains exactly the addresses that share its prefix (seed ${seed})`, () => {
    const address = fc.bigInt({ min: 0n, max: 0xffff_ffffn });
    fc.assert(
      fc.property(address, address, fc.integer({ min: 0, max: 32 }), (base, other, length) => {
        const range = parseCIDR(`${dotted(base)}/${length}`);
        const shift = BigInt(32 - length);
        expect(containsAddress(range, parseCIDR(`${dotted(other)}/32`).bytes)).toBe(base >> shift === other >> shift);
      }),
      { seed, numRuns: 1000 },
    );
  });
});

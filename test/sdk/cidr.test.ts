import { describe, expect, test } from "bun:test";

import {
  addressBits,
  cidrAround,
  cidrsOverlap,
  containsAddress,
  lastAddress,
  parseCIDR,
} from "cloud-controller-host/sdk";
import * as fc from "fast-check";

import { processorMs } from "../kit/processor-time.ts";

const seed = 20_261_121;

describe("parsing a CIDR", () => {
  test.each([
    ["10.244.0.0/16", "10.244.0.0/16"],
    ["10.10.0.1/24", "10.10.0.0/24"],
    ["010.010.000.001/24", "10.10.0.0/24"],
    ["10.0.0.0/08", "10.0.0.0/8"],
    ["0.0.0.0/0", "0.0.0.0/0"],
    ["255.255.255.255/32", "255.255.255.255/32"],
    ["2001:DB8:0:0:0:0:0:1/64", "2001:db8::/64"],
    ["2001:db8:1234:0:1234::/80", "2001:db8:1234:0:1234::/80"],
    ["fd00::1/128", "fd00::1/128"],
    ["::/0", "::/0"],
  ])("reads %s as %s", (text, canonical) => {
    expect(parseCIDR(text).text).toBe(canonical);
  });

  test.each([
    "",
    "10.0.0.0",
    "10.0.0.0/",
    "10.0.0.0/33",
    "10.0.0.0/-1",
    "10.0.0.0/+8",
    "10.0.0.0/8/8",
    "10.0.0/16",
    "10/8",
    "0x0a.0.0.0/8",
    "10.0.0.256/32",
    " 10.0.0.0/8",
    "fe80::1%eth0/64",
    "::/129",
    "1::2::3/8",
    "*",
  ])("rejects %p with InvalidCIDR and quotes it", (text) => {
    expect(() => parseCIDR(text)).toThrow(
      expect.objectContaining({ code: "InvalidCIDR", message: expect.stringContaining(JSON.stringify(text)) }),
    );
  });

  test("rejects leading zeros only when strict", () => {
    expect(() => parseCIDR("10.010.0.0/16", { strict: true })).toThrow("leading zero");
    expect(parseCIDR("10.10.0.0/16", { strict: true }).text).toBe("10.10.0.0/16");
    expect(parseCIDR("fd00:0db8::/32", { strict: true }).text).toBe("fd00:db8::/32");
  });
});

const address = fc.oneof(
  fc.uint8Array({ minLength: 4, maxLength: 4 }),
  fc.uint8Array({ minLength: 16, maxLength: 16 }),
);
const numberOf = (bytes: Uint8Array): bigint => bytes.reduce((sum, byte) => (sum << 8n) | BigInt(byte), 0n);
const block = address.chain((bytes) =>
  fc.integer({ min: 0, max: bytes.length * 8 }).map((prefix) => cidrAround(bytes, prefix)),
);

describe("a CIDR", () => {
  test(`is unchanged by printing and parsing it (seed ${seed})`, () => {
    fc.assert(
      fc.property(block, (cidr) => expect(parseCIDR(cidr.text, { strict: true })).toEqual(cidr)),
      { seed, numRuns: 1000 },
    );
  });

  test(`contains exactly the addresses from its first to its last (seed ${seed})`, () => {
    fc.assert(
      fc.property(block, address, (cidr, other) => {
        const [first, last] = [numberOf(cidr.bytes), numberOf(lastAddress(cidr))];
        const size = 1n << BigInt(addressBits[cidr.family] - cidr.prefix);
        expect(last - first + 1n).toBe(size);
        const near = cidr.bytes.length === other.length;
        const expected = near && first <= numberOf(other) && numberOf(other) <= last;
        expect(containsAddress(cidr, other)).toBe(expected);
        expect(containsAddress(cidr, lastAddress(cidr))).toBe(true);
      }),
      { seed, numRuns: 2000 },
    );
  });

  test(`overlaps another one exactly when they share an address (seed ${seed})`, () => {
    fc.assert(
      fc.property(block, block, (one, other) => {
        const shared =
          one.family === other.family &&
          numberOf(one.bytes) <= numberOf(lastAddress(other)) &&
          numberOf(other.bytes) <= numberOf(lastAddress(one));
        expect(cidrsOverlap(one, other)).toBe(shared);
      }),
      { seed, numRuns: 2000 },
    );
  });

  test("does not share memory with the address that it was created from", () => {
    const bytes = Uint8Array.of(10, 1, 2, 3);
    const cidr = cidrAround(bytes, 8);
    bytes[0] = 11;
    expect(cidr.bytes).toEqual(Uint8Array.of(10, 0, 0, 0));
  });
});

test("a long text that begins like an IPv6 address is refused in little time", () => {
  const hostile = `${"1:".repeat(250_000)}/64`;
  expect(processorMs(() => expect(() => parseCIDR(hostile)).toThrow("is not a CIDR"))).toBeLessThan(500);
});

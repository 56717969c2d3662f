import { describe, expect, test } from "bun:test";

import { cidrAround, cidrsOverlap, parseCIDR } from "cloud-controller-host/sdk";
import * as fc from "fast-check";

import { bitsBetween, withBits } from "../../../../plugins/azure-node-ipam/cidrset/cidr-set.ts";

const seed = 20_261_120;

describe("a CIDR", () => {
  for (const [given, text] of [
    ["10.244.0.0/16", "10.244.0.0/16"],
    ["10.10.0.1/24", "10.10.0.0/24"],
    ["010.010.000.001/24", "10.10.0.0/24"],
    ["0.0.0.0/0", "0.0.0.0/0"],
    ["255.255.255.255/32", "255.255.255.255/32"],
    ["2001:DB8:0:0:0:0:0:1/64", "2001:db8::/64"],
    ["2001:db8:1234:0:1234::/80", "2001:db8:1234:0:1234::/80"],
    ["ace:cab:deca::/8", "a00::/8"],
    ["::/0", "::/0"],
    ["::1/128", "::1/128"],
  ] as const)
    test(`parses ${given} as ${text}`, () => {
      expect(parseCIDR(given).text).toBe(text);
    });

  for (const text of [
    "",
    "10.0.0.0",
    "10.0.0.0/",
    "10.0.0.0/33",
    "10.0.0/8",
    "10.0.0.256/8",
    "0x0a.0.0.0/8",
    "10.0.0.0/8/8",
    "10.0.0.0/-1",
    " 10.0.0.0/8",
    "2001:db8::/129",
    "fe80::1%eth0/64",
    "2001:db8::1::/64",
    "node",
  ])
    test(`rejects ${JSON.stringify(text)} and quotes it`, () => {
      expect(() => parseCIDR(text)).toThrow(JSON.stringify(text));
    });

  test("a CIDR with a leading zero is accepted like in Go's sloppy parser, and rejected in strict mode", () => {
    expect(() => parseCIDR("10.00.0.0/16", { strict: true })).toThrow("has a number with a leading zero");
    expect(parseCIDR("10.0.100.0/24", { strict: true }).text).toBe("10.0.100.0/24");
    expect(parseCIDR("2001:0db8::/32", { strict: true }).text).toBe("2001:db8::/32");
  });
});

const toBigInt = (bytes: Uint8Array): bigint => bytes.reduce((sum, byte) => (sum << 8n) | BigInt(byte), 0n);

const address = fc.constantFrom(4, 16).chain((length) => fc.uint8Array({ minLength: length, maxLength: length }));
const block = address.chain((bytes) =>
  fc.integer({ min: 0, max: bytes.length * 8 }).map((prefix) => cidrAround(bytes.slice(), prefix)),
);

describe(`byte arithmetic matches bigint arithmetic (seed ${seed})`, () => {
  test("printing and parsing a block returns that block", () => {
    fc.assert(
      fc.property(block, (cidr) => {
        expect(parseCIDR(cidr.text)).toEqual(cidr);
      }),
      { seed },
    );
  });

  test("two blocks overlap exactly when the smaller starts inside the larger", () => {
    const pair = fc.oneof(
      fc.tuple(block, block),
      // Blocks of the same neighbourhood, so that many of them do overlap.
      fc.tuple(address, fc.nat(32), fc.nat(32)).map(([bytes, one, other]) => {
        return [cidrAround(bytes.slice(), one), cidrAround(bytes.slice(), other)] as const;
      }),
    );
    fc.assert(
      fc.property(pair, ([one, other]) => {
        const range = ({ bytes, prefix }: typeof one): readonly [bigint, bigint] => {
          const first = toBigInt(bytes);
          return [first, first + (1n << BigInt(bytes.length * 8 - prefix)) - 1n];
        };
        const [[first, last], [otherFirst, otherLast]] = [range(one), range(other)];
        const expected = one.family === other.family && first <= otherLast && otherFirst <= last;
        expect(cidrsOverlap(one, other)).toBe(expected);
      }),
      { seed, numRuns: 500 },
    );
  });

  test("reads and writes bits at any offset, across byte boundaries", () => {
    const place = address.chain((bytes) =>
      fc.integer({ min: 0, max: bytes.length * 8 }).chain((from) =>
        fc.integer({ min: 0, max: Math.min(24, bytes.length * 8 - from) }).chain((count) =>
          fc.record({
            bytes: fc.constant(bytes),
            from: fc.constant(from),
            count: fc.constant(count),
            value: fc.nat(2 ** count - 1),
          }),
        ),
      ),
    );
    fc.assert(
      fc.property(place, ({ bytes, from, count, value }) => {
        const width = bytes.length * 8;
        const shift = BigInt(width - from - count);
        const expected = Number((toBigInt(bytes) >> shift) & ((1n << BigInt(count)) - 1n));
        expect(bitsBetween(bytes, from, from + count)).toBe(expected);

        const { bytes: cleared } = cidrAround(bytes.slice(), from);
        expect(toBigInt(withBits(cleared, from, from + count, value))).toBe(
          toBigInt(cleared) | (BigInt(value) << shift),
        );
      }),
      { seed, numRuns: 500 },
    );
  });
});

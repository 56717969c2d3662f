import { describe, expect, test } from "bun:test";

import { certKeys, int32s, type NamedCertKey, version, vmodule } from "../../../../host/config/flags/flag-types.ts";
import type { Parsed } from "../../../../host/config/values/parsed.ts";
import {
  parseBool,
  parseFloat32,
  parseInteger,
  parseIP,
  parseLevel,
  parseQuantity,
} from "../../../../host/config/values/values.ts";

const outcome = <T>(parsed: Parsed<T>): T | string => (parsed.ok ? parsed.value : parsed.problem);

describe("parsing single values as Go's flags do", () => {
  test.each(["1", "t", "T", "TRUE", "true", "True"])("%s is true", (text) => {
    expect(outcome(parseBool(text))).toBe(true);
  });
  test.each(["0", "f", "F", "FALSE", "false", "False"])("%s is false", (text) => {
    expect(outcome(parseBool(text))).toBe(false);
  });
  test.each(["", "yes", "tRUE", "2"])("%p is neither", (text) => {
    expect(outcome(parseBool(text))).toBe("must be true or false");
  });

  const integers: readonly [text: string, result: number | string][] = [
    ["10258", 10_258],
    ["-1", -1],
    ["+7", 7],
    ["0", 0],
    ["0x1F", 31],
    ["0b101", 5],
    ["0o17", 15],
    ["017", 15],
    ["1_000", 1000],
    ["2147483647", 2_147_483_647],
    ["-2147483648", -2_147_483_648],
    ["2147483648", "must be a whole number from -2147483648 to 2147483647"],
    ["", "must be a whole number"],
    ["1.5", "must be a whole number"],
    ["09", "must be a whole number"],
    [" 1", "must be a whole number"],
    ["1__0", "must be a whole number"],
  ];
  test.each(integers)("int32 %p", (text, result) => {
    expect(outcome(parseInteger(text, 32))).toBe(result);
  });

  const others: readonly [what: string, result: unknown, expected: unknown][] = [
    ["a float", outcome(parseFloat32("20.5")), 20.5],
    ["a negative float", outcome(parseFloat32("-1e2")), -100],
    ["a float that is none", outcome(parseFloat32("xx")), "must be a number"],
    ["a float that is too large", outcome(parseFloat32("1e39")), "must be a number of 32 bits, at most 3.4e38"],
    ["a level", outcome(parseLevel("4")), 4],
    ["a level that is too large", outcome(parseLevel("2147483648")), "must be a whole number from 0 to 2147483647"],
    ["a level below zero", outcome(parseLevel("-1")), "must be a whole number from 0 to 2147483647"],
    ["an IPv4 address", outcome(parseIP(" 10.0.0.1 ")), "10.0.0.1"],
    ["an IPv6 address in canonical form", outcome(parseIP("2001:DB8:0:0::1")), "2001:db8::1"],
    ["all IPv6 addresses", outcome(parseIP("::")), "::"],
    ["an IPv4 address inside an IPv6 one", outcome(parseIP("::ffff:10.0.0.1")), "10.0.0.1"],
    ["no address", outcome(parseIP("xx")), "must be an IPv4 or IPv6 address"],
    ["an address with a zone", outcome(parseIP("fe80::1%eth0")), "must be an IPv4 or IPv6 address"],
    ["an address with a leading zero", outcome(parseIP("10.0.0.01")), "must be an IPv4 or IPv6 address"],
    ["bytes", outcome(parseQuantity("512")), 512],
    ["kibibytes", outcome(parseQuantity("2Ki")), 2048],
    ["megabytes", outcome(parseQuantity("3M")), 3_000_000],
    ["no size", outcome(parseQuantity("much")), '"much" is not a size like 512, 1K or 2Ki'],
  ];
  test.each(others)("%s", (_what, result, expected) => {
    expect(result).toEqual(expected);
  });
});

describe("values with a special form", () => {
  const twoPaths = "must be the paths of a certificate and of its key, with a comma between them";
  test("a certificate and key, with and without names", () => {
    const unnamed: NamedCertKey = { certFile: "a.crt", keyFile: "a.key", names: [] };
    expect(outcome(certKeys.parse("a.crt, a.key", undefined))).toEqual([unnamed]);
    expect(outcome(certKeys.parse("a.crt,a.key:*.foo.com, foo.com", undefined))).toEqual([
      { certFile: "a.crt", keyFile: "a.key", names: ["*.foo.com", "foo.com"] },
    ]);
  });
  test.each([
    ["x", twoPaths],
    ["x,y,z", twoPaths],
    ["x,y:", "needs a name after the colon"],
  ])("the certificate and key %p is refused", (text, problem) => {
    expect(outcome(certKeys.parse(text, undefined))).toBe(problem);
  });
  test("numbers of key exchange groups", () => {
    expect(outcome(int32s.parse("23,29", undefined))).toEqual([23, 29]);
    expect(outcome(int32s.parse("24", [23]))).toEqual([23, 24]);
    expect(outcome(int32s.parse("x", undefined))).toBe("must be a whole number");
  });
  test("verbosities by source", () => {
    expect(outcome(vmodule.parse("service*=4,,route=2", undefined))).toBe("service*=4,route=2");
    expect(outcome(vmodule.parse("x", undefined))).toBe('"x" must be pattern=N');
    expect(outcome(vmodule.parse("a=x", undefined))).toBe(
      'the verbosity in "a=x" must be a whole number from 0 to 2147483647',
    );
  });
  test("versions to print or to report", () => {
    expect(["1", "raw", "false", "v1.2.3-rc.1"].map((text) => outcome(version.parse(text, undefined)))).toEqual([
      "true",
      "raw",
      "false",
      "v1.2.3-rc.1",
    ]);
    expect(outcome(version.parse("v9", undefined))).toBe("must be a version such as v1.2.3");
    expect(outcome(version.parse("x", undefined))).toBe("must be true or false");
  });
});

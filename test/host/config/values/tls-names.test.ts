import { describe, expect, test } from "bun:test";
import { createSecureContext, getCiphers } from "node:tls";

import { labelSelectorProblem } from "../../../../host/config/flags/checks.ts";
import { flagz } from "../../../../host/config/help/configz.ts";
import { cidrListProblem, prefixOf } from "../../../../host/config/validate/cidrs.ts";
import {
  cipherSuiteNotice,
  cipherSuiteProblem,
  cipherSuites,
  curves,
  tlsInEffect,
  tlsSettings,
} from "../../../../host/config/values/tls-names.ts";
import { run } from "../command-line.ts";

describe("names of TLS", () => {
  test("every offered cipher suite is supported by the runtime", () => {
    const runtime = new Set(getCiphers().map((name) => name.toLowerCase()));
    const missing = [...cipherSuites.values()].filter(({ openssl }) => openssl && !runtime.has(openssl.toLowerCase()));
    expect(missing).toEqual([]);
  });
  test("every offered key exchange group is supported by the runtime", () => {
    for (const name of curves.values())
      if (name !== undefined) expect(() => createSecureContext({ ecdhCurve: name })).not.toThrow();
  });
  test("flag names map to the runtime's names", () => {
    const settings = (...argv: readonly string[]) => tlsSettings(run(argv).options);
    expect(settings()).toEqual({
      minVersion: "TLSv1.2",
      ciphers: [
        "ECDHE-ECDSA-AES128-GCM-SHA256",
        "ECDHE-ECDSA-AES256-GCM-SHA384",
        "ECDHE-ECDSA-CHACHA20-POLY1305",
        "ECDHE-RSA-AES128-GCM-SHA256",
        "ECDHE-RSA-AES256-GCM-SHA384",
        "ECDHE-RSA-CHACHA20-POLY1305",
      ],
    });
    expect(
      settings(
        "--tls-min-version=VersionTLS13",
        "--tls-curve-preferences=29,23",
        "--tls-cipher-suites=TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305,TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
      ),
    ).toEqual({ minVersion: "TLSv1.3", curves: ["X25519", "P-256"], ciphers: ["ECDHE-RSA-CHACHA20-POLY1305"] });
  });
  test("naming only TLS 1.3 suites disables TLS 1.2", () => {
    const { options } = run(["--tls-cipher-suites=TLS_AES_128_GCM_SHA256"]);
    expect(tlsSettings(options)).toEqual({ minVersion: "TLSv1.3" });
  });
  test("what is in effect is shown under the flags' names, in /flagz too", () => {
    const { options, settings } = run([]);
    const suites = ["ECDSA", "RSA"].flatMap((key) =>
      ["AES_128_GCM_SHA256", "AES_256_GCM_SHA384", "CHACHA20_POLY1305_SHA256"].map(
        (cipher) => `TLS_ECDHE_${key}_WITH_${cipher}`,
      ),
    );
    expect(tlsInEffect(options)).toEqual([
      ["tls-min-version", "VersionTLS12"],
      ["tls-cipher-suites", suites.join(",")],
    ]);
    expect(flagz(settings, options)).toEndWith(
      `TLS in effect:\ntls-min-version=VersionTLS12\ntls-cipher-suites=${suites.join(",")}\n`,
    );
    const newest = run(["--tls-cipher-suites=TLS_AES_128_GCM_SHA256"]).options;
    expect(tlsInEffect(newest)[0]).toEqual(["tls-min-version", "VersionTLS13"]);
  });
  test("a weak suite is accepted with a warning, a removed one is refused", () => {
    expect(cipherSuiteProblem(["TLS_RSA_WITH_AES_128_CBC_SHA"])).toBeUndefined();
    expect(cipherSuiteNotice(["TLS_RSA_WITH_AES_128_CBC_SHA"])).toContain("insecure");
    expect(cipherSuiteProblem(["TLS_RSA_WITH_RC4_128_SHA"])).toContain("TLS_RSA_WITH_RC4_128_SHA");
  });
});

describe("lists of CIDRs", () => {
  test.each([
    ["10.244.0.0/16", { family: "ipv4", length: 16 }],
    ["0.0.0.0/0", { family: "ipv4", length: 0 }],
    ["fd00::/64", { family: "ipv6", length: 64 }],
    ["::ffff:10.0.0.0/104", { family: "ipv6", length: 104 }],
  ] as const)("%s", (text, prefix) => {
    expect(prefixOf(text)).toEqual({ text, ...prefix });
  });
  test.each([
    "",
    "10.0.0.0",
    "10.0.0.0/33",
    "10.0.0/8",
    "010.0.0.0/8",
    "10.0.0.0/08",
    "fd00::/129",
    "fd00::",
    "x/8",
    ":/8",
  ])("%p is invalid", (text) => {
    expect(prefixOf(text)).toBeUndefined();
  });
  test("a list may hold one, or one of each family", () => {
    expect(cidrListProblem("10.0.0.0/8")).toBeUndefined();
    expect(cidrListProblem(" 10.0.0.0/8,fd00::/64 ")).toBeUndefined();
    expect(cidrListProblem("")).toBe("cannot be empty");
  });
});

describe("label selectors", () => {
  test.each([
    "",
    "environment=production",
    "environment!=test",
    "environment==production, batch!=3",
    "a in (b,c),d notin (e)",
    "a",
    "!a",
    "example.com/a.b_c-d=",
    "a > 3,b<4",
  ])("%p is one", (selector) => {
    expect(labelSelectorProblem(selector)).toBeUndefined();
  });
  test.each(["a=b=c", "=b", "a in b", "a in (b", "a,,b", "-a=b", "a b", "a=b,", "a > x"])(
    "%p is invalid",
    (selector) => {
      expect(labelSelectorProblem(selector)).toContain("is not a valid label selector at");
    },
  );
});

import { describe, expect, test } from "bun:test";

import { plan } from "../../../../../plugins/azure-cloud/load-balancer/plan/plan.ts";
import type { Annotation } from "../../../../../plugins/azure-cloud/load-balancer/service/annotation-rows.ts";
import { annotations, portAnnotations } from "../../../../../plugins/azure-cloud/load-balancer/service/annotations.ts";
import { intentOf, plannerConfigOf } from "../fixtures.ts";
import { world } from "../world.ts";

interface Sample {
  /** Texts and the values that they stand for. */
  readonly valid: readonly (readonly [text: string, value: unknown])[];
  /** Texts that are refused, and what the message says. */
  readonly invalid?: readonly (readonly [text: string, message: string])[];
  /** Texts that have no effect but a warning. */
  readonly ignored?: readonly string[];
}

const network = "/subscriptions/sub0/resourceGroups/rg0/providers/Microsoft.Network";
const flags: Sample = {
  valid: [
    ["true", true],
    ["TRUE", true],
    ["false", false],
  ],
  ignored: ["yes", "1", " true", ""],
};
const names: Sample = {
  valid: [
    ["my-pip_1.a", "my-pip_1.a"],
    ["x", "x"],
  ],
  invalid: [
    [".", "a letter or digit first"],
    ["..", "a letter or digit first"],
    ["a.", "a letter, digit or `_` last"],
    ["_a", "a letter or digit first"],
    ["a b", "letters"],
    ["a/b", "letters"],
    ["pu\u017fh", "letters"],
    ["\u212aube", "letters"],
  ],
};
const prefixId = "/subscriptions/s/resourceGroups/r/providers/Microsoft.Network/publicIPPrefixes/p";
const prefixes: Sample = {
  valid: [[prefixId, prefixId]],
  invalid: [
    ["my-prefix", "resource id of a public IP prefix"],
    [prefixId.replace("/p", "/.."), "resource id of a public IP prefix"],
    [`${prefixId}/..`, "resource id of a public IP prefix"],
    [prefixId.replace("Groups/r", "Groups/.."), "resource id of a public IP prefix"],
    [prefixId.replace("/s/", "/../"), "resource id of a public IP prefix"],
    [prefixId.replace("Groups/r", "Groups/\u212a"), "resource id of a public IP prefix"],
  ],
};
const ranges: Sample = { valid: [["10.0.0.0/8, banana", ["10.0.0.0/8", "banana"]]] };
const seconds: Sample = {
  valid: [
    ["5", 5],
    [" 30 ", 30],
  ],
  invalid: [
    ["4", "5 to"],
    ["5a", "integer"],
    ["", "integer"],
    ["1e3", "integer"],
    ["99999999999", "integer"],
  ],
};
const counts: Sample = {
  valid: [["2", 2]],
  invalid: [
    ["1", "2 to"],
    ["5a", "integer"],
  ],
};
const words: Sample = {
  valid: [
    ["HTTP", "Http"],
    [" https ", "Https"],
    ["tcp", "Tcp"],
  ],
  ignored: ["FooBar"],
};
const paths: Sample = { valid: [["/healthz", "/healthz"]] };
const groups: Sample = {
  valid: [
    [" ips ", "ips"],
    ["", ""],
    ["Größe_(2).a-b", "Größe_(2).a-b"],
  ],
  invalid: [
    [".", "without `.` at the end"],
    ["..", "without `.` at the end"],
    ["ips.", "without `.` at the end"],
    ["a/b", "letters"],
    ["a%2fb", "letters"],
    ["\u212aube", "letters"],
    ["x".repeat(91), "at most 90"],
  ],
};
const spaced: Sample = {
  valid: [
    ["a  b", ["a", "b"]],
    ["", []],
  ],
};

const samples: Readonly<Record<keyof typeof annotations, Sample>> = {
  internal: {
    valid: [
      ["true", "true"],
      ["True", "True"],
    ],
  },
  internalSubnet: {
    valid: [
      ["lb-subnet", "lb-subnet"],
      [" ", ""],
    ],
    invalid: [["..", "a letter or digit first"]],
  },
  mode: { valid: [["__auto__", "__auto__"]] },
  configurations: { valid: [["a, b", ["a", "b"]]] },
  resourceGroup: groups,
  ipv4: {
    valid: [
      ["20.1.2.3", "20.1.2.3"],
      ["", ""],
    ],
    invalid: [
      ["20.1.2", "not an IPv4 address"],
      ["::1", "not an IPv4 address"],
      ["020.1.2.3", "not an IPv4 address"],
    ],
  },
  ipv6: {
    valid: [["2603:1030:0::1", "2603:1030::1"]],
    invalid: [
      ["20.1.2.3", "not an IPv6 address"],
      ["fe80::1%eth0", "not an IPv6 address"],
    ],
  },
  dnsLabel: {
    valid: [
      ["my-web", "my-web"],
      ["", ""],
    ],
    invalid: [
      ["-web", "a letter first"],
      ["my_web", "a letter first"],
      ["a".repeat(64), "at most 63"],
    ],
  },
  pipName: names,
  pipNameIPv6: names,
  pipPrefix: prefixes,
  pipPrefixIPv6: prefixes,
  pipTags: {
    valid: [
      ["a=b", "a=b"],
      ["a".repeat(16_384), "a".repeat(16_384)],
    ],
    invalid: [["a".repeat(16_385), "has 16385 characters; at most 16384 are allowed"]],
  },
  pipIPTags: {
    valid: [
      ["", ""],
      ["A=b", "A=b"],
    ],
  },
  additionalPublicIPs: {
    valid: [
      ["1.2.3.4,2001:db8::1", ["1.2.3.4", "2001:db8::1"]],
      ["2001:DB8:0::1,1.2.3.4", ["2001:db8::1", "1.2.3.4"]],
      ["0:0:0:0:0:FFFF:0102:0304", ["::ffff:1.2.3.4"]],
    ],
    invalid: [
      ["1.2.3.4, 1.2.3.5", "not an IP address"],
      ["", "not an IP address"],
      ["a,b,c,d,e,f,g", "and 2 more"],
      ...[
        "0.0.0.0",
        "127.0.0.1",
        "169.254.169.254",
        "224.0.0.1",
        "168.63.129.16",
        "::",
        "::1",
        "fe80::1",
        "ff02::1",
      ].map((special) => [`1.2.3.4,${special}`, `"${special}": unspecified, loopback, link-local`] as const),
      ["::ffff:127.0.0.1", "loopback"],
      [Array(201).fill("1.2.3.4").join(), "has 201 items; at most 200 are allowed"],
    ],
  },
  idleTimeout: {
    valid: [
      ["4", 4],
      ["100", 100],
    ],
    invalid: [
      ["3", "4 to 100"],
      ["101", "4 to 100"],
      ["4.5", "integer"],
      ["", "integer"],
      ["soon", "integer"],
    ],
  },
  disableTcpReset: flags,
  haPorts: flags,
  disableFloatingIP: flags,
  disableSecurityRules: flags,
  probeProtocol: words,
  probeInterval: seconds,
  probeThreshold: counts,
  probePath: paths,
  allowedServiceTags: {
    valid: [["Storage, AzureCloud", ["Storage", "AzureCloud"]]],
    invalid: [
      ["", "empty item"],
      ["a,,b", "empty item"],
      [Array(201).fill("a").join(), "has 201 items; at most 200 are allowed"],
    ],
  },
  allowedIPRanges: ranges,
  sourceRanges: ranges,
  denyAllExceptRanges: flags,
  plsCreate: { ...flags, valid: [...flags.valid, [" true ", true]], ignored: ["yes"] },
  plsName: names,
  plsResourceGroup: groups,
  plsSubnet: { ...names, valid: [["pls-subnet", "pls-subnet"]] },
  drainSeconds: {
    valid: [
      ["0", 0],
      ["3600", 3600],
    ],
    invalid: [
      ["-1", "0 to 3600"],
      ["3601", "0 to 3600"],
      ["5m", "not an integer"],
    ],
  },
  plsCount: {
    valid: [[" 8 ", 8]],
    invalid: [
      ["0", "1 to 8"],
      ["9", "1 to 8"],
      ["two", "integer"],
    ],
  },
  plsAddresses: {
    valid: [["10.0.0.1  10.0.0.2", ["10.0.0.1", "10.0.0.2"]]],
    invalid: [
      ["10.0.0.1 ::1", "IPv4"],
      ["x", "IPv4"],
    ],
  },
  plsFqdns: spaced,
  plsDeleteProtection: flags,
  gatewayFrontend: {
    valid: [
      ["", ""],
      [
        `${network}/loadBalancers/gw/frontendIPConfigurations/f`,
        `${network}/loadBalancers/gw/frontendIPConfigurations/f`,
      ],
    ],
    invalid: [
      ["gw", "the resource id of a frontend"],
      [`${network}/loadBalancers/gw`, "the resource id of a frontend"],
      [`${network}/loadBalancers/../frontendIPConfigurations/f`, "the resource id of a frontend"],
    ],
  },
  plsProxyProtocol: flags,
  plsVisibility: spaced,
  plsAutoApproval: { ...spaced, ignored: ["*", "a *"] },
};

const portSamples: Readonly<Record<keyof typeof portAnnotations, Sample>> = {
  noRule: flags,
  noProbe: flags,
  probeProtocol: words,
  probePort: {
    valid: [
      ["http", "http"],
      ["80", "80"],
    ],
  },
  probeInterval: seconds,
  probeThreshold: counts,
  probePath: paths,
};

const rows: readonly (readonly [string, Annotation<unknown>, Sample])[] = Object.entries(samples).flatMap(
  ([name, sample]) =>
    Object.entries(annotations).flatMap(([key, row]) => (key === name ? [[row.key, row, sample] as const] : [])),
);

const portRows: readonly (readonly [string, Annotation<unknown>, Sample])[] = Object.entries(portSamples).flatMap(
  ([name, sample]) =>
    Object.entries(portAnnotations).flatMap(([key, row]) => (key === name ? [[row.key, row, sample] as const] : [])),
);

describe.each([...rows, ...portRows])("%s", (_key, row, { valid, invalid = [], ignored = [] }) => {
  test("has a value when absent, and when valid", () => {
    expect(row.read(undefined)).toHaveProperty("value");
    for (const [text, value] of valid) expect([text, row.read(text)]).toEqual([text, { value }]);
  });

  test("rejects an invalid value in one short sentence", () => {
    for (const [text, message] of invalid) {
      const read = row.read(text);
      expect([text, "problem" in read ? read.problem : ""]).toEqual([text, expect.stringContaining(message)]);
    }
    for (const text of ignored)
      expect([text, row.read(text)]).toEqual([text, expect.objectContaining({ warning: expect.any(String) })]);
  });

  test("refuses a text of megabytes without repeating it", () => {
    const read = row.read("x".repeat(4_000_000));
    expect("problem" in read ? read.problem.length : 0).toBeWithin(1, 200);
  });
});

describe("a Service with invalid annotations", () => {
  const all = Object.entries(samples).flatMap(([name, { invalid = [] }]) =>
    Object.entries(annotations).flatMap(([key, row]) =>
      key === name && invalid[0] ? [[row.key, invalid[0][0]] as const] : [],
    ),
  );

  test("has every one of them reported at once, by its full key, and nothing written", () => {
    const { stages, results } = plan([intentOf({ annotations: Object.fromEntries(all) })], world(), plannerConfigOf());
    const messages = results.get("default/web")?.problem?.messages ?? [];
    expect(stages).toEqual([]);
    for (const [key] of all.slice(0, 15)) expect(messages.join("\n")).toContain(`service.beta.kubernetes.io/${key}`);
    expect([messages.length, messages.at(-1)]).toEqual([21, `and ${all.length - 20} more`]);
  });

  test("has a report of all of them as long as they are 20", () => {
    const given = Object.fromEntries(all.slice(0, 20));
    const { results } = plan([intentOf({ annotations: given })], world(), plannerConfigOf());
    const messages = results.get("default/web")?.problem?.messages ?? [];
    expect(messages).toHaveLength(20);
    expect(messages.at(-1)).not.toMatch(/^and \d+ more$/u);
  });

  test("has a report of bounded size, however many and long they are", () => {
    const ports = Array.from({ length: 500 }, (_, index) => ({
      port: index + 1,
      protocol: "TCP",
      nodePort: 30_000 + index,
    }));
    const many = ports.map(({ port }) => [`port_${port}_health-probe_interval`, "x".repeat(10_000)] as const);
    const intent = intentOf({ annotations: Object.fromEntries(many), spec: { ports } });
    const { results } = plan([intent], world(), plannerConfigOf());
    const messages = results.get("default/web")?.problem?.messages ?? [];
    expect(messages.join("\n").length).toBeWithin(100, 5_000);
  });

  test("can be deleted, and does not block a new one of the same name", () => {
    const contradictory = {
      annotations: { "azure-allowed-ip-ranges": "10.0.0.0/8" },
      spec: { loadBalancerSourceRanges: ["10.0.0.0/8"] },
    };
    const config = plannerConfigOf();
    const refused = plan([intentOf(contradictory)], world(), config).results.get("default/web");
    expect(refused?.problem?.messages).toEqual([expect.stringContaining("cannot set both")]);
    const deleted = plan([intentOf({ ...contradictory, action: "delete" })], world(), config).results.get(
      "default/web",
    );
    expect(deleted).toMatchObject({ settled: true, events: [] });
    expect(deleted?.problem).toBeUndefined();
    expect(plan([intentOf({ uid: "other" })], world(), config).stages).not.toEqual([]);
  });
});

test("service gateway mode is refused by name, deletions included", () => {
  const config = plannerConfigOf({
    serviceGatewayEnabled: true,
    loadBalancerSku: "service",
    loadBalancerBackendPoolConfigurationType: "podIP",
  });
  for (const action of ["ensure", "delete"] as const) {
    const { stages, results } = plan([intentOf({ action })], world(), config);
    expect(stages).toEqual([]);
    expect(results.get("default/web")?.problem?.messages.join()).toContain("serviceGatewayEnabled");
  }
});

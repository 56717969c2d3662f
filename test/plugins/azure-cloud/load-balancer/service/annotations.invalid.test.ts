import { describe, expect, setDefaultTimeout, test } from "bun:test";

import { plan } from "../../../../../plugins/azure-cloud/load-balancer/plan/plan.ts";
import type { Annotation } from "../../../../../plugins/azure-cloud/load-balancer/service/annotation-rows.ts";
import { annotations, portAnnotations } from "../../../../../plugins/azure-cloud/load-balancer/service/annotations.ts";
import { intentOf, plannerConfigOf, type ServiceShape } from "../fixtures.ts";
import { converge, nodesNamed, publicIP, world } from "../world.ts";

setDefaultTimeout(120_000);

const config = plannerConfigOf();
const nodes = nodesNamed("node-0");
const start = world({ nodes, publicIPs: [publicIP("my-pip", "20.9.9.9")] });
const internal = { "azure-load-balancer-internal": "true" };
const service = "default/web";

const rows: readonly (readonly [key: string, row: Annotation<unknown>])[] = [
  ...Object.values(annotations),
  ...Object.values(portAnnotations),
].map((row) => [row.key.replace("<port>", "80"), row]);

/** Values that are wrong for most annotations: empty, of another type, out of range, or hostile. */
const texts: readonly string[] = [
  ["", " ", ",", ",,", "=", "\t\n", "\u0000", "💥", "ｔｒｕｅ"],
  ["-1", "0", "3", "101", "4.5", "0x10", "1e3", "5a", "NaN", "2147483648", "99999999999999999999"],
  ["yes", "TRUE ", "null", "undefined", "[]", "{}", "__proto__", "constructor", "../../x", "a=b=c", "a b c d e f g"],
  ["256.0.0.1", "10.0.0.1", "10.0.0.1/8", "::g", "fe80::1%eth0", "0.0.0.0", "::", "::ffff:10.0.0.1", "1.2.3.4,"],
].flat();
const huge = "x".repeat(4_000_000);

const planned = (shape: ServiceShape, used = config) => plan([intentOf({ nodes, ...shape })], start, used);

describe.each(rows)("%s", (key, row) => {
  const fullKey = `service.beta.kubernetes.io/${key}`;

  test("is refused, ignored or denying, as its row of the table says, whatever the value", () => {
    for (const text of [...texts, huge]) {
      const read = row.read(text);
      const { results, stages } = planned({ annotations: { [key]: text } });
      const { problem, warnings = [] } = results.get(service) ?? {};
      const report = [...(problem?.messages ?? []), ...warnings].join("\n");
      expect(report.length).toBeLessThan(1000);
      if ("problem" in read) {
        expect([key, text.slice(0, 20), stages, report]).toEqual([
          key,
          text.slice(0, 20),
          [],
          expect.stringContaining(fullKey),
        ]);
        expect(row.invalid === "Service refused" || text === huge).toBe(true);
      } else if (read.warning !== undefined) {
        expect(row.invalid).toBe("ignored, with a warning");
        expect(report).toContain(fullKey);
      }
    }
  });

  test("is refused when it is megabytes long, and the value is not repeated", () => {
    const { results, stages } = planned({ annotations: { [key]: huge } });
    const { problem } = results.get(service) ?? {};
    expect([stages, problem?.messages]).toEqual([[], [expect.stringContaining(`${fullKey}: has 4000000 characters`)]]);
  });

  test("never keeps the Service from being deleted, nor anything behind", () => {
    for (const kind of [{}, internal]) {
      const created = converge([intentOf({ nodes, annotations: kind })], start, config).observed;
      for (const text of [...texts, huge]) {
        const gone = intentOf({ action: "delete", annotations: { ...kind, [key]: text } });
        const { observed, last } = converge([gone], { ...created, services: [gone.service] }, config);
        expect([text.slice(0, 20), last.results.get(service)?.problem]).toEqual([text.slice(0, 20), undefined]);
        expect([text.slice(0, 20), observed.loadBalancers, observed.publicIPs.length]).toEqual([
          text.slice(0, 20),
          [],
          1,
        ]);
      }
    }
  });

  test("changes nothing for other Services when it is invalid", () => {
    const [invalid] = [huge, ...texts].filter((text) => "problem" in row.read(text));
    const bad = intentOf({ nodes, name: "bad", annotations: { [key]: invalid ?? huge } });
    const good = intentOf({ nodes });
    expect(plan([bad, good], start, config).stages).toEqual(plan([good], start, config).stages);
  });
});

describe("annotations that contradict each other or the Service are refused by name", () => {
  const several = plannerConfigOf({
    loadBalancerBackendPoolConfigurationType: "nodeIP",
    multipleStandardLoadBalancerConfigurations: [{ name: "kubernetes", primaryVMSet: "vmss0" }],
  });
  const probe = "azure-load-balancer-health-probe";

  test.each<[string, ServiceShape, string]>([
    [
      "ranges in the spec and in an annotation",
      {
        annotations: { "azure-allowed-ip-ranges": "10.0.0.0/8" },
        spec: { loadBalancerSourceRanges: ["10.0.0.0/8"] },
      },
      "azure-allowed-ip-ranges",
    ],
    [
      "a load balancer and an address",
      { annotations: { "azure-load-balancer-configurations": "kubernetes", "azure-load-balancer-ipv4": "20.9.9.9" } },
      "azure-load-balancer-configurations",
    ],
    [
      "a load balancer and a public IP",
      { annotations: { "azure-load-balancer-configurations": "kubernetes", "azure-pip-name": "my-pip" } },
      "azure-load-balancer-configurations",
    ],
    [
      "a private address and an external Service",
      { annotations: { "azure-load-balancer-ipv4": "10.0.0.1" } },
      "10.0.0.1",
    ],
    [
      "an interval and a number of probes that are too long together",
      { annotations: { [`${probe}-interval`]: "60", [`${probe}-num-of-probe`]: "2" } },
      "total probe should be less than 120",
    ],
    ["a private link service and floating IP", { annotations: { "azure-pls-create": "true" } }, "azure-pls-create"],
    [
      "a private link service and IPv6",
      { annotations: { ...internal, "azure-pls-create": "true" }, spec: { ipFamilies: ["IPv6"] } },
      "azure-pls-create",
    ],
    [
      "more static addresses than addresses",
      {
        annotations: {
          ...internal,
          "azure-pls-create": "true",
          "azure-pls-ip-configuration-ip-address": "10.240.0.8 10.240.0.9",
        },
      },
      "azure-pls-ip-configuration-ip-address-count",
    ],
    [
      "a probe port that the Service does not have",
      { annotations: { "port_80_health-probe_port": "dns" } },
      "port_80_health-probe_port",
    ],
    [
      "no node port for the second family, which has no floating IP on an internal load balancer",
      {
        annotations: { ...internal, port_80_no_probe_rule: "true" },
        spec: {
          allocateLoadBalancerNodePorts: false,
          ipFamilies: ["IPv4", "IPv6"],
          ports: [{ protocol: "TCP", port: 80 }],
        },
      },
      "allocateLoadBalancerNodePorts is false",
    ],
  ])("%s", (_title, shape, message) => {
    for (const used of [config, several]) {
      const { stages, results } = planned(shape, used);
      const problem = results.get(service)?.problem;
      if (problem === undefined && used === config && message === "azure-load-balancer-configurations") continue;
      expect([stages, problem?.messages.join()]).toEqual([[], expect.stringContaining(message)]);
    }
  });
});

test("annotations of every port are checked", () => {
  const ports = [80, 8000].map((port) => ({
    name: `p${port}`,
    protocol: "TCP",
    port,
    nodePort: 30_000 + (port % 1000),
  }));
  const { results } = planned({ annotations: { "port_8000_health-probe_interval": "1" }, spec: { ports } });
  expect(results.get(service)?.problem?.messages).toEqual([expect.stringContaining("port_8000_health-probe_interval")]);
});

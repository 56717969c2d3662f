import { describe, expect, test } from "bun:test";

import { Addresses } from "../../../host/bundle/addresses.ts";
import { anonymized } from "../../../host/bundle/anonymize.ts";
import { type Bundle, bundleHead } from "../../../host/bundle/bundle.ts";

const scope = "/subscriptions/corp-sub/resourceGroups/corp-rg/providers";
const balancer = `${scope}/Microsoft.Network/loadBalancers/corp-cluster-internal`;
const uidName = "a0123456789abcdef0123456789abcde";

type BundledObject = Bundle["kinds"][number]["objects"][number];
const objectWith = (metadata: BundledObject["metadata"], fields: object): BundledObject => ({ ...fields, metadata });
const resourceWith = (id: string, fields: object): { readonly id: string } => ({ ...fields, id });

const bundle: Bundle = {
  ...bundleHead,
  anonymized: false,
  cloudProvider: "azure",
  flags: ["--cluster-name=corp-cluster", "--cluster-cidr=20.50.0.0/16", "--concurrent-service-syncs=4"],
  cloudConfig: { subscriptionId: "corp-sub", resourceGroup: "Corp-RG", vmType: "vmss", location: "westeurope" },
  kinds: [
    {
      group: "",
      version: "v1",
      plural: "services",
      kind: "Service",
      namespaced: true,
      objects: [
        objectWith(
          {
            name: "payments",
            namespace: "corp-shop",
            labels: { app: "payments-api" },
            annotations: { "service.beta.kubernetes.io/azure-pip-name": "corp-pip" },
          },
          { spec: { loadBalancerSourceRanges: ["52.10.20.0/24", "0.0.0.0/0"], ports: [{ protocol: "TCP" }] } },
        ),
      ],
    },
    {
      group: "",
      version: "v1",
      plural: "nodes",
      kind: "Node",
      namespaced: false,
      objects: [objectWith({ name: "corpvm000002" }, { status: { addresses: [{ address: "10.240.0.4" }] } })],
    },
  ],
  resources: [
    resourceWith(balancer, {
      properties: {
        frontendIPConfigurations: [{ id: `${balancer}/frontendIPConfigurations/${uidName}`, name: uidName }],
        note: "Service corp-shop/payments at 52.10.20.7 on corpvm000002",
      },
    }),
    resourceWith(`${scope}/Microsoft.Network/publicIPAddresses/${uidName}`, { name: uidName }),
    resourceWith(`${scope}/Microsoft.Compute/virtualMachineScaleSets/corpset/virtualMachines/2`, {
      name: "corpset_2",
      properties: { osProfile: { computerName: "corpvm000002" } },
    }),
    resourceWith(`${scope}/Microsoft.Compute/virtualMachineScaleSets/corpset`, {
      properties: { virtualMachineProfile: { osProfile: { computerNamePrefix: "corpvm" } } },
    }),
  ],
};

describe("an anonymized bundle", () => {
  const result = anonymized(bundle, "key");
  const text = JSON.stringify(result);

  test("contains no name and no address of the cluster, and what has a meaning to Kubernetes and Azure", () => {
    expect(text.toLowerCase()).not.toMatch(/corp|payments|52\.10\.20|20\.50\.0|240\.0\.4/u);
    for (const word of [uidName, "westeurope", "vmss", "TCP", "0.0.0.0/0", "--concurrent-service-syncs=4", "-internal"])
      expect(text).toContain(word);
    expect(result.anonymized).toBe(true);
  });

  test("replaces each by the same one everywhere, also inside of other names", () => {
    const [services, nodes] = result.kinds;
    const { name = "", namespace = "" } = services?.objects[0]?.metadata ?? {};
    const node = nodes?.objects[0]?.metadata.name ?? "";
    expect(text).toContain(`Service ${namespace}/${name} at `);
    expect(text).toContain(` on ${node}"`);
    expect(node).toMatch(/000002$/u);
    const [lb, publicIP, instance, set] = result.resources;
    expect(publicIP?.id).toEndWith(`/publicIPAddresses/${uidName}`);
    const cluster = result.flags[0]?.split("=")[1];
    expect(lb?.id).toEndWith(`/loadBalancers/${cluster}-internal`);
    expect(instance?.id).toBe(`${set?.id}/virtualMachines/2`);
    expect(JSON.stringify(set)).toContain(`"computerNamePrefix":"${node.slice(0, -6)}"`);
    expect(lb?.id).toContain(`/subscriptions/${String(result.cloudConfig["subscriptionId"])}/`);
    expect(lb?.id).toContain(`/resourceGroups/${String(result.cloudConfig["resourceGroup"])}/`);
  });
});

test("an anonymized bundle lacks names of subnets, rules, routes and configurations, also where other text has them", () => {
  const lists = ["subnets", "securityRules", "routes", "ipConfigurations"];
  const resources = lists.map((list, index) =>
    resourceWith(`${scope}/Microsoft.Network/things/${index}`, {
      properties: { [list]: [{ name: `acme-${list}` }], note: `used by acme-${list}` },
    }),
  );
  const result = anonymized({ ...bundle, resources }, "key").resources;
  expect(JSON.stringify(result)).not.toContain("acme");
  for (const [index, list] of lists.entries()) {
    const { [list]: items, note } = Object(Object(result[index])["properties"]);
    expect(note).toBe(`used by ${items[0].name}`);
  }
});

test("an anonymized bundle keeps the words of an API in their fields, also where an object has such a name", () => {
  const [service] = bundle.kinds;
  if (service === undefined) throw new Error("the bundle has Services");
  const objects = [objectWith({ name: "Ready" }, { status: { conditions: [{ type: "Ready", message: "Ready" }] } })];
  const [object] = anonymized({ ...bundle, kinds: [{ ...service, objects }] }, "key").kinds[0]?.objects ?? [];
  expect(object?.metadata.name).not.toBe("Ready");
  expect(object).toMatchObject({ status: { conditions: [{ type: "Ready", message: object?.metadata.name }] } });
});

test("a text of thousands of words, as a tenant may write it, costs an anonymized bundle little time", () => {
  const [service] = bundle.kinds;
  if (service === undefined) throw new Error("the bundle has Services");
  const [name, long] = ["corp-a", `see corp-a.${"a-".repeat(20_000)}corp-a`];
  const others = ["b", "c", "d", "e"].map((end) => [end, `${"a-".repeat(120_000)}${end}`]);
  const annotations = { "kubernetes.io/note": long, ...Object.fromEntries(others) };
  const objects = [objectWith({ name, namespace: "corp", annotations }, {})];
  const beganMs = performance.now();
  const [object] = anonymized({ ...bundle, kinds: [{ ...service, objects }] }, "key").kinds[0]?.objects ?? [];
  expect(performance.now() - beganMs).toBeLessThan(1_000);
  const replaced = object?.metadata.name ?? "";
  expect(replaced).not.toContain("corp");
  expect(object?.metadata.annotations?.["kubernetes.io/note"]).toBe(
    `see ${replaced}.${"a-".repeat(20_000)}${replaced}`,
  );
});

describe("replaced addresses", () => {
  const addresses = new Addresses("key");
  const one = (text: string): string => addresses.replace(text);

  test("stay in their ranges, and private ones private", () => {
    const [network = "", length] = one("20.50.0.0/16").split("/");
    expect(length).toBe("16");
    expect(network).toEndWith(".0.0");
    expect(one("20.50.7.9").split(".").slice(0, 2)).toEqual(network.split(".").slice(0, 2));
    expect(one("20.50.7.9").split(".").slice(0, 3)).toEqual(one("20.50.7.200").split(".").slice(0, 3));
    expect(one("10.1.2.3")).toStartWith("10.");
    expect(one("192.168.7.9")).toStartWith("192.168.");
    expect(one("fd12:3456::4")).toStartWith("fd12:");
    expect(one("2603:1030::7")).not.toContain("1030::7");
  });

  test("are different for different addresses, and the same for the same", () => {
    const all = Array.from({ length: 500 }, (_, index) => `52.1.${index >> 8}.${index & 255}`);
    expect(new Set(all.map(one)).size).toBe(500);
    expect(all.map(one)).toEqual(all.map((address) => new Addresses("key").replace(address)));
  });

  test("are not those with a meaning, nor versions, times, UIDs and ports", () => {
    for (const text of [
      "0.0.0.0/0",
      "::/0",
      "127.0.0.1",
      "169.254.1.1",
      "168.63.129.16",
      "224.0.0.1",
      "::1",
      "fe80::1",
    ])
      expect(one(text)).toBe(text);
    for (const text of [
      "v1.36.3",
      "2026-11-22T10:11:12Z",
      "10:11:12",
      "6b2f0c1e-0d4b-4a53-9f6e-1c2d3e4f5a6b",
      "80:30080",
    ])
      expect(one(text)).toBe(text);
  });
});

test("an anonymized bundle lacks the subscriptions and resource groups that only IDs of resources name", () => {
  const id = "/subscriptions/acme-sub/resourceGroups/acme-rg/providers/Microsoft.Network/publicIPAddresses/acme-ip";
  const { resources } = anonymized({ ...bundle, resources: [resourceWith(id, { note: "acme-ip of acme-rg" })] }, "key");
  expect(JSON.stringify(resources)).not.toContain("acme");
  expect(resources[0]?.id).toMatch(/^\/subscriptions\/[^/]+\/resourceGroups\/[^/]+\/providers\/Microsoft\.Network\//u);
});

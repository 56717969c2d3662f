import { describe, expect, test } from "bun:test";

import { annotations, kinds, labels, type Node, type NodeAddress, type Taint, taints } from "cloud-controller-host/sdk";
import { eventually, type MemoryCloud, memoryCloud, type MemoryMachine } from "cloud-controller-host/sdk/testing";

import { hasNode } from "../../../plugins/cloud-node/initialize.ts";
import cloudNode from "../../../plugins/cloud-node/plugin.ts";
import { TestCluster } from "../../kit/harness.ts";

const cloudTaint: Taint = { key: taints.uninitialized, value: "true", effect: "NoSchedule" };
const unrelated: Taint = { key: "ImproveCoverageTaint", value: "true", effect: "NoSchedule" };

const hostname = (address: string): NodeAddress => ({ type: "Hostname", address });
const internal: NodeAddress = { type: "InternalIP", address: "10.0.0.1" };
const external: NodeAddress = { type: "ExternalIP", address: "132.143.154.163" };
const three = [hostname("node0.cloud.internal"), internal, external];

const topology = (zone: string, region: string): Readonly<Record<string, string>> => ({
  [labels.zone]: zone,
  [labels.zoneBeta]: zone,
  [labels.region]: region,
  [labels.regionBeta]: region,
});

interface Facts {
  readonly taints?: readonly Taint[];
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
  readonly providerID?: string;
  readonly addresses?: readonly NodeAddress[];
  readonly conditions?: NonNullable<Node["status"]>["conditions"];
}

interface Row {
  readonly name: string;
  readonly node: Facts;
  /** Default: three addresses and the provider ID `fake://12345`. */
  readonly machine?: MemoryMachine;
  readonly arrange?: (memory: MemoryCloud) => void;
  /** What the node has afterwards; `ignored` and `fails` leave it as it was. */
  readonly want: Facts | "ignored" | "fails";
}

const ready = {
  type: "Ready",
  status: "Unknown",
  lastHeartbeatTime: "2015-01-01T12:00:00Z",
  reason: "NodeStatusUnknown",
};
const conditions = [
  { ...ready, lastTransitionTime: "2015-01-01T12:00:00Z", message: "Kubelet stopped posting node status." },
];
const nodeIP = (value: string): Readonly<Record<string, string>> => ({ [annotations.providedNodeIP]: value });
const withoutHostname = [internal, external];
const providerID = "fake://12345";
const initialized = { taints: [], providerID, addresses: three } as const;

const discarded = {
  "topology.kubernetes.io/region": "us-other-west",
  "topology.k8s.io/region": "us-other-west",
  "kubernetes.io/region": "us-other-west",
  "k8s.io/region": "us-other-west",
};

const rows: readonly Row[] = [
  {
    name: "node initialized with hostname",
    node: { taints: [cloudTaint], addresses: [hostname("nodeoverriden")] },
    want: initialized,
  },
  {
    name: "node initialized with hostname and cloud provider missing hostname",
    node: { taints: [cloudTaint], addresses: [hostname("nodeoverriden")] },
    machine: { providerID, nodeAddresses: withoutHostname },
    want: { ...initialized, addresses: [internal, external, hostname("nodeoverriden")] },
  },
  { name: "node initialized with provider ID", node: { taints: [cloudTaint] }, want: initialized },
  { name: "node ignored", node: { addresses: three }, want: "ignored" },
  {
    name: "zone/region topology labels added",
    node: { taints: [cloudTaint], conditions },
    machine: { providerID: "aws://12345", nodeAddresses: three, zone: "us-west-1a", region: "us-west" },
    want: {
      ...initialized,
      providerID: "aws://12345",
      labels: topology("us-west-1a", "us-west"),
      conditions,
    },
  },
  {
    name: "node addresses",
    node: { taints: [unrelated, cloudTaint] },
    want: { ...initialized, taints: [unrelated], labels: {} },
  },
  {
    name: "nil instanceMetadata provided by InstanceV2",
    node: { taints: [unrelated, cloudTaint], providerID, annotations: nodeIP("10.0.0.1") },
    arrange: (memory) => void memory.intercept("instanceMetadata", async () => undefined),
    want: "ignored",
  },
  {
    name: "provided node IP address",
    node: {
      taints: [unrelated, cloudTaint],
      providerID,
      annotations: nodeIP("10.0.0.1"),
      addresses: [hostname("node0.cloud.internal")],
    },
    machine: { providerID, nodeAddresses: withoutHostname },
    want: { taints: [unrelated], providerID, addresses: [internal, external, hostname("node0.cloud.internal")] },
  },
  {
    name: "provided node IP address is not valid",
    node: { taints: [unrelated, cloudTaint], providerID, annotations: nodeIP("invalid-ip") },
    want: "fails",
  },
  {
    name: "provided node IP address is not present",
    node: { taints: [unrelated, cloudTaint], providerID, annotations: nodeIP("10.0.0.2") },
    want: "fails",
  },
  {
    name: "provider ID already set",
    node: { taints: [cloudTaint], providerID: "test-provider-id" },
    want: { ...initialized, providerID: "test-provider-id" },
  },
  {
    name: "[instanceV2] node initialized with provider ID",
    node: { taints: [cloudTaint], providerID },
    machine: { providerID: "", nodeAddresses: three },
    want: initialized,
  },
  { name: "[instanceV2] node ignored", node: { taints: [unrelated], addresses: three }, want: "ignored" },
  {
    name: "[instanceV2] zone/region topology labels added",
    node: { taints: [cloudTaint] },
    machine: { providerID, nodeAddresses: three, zone: "us-west-1a", region: "us-west" },
    want: { ...initialized, labels: topology("us-west-1a", "us-west") },
  },
  {
    name: "[instanceV2] node addresses",
    node: { taints: [unrelated, cloudTaint] },
    want: { ...initialized, taints: [unrelated] },
  },
  {
    name: "[instanceV2] provided node IP address",
    node: {
      taints: [unrelated, cloudTaint],
      annotations: nodeIP("10.0.0.1"),
      addresses: [hostname("node0.cloud.internal")],
    },
    machine: { providerID, nodeAddresses: withoutHostname },
    want: { taints: [unrelated], providerID, addresses: [internal, external, hostname("node0.cloud.internal")] },
  },
  {
    name: "[instanceV2] provided additional labels",
    node: { taints: [cloudTaint] },
    machine: {
      providerID,
      nodeAddresses: three,
      zone: "us-west-1a",
      region: "us-west",
      additionalLabels: { "topology.k8s.cp/zone-id": "az1", "my.custom.label/foo": "bar" },
    },
    want: {
      ...initialized,
      labels: {
        ...topology("us-west-1a", "us-west"),
        "topology.k8s.cp/zone-id": "az1",
        "my.custom.label/foo": "bar",
      },
    },
  },
  {
    name: "[instanceV2] provided additional labels with labels to discard",
    node: { taints: [cloudTaint], labels: { "my.custom.label/foo": "fizz", "my.custom.label/bar": "foo" } },
    machine: {
      providerID,
      nodeAddresses: three,
      zone: "us-west-1a",
      region: "us-west",
      additionalLabels: {
        ...discarded,
        "my.custom.label/foo": "bar",
        "my.custom.label/bar": "foo",
        "app.k8snio/bar": "foo",
        "k8snio/bar": "foo",
      },
    },
    want: {
      ...initialized,
      labels: {
        ...topology("us-west-1a", "us-west"),
        "my.custom.label/foo": "fizz",
        "my.custom.label/bar": "foo",
        "app.k8snio/bar": "foo",
        "k8snio/bar": "foo",
      },
    },
  },
  {
    name: "[instanceV2] provider ID already set",
    node: { taints: [cloudTaint], providerID: "test-provider-id" },
    want: { ...initialized, providerID: "test-provider-id" },
  },
  {
    name: "[instanceV2] provider ID not implemented",
    node: { taints: [unrelated, cloudTaint] },
    machine: { providerID: "", nodeAddresses: three },
    want: "fails",
  },
  {
    name: "[instanceV2] error getting InstanceMetadata",
    node: { taints: [unrelated, cloudTaint] },
    arrange: (memory) => memory.fail("instanceMetadata", new Error("the cloud is out of order")),
    want: "fails",
  },
];

function nodeOf({
  taints: list,
  labels: given,
  annotations: notes,
  providerID: id,
  addresses = [],
  ...rest
}: Facts): Node {
  return {
    metadata: { name: "node0", ...(given && { labels: given }), ...(notes && { annotations: notes }) },
    spec: { ...(list && { taints: list }), ...(id !== undefined && { providerID: id }) },
    status: { addresses, conditions: rest.conditions ?? [] },
  };
}

describe("initializing a node", () => {
  for (const { name, node, machine, arrange, want } of rows)
    test(name, async () => {
      await using cluster = await TestCluster.start();
      const memory = memoryCloud({ name: "fake" });
      memory.machines.set("node0", machine ?? { providerID, nodeAddresses: three });
      arrange?.(memory);
      const before = await cluster.admin.create(kinds.Node, nodeOf(node));
      await cluster.run(cloudNode, { cloud: memory.cloud });

      if (want === "ignored") await eventually("the node has been looked at", () => cluster.worked("Nodes", 1));
      else if (want === "fails") await eventually("the node has been tried again", () => cluster.worked("Nodes", 2));
      else await eventually("the node is initialized", () => cluster.event("Synced"));

      const after = await cluster.admin.get(kinds.Node, { name: "node0" });
      if (want === "ignored" || want === "fails") {
        expect(after).toEqual(before);
        expect(cluster.writes()).toEqual([]);
        expect(await cluster.events()).toEqual([]);
        return;
      }
      expect(after.spec?.taints ?? []).toEqual([...(want.taints ?? [])]);
      expect(after.spec?.providerID).toEqual(want.providerID);
      expect(after.metadata?.labels ?? {}).toEqual(want.labels ?? {});
      expect(after.status?.addresses).toEqual([...(want.addresses ?? [])]);
      if (want.conditions !== undefined) expect(after.status?.conditions).toEqual([...want.conditions]);
    });
});

test("a set that has a node does not have the one that is recreated under its name", () => {
  const set = new Map([["node0", "u1"]]);
  const found = ["u1", "u2"].map((uid) => hasNode(set, { metadata: { name: "node0", uid } }));
  expect(found).toEqual([true, false]);
});

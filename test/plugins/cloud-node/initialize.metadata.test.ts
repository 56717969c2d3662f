import { describe, expect, test } from "bun:test";

import { type InstanceMetadata, messageOf, type Node, type NodeAddress } from "cloud-controller-host/sdk";
import { memoryCloud, type MemoryMachine } from "cloud-controller-host/sdk/testing";

import { fetchMetadata } from "../../../plugins/cloud-node/initialize.ts";

const nodeAddresses: readonly NodeAddress[] = [
  { type: "Hostname", address: "node0.cloud.internal" },
  { type: "InternalIP", address: "10.0.0.1" },
  { type: "ExternalIP", address: "132.143.154.163" },
];

function fetch(node: Node, machine: MemoryMachine): Promise<InstanceMetadata | undefined> {
  const memory = memoryCloud({ name: "fake" });
  memory.machines.set("node0", machine);
  const { instances } = memory.cloud;
  if (instances === undefined) throw new Error("the cloud has no instances");
  return fetchMetadata(instances, { metadata: { name: "node0" }, ...node }, new AbortController().signal);
}

describe("the metadata of a node's instance", () => {
  test("cloud implemented with InstancesV2 (with providerID)", async () => {
    const metadata = await fetch({}, { providerID: "fake://12345", nodeAddresses });
    expect(metadata).toEqual({
      providerID: "fake://12345",
      nodeAddresses: [...nodeAddresses],
      instanceType: "",
      zone: "",
      region: "",
    });
  });

  test("cloud implemented with InstancesV2 (without providerID)", async () => {
    expect(await fetch({}, { providerID: "", nodeAddresses }).catch(messageOf)).toBe(
      "failed to get instance metadata for node node0: cloud provider does not set node provider ID for node node0",
    );
  });

  test("cloud implemented with InstancesV2 (without providerID) and node with providerID", async () => {
    const node = { spec: { providerID: "fake://12345" } };
    const metadata = await fetch(node, { providerID: "", nodeAddresses, instanceType: "t1.micro" });
    expect(metadata).toMatchObject({ providerID: "fake://12345", instanceType: "t1.micro" });
  });
});

test("an error of the cloud names the node", async () => {
  const instances = memoryCloud().cloud.instances;
  if (instances === undefined) throw new Error("the cloud has no instances");
  const failed = fetchMetadata(instances, { metadata: { name: "node0" } }, new AbortController().signal);
  expect(await failed.catch(messageOf)).toBe("failed to get instance metadata for node node0: instance not found");
});

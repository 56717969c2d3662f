import { expect, test } from "bun:test";

import { kinds, type KubeClient } from "cloud-controller-host/sdk";

import { recordedClient } from "../../../../host/process/writes/recorded-client.ts";
import { memoryLeases } from "../leader-election/memory-leases.ts";

const name = { name: "cloud-controller-manager", namespace: "kube-system" };

function setup(): { readonly client: KubeClient; readonly records: unknown[] } {
  const records: unknown[] = [];
  const client = recordedClient(memoryLeases().client, {
    find: () => undefined,
    record: ({ operation, status }) => void records.push([operation, status]),
  });
  return { client, records };
}

test("a recorded write returns what the API server has stored, and is recorded once", async () => {
  const { client, records } = setup();
  const created = await client.create(kinds.Lease, { metadata: name, spec: { holderIdentity: "a" } });
  expect(created.metadata?.resourceVersion).toBe("1");
  const replaced = await client.replace(kinds.Lease, { ...created, spec: { holderIdentity: "b" } });
  expect([replaced.metadata?.resourceVersion, replaced.spec?.holderIdentity]).toEqual(["2", "b"]);
  expect(records).toEqual([
    ["create", undefined],
    ["replace", undefined],
  ]);
});

test("a write that is rejected is recorded with its status, and rejects as it did", async () => {
  const { client, records } = setup();
  const lease = { metadata: name };
  await client.create(kinds.Lease, lease);
  await expect(client.create(kinds.Lease, lease)).rejects.toMatchObject({ status: 409, reason: "AlreadyExists" });
  expect(records.at(-1)).toEqual(["create", 409]);
});

import { expect, test } from "bun:test";

import { kinds, type KubeClient, type KubeObject } from "cloud-controller-host/sdk";

import { recordedClient } from "../../../../host/process/writes/recorded-client.ts";
import { memoryLeases } from "../leader-election/memory-leases.ts";

const name = { name: "cloud-controller-manager", namespace: "kube-system" };

function setup(known?: KubeObject): {
  readonly client: KubeClient;
  readonly records: unknown[];
  readonly changes: unknown[];
} {
  const records: unknown[] = [];
  const changes: unknown[] = [];
  const client = recordedClient(memoryLeases().client, {
    find: () => known,
    record: ({ operation, status }, fields) => {
      records.push([operation, status]);
      changes.push(fields.map(({ path }) => path));
    },
  });
  return { client, records, changes };
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

test("a replacement is recorded with the fields that it changes, where a watch has the object, and with none otherwise", async () => {
  const before = { metadata: name, spec: { holderIdentity: "a" } };
  for (const [known, fields] of [
    [before, ["spec.holderIdentity"]],
    [undefined, []],
  ] as const) {
    const { client, changes } = setup(known);
    await client.create(kinds.Lease, before);
    const stored = await client.get(kinds.Lease, name);
    await client.replace(kinds.Lease, { ...stored, spec: { holderIdentity: "b" } });
    expect(changes.at(-1)).toEqual(fields);
  }
});

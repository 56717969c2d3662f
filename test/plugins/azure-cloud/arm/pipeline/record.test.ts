import { expect, test } from "bun:test";

import { createHttpHeaders, createPipelineRequest } from "@azure/core-rest-pipeline";
import type { CloudWrite } from "cloud-controller-host/sdk";

import { fieldChanges } from "../../../../../host/changes/fields.ts";
import { describeWrite, recordPolicy } from "../../../../../plugins/azure-cloud/arm/pipeline/record.ts";

const url =
  "https://management.azure.com/subscriptions/s/resourceGroups/g/providers/Microsoft.Network/loadBalancers/kubernetes";

/** What a PUT of the one in place of the other is recorded with. */
async function changeOf(before: object | undefined, after: object): Promise<CloudWrite["change"]> {
  const written: CloudWrite[] = [];
  const { signal } = new AbortController();
  describeWrite(signal, { before, after });
  const request = createPipelineRequest({ url, method: "PUT", abortSignal: signal });
  await recordPolicy((write) => void written.push(write)).sendRequest(request, () =>
    Promise.resolve({ request, status: 200, headers: createHttpHeaders() }),
  );
  return written[0]?.change;
}

const probe = (name: string, port: number) => ({ name, port });

test("the record of a write names the items that it adds, changes and removes, and no other one", async () => {
  const [kept, other] = [probe("kept", 1), probe("other", 2)];
  const change = await changeOf(
    { tags: { a: "1" }, probes: [kept, probe("changed", 3), probe("gone", 4)], loadBalancingRules: [other] },
    { tags: { a: "1" }, probes: [probe("changed", 5), kept, probe("new", 6)], loadBalancingRules: [other] },
  );
  expect(change).toEqual({
    before: { tags: { a: "1" }, probes: [probe("changed", 3), probe("gone", 4)] },
    after: { tags: { a: "1" }, probes: [probe("changed", 5), probe("new", 6)] },
  });
  expect(fieldChanges(change?.before, change?.after)).toEqual([
    { path: "probes[changed].port", before: 3, after: 5 },
    { path: "probes[gone].port", before: 4 },
    { path: "probes[new].port", after: 6 },
  ]);
});

test("the record of a write has the whole of a list whose items have no names of their own", async () => {
  const [twice, unnamed] = [probe("twice", 1), { port: 2 }];
  for (const [before, after] of [
    [{ probes: [twice] }, { probes: [twice, probe("twice", 3)] }],
    [{ probes: [unnamed] }, { probes: [unnamed, probe("new", 3)] }],
  ] as const)
    expect(await changeOf(before, after)).toEqual({ before, after });
});

test("the record of a creation has all that is created", async () => {
  expect(await changeOf(undefined, { probes: [probe("new", 1)] })).toEqual({
    before: undefined,
    after: { probes: [probe("new", 1)] },
  });
});

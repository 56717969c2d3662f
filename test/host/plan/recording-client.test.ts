import { expect, test } from "bun:test";

import { ApiError, isAlreadyExists, kinds } from "cloud-controller-host/sdk";

import { systemClock } from "../../../host/async/clock.ts";
import { createClient } from "../../../host/kube/connection/client.ts";
import { Activity } from "../../../host/plan/activity.ts";
import { RecordedWrites } from "../../../host/plan/recorded.ts";
import { RecordingClient } from "../../../host/plan/recording-client.ts";
import { WrittenObjects } from "../../../host/plan/written-objects.ts";
import { errorOf } from "../../kit/rejection.ts";

const own = { metadata: { namespace: "default", name: "own" } };
const named = (name: string) => ({ metadata: { namespace: "default", name } });

/** A client of a plan, on an API server that answers each read of an object with an error. */
function recording(errorFor: (name: string) => Error) {
  const sent: string[] = [];
  const send = ({ path }: { readonly path: string }): Promise<never> => {
    sent.push(path);
    return Promise.reject(errorFor(path.slice(path.lastIndexOf("/") + 1)));
  };
  const real = createClient({ url: "", userAgent: "", send, close: () => undefined });
  const parts = {
    writes: new RecordedWrites("azure"),
    written: new WrittenObjects(),
    activity: new Activity(systemClock),
  };
  return { client: new RecordingClient(real, parts, { stored: () => undefined }), writes: parts.writes, sent };
}

const absent = (): Error => new ApiError(404, "NotFound", "not found");

test("an object that the API server names is planned without a look for it", async () => {
  const { client, writes, sent } = recording(absent);
  await client.create(kinds.ConfigMap, { metadata: { namespace: "default", generateName: "any-" } });
  expect(sent).toEqual([]);
  await client.create(kinds.ConfigMap, own);
  expect(sent).toEqual(["/api/v1/namespaces/default/configmaps/own"]);
  expect(writes.count).toBe(2);
});

test("an object that two controllers of a plan create at the same time exists for one of them", async () => {
  const { client, writes } = recording(absent);
  const created = await Promise.allSettled([client.create(kinds.ConfigMap, own), client.create(kinds.ConfigMap, own)]);
  expect(created.map(({ status }) => status)).toEqual(["fulfilled", "rejected"]);
  expect(isAlreadyExists(created[1]?.status === "rejected" && created[1].reason)).toBeTrue();
  await client.delete(kinds.ConfigMap, own.metadata);
  await client.create(kinds.ConfigMap, own);
  expect(writes.count).toBe(3);
});

test("an object is planned where its user may not read it, and not where the read fails", async () => {
  const { client, writes } = recording((name) =>
    name === "denied" ? new ApiError(403, "Forbidden", "denied") : new ApiError(503, "ServiceUnavailable", "no etcd"),
  );
  await client.create(kinds.ConfigMap, named("denied"));
  expect(await errorOf(client.create(kinds.ConfigMap, named("failing")))).toMatchObject({ status: 503 });
  expect(writes.changes.map(({ title }) => title)).toEqual(["ConfigMap default/denied"]);
});

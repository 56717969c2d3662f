import { expect, test } from "bun:test";

import { ApiError, kinds } from "cloud-controller-host/sdk";

import { systemClock } from "../../../host/async/clock.ts";
import { createClient } from "../../../host/kube/connection/client.ts";
import { Activity } from "../../../host/plan/activity.ts";
import { RecordedWrites } from "../../../host/plan/recorded.ts";
import { RecordingClient } from "../../../host/plan/recording-client.ts";
import { WrittenObjects } from "../../../host/plan/written-objects.ts";

test("an object that the API server names is planned without a look for it", async () => {
  const sent: string[] = [];
  const send = ({ path }: { readonly path: string }): Promise<never> => {
    sent.push(path);
    return Promise.reject(new ApiError(404, "NotFound", "not found"));
  };
  const real = createClient({ url: "", userAgent: "", send, close: () => undefined });
  const parts = {
    writes: new RecordedWrites("azure"),
    written: new WrittenObjects(),
    activity: new Activity(systemClock),
  };
  const client = new RecordingClient(real, parts, { stored: () => undefined });
  await client.create(kinds.ConfigMap, { metadata: { namespace: "default", generateName: "any-" } });
  expect(sent).toEqual([]);
  await client.create(kinds.ConfigMap, { metadata: { namespace: "default", name: "own" } });
  expect(sent).toEqual(["/api/v1/namespaces/default/configmaps/own"]);
  expect(parts.writes.count).toBe(2);
});

import { beforeEach, expect, test } from "bun:test";

import { kinds } from "cloud-controller-host/sdk";
import { manualClock } from "cloud-controller-host/sdk/testing";

import { createLogger } from "../../../host/process/log/log.ts";
import { serviceWrites } from "../../../plugins/service-lb/service-writes.ts";
import { describeOnRealApiServer } from "../../envtest/shared.ts";
import { errorOf } from "../../kit/rejection.ts";
import { aService, finalizer } from "./objects.ts";

const name = { name: "web", namespace: "default" };

describeOnRealApiServer("writes of a Service on a real API server", (cluster) => {
  beforeEach(() => cluster.cleanSlate());

  test("writes of a Service reach it, and never another one that was created under its name", async () => {
    const { admin: client } = cluster;
    const log = createLogger({ format: "text", verbosity: 0, write: () => undefined });
    const writes = serviceWrites({ client, clock: manualClock(), log });
    const ingress = [{ ip: "192.0.2.1" }];
    const former = await client.create(kinds.Service, aService());
    await writes.addFinalizer(former);
    await writes.status(former, { ingress });
    expect(await client.get(kinds.Service, name)).toMatchObject({
      metadata: { finalizers: [finalizer] },
      status: { loadBalancer: { ingress } },
    });
    await writes.release(await client.get(kinds.Service, name), "cleared");
    await client.delete(kinds.Service, name);
    const current = await client.create(kinds.Service, aService({ meta: { finalizers: [finalizer] } }));
    await writes.status(former, { ingress });
    await writes.condition.success(former, ["a warning"]);
    await writes.release({ ...former, metadata: { ...former.metadata, finalizers: [finalizer] } }, "cleared");
    expect(await errorOf(writes.addFinalizer(former))).toMatchObject({ cause: { status: 404 } });
    expect(await client.get(kinds.Service, name)).toEqual(current);
    await writes.release(current, "cleared");
  });
});

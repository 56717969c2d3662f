import { describe, expect, setDefaultTimeout, test } from "bun:test";

import { Value } from "@sinclair/typebox/value";
import { isConflict, kinds, Type } from "cloud-controller-host/sdk";
import { eventually } from "cloud-controller-host/sdk/testing";

import { WriteLog } from "../../../host/process/write-log.ts";
import { joinNodes } from "../../kit/azure.ts";
import { addressesOf, balancedService, findService } from "../../kit/services.ts";
import { SandboxLab } from "../sandbox-lab.ts";

setDefaultTimeout(90_000);

const page = Type.Object({
  writes: Type.Array(
    Type.Object({
      system: Type.String(),
      controller: Type.String(),
      generation: Type.Number(),
      operation: Type.String(),
      resource: Type.String(),
      status: Type.Optional(Type.Number()),
      error: Type.Optional(Type.String()),
      correlationId: Type.Optional(Type.String()),
    }),
  ),
});

const source = { controller: "c", generation: 1, system: "cloud" } as const;
const write = (resource: string) => ({ operation: "PUT", resource, milliseconds: 10.4 });

describe("the record of writes", () => {
  test("keeps the latest thousand, oldest first, with the time at which each was sent", () => {
    let now = Date.UTC(2026, 10, 22);
    const log = new WriteLog({ now: () => now });
    for (let index = 0; index < 1_003; index += 1) {
      now += 1_000;
      log.add(source, write(`r${index}`));
    }
    expect(log.records).toHaveLength(1_000);
    expect(log.records[0]).toMatchObject({ resource: "r3", at: "2026-11-22T00:00:03.989Z", milliseconds: 10 });
    expect(log.records.at(-1)?.resource).toBe("r1002");
  });

  test("has the outcome of each write that a controller makes, without its content, and no read", async () => {
    await using lab = await SandboxLab.open();
    const log = new WriteLog({ now: () => Date.now() });
    const client = log.of(lab.admin, "my-controller", 3);
    const name = { namespace: "default", name: "c" };
    await client.create(kinds.ConfigMap, { metadata: name, data: { key: "s3cr3t" } });
    await client.get(kinds.ConfigMap, name);
    await client.patch(kinds.ConfigMap, name, "merge", { data: { key: "0ther" } });
    const stale = client.replace(kinds.ConfigMap, { metadata: { ...name, resourceVersion: "1" } });
    expect(isConflict(await stale.catch((error: unknown) => error))).toBe(true);
    await client.delete(kinds.ConfigMap, name);
    const shown = log.records.map(({ controller, generation, system, operation, resource, status }) =>
      [controller, generation, system, operation, resource, status].join(" ").trim(),
    );
    expect(shown).toEqual([
      "my-controller 3 kubernetes create ConfigMap default/c",
      "my-controller 3 kubernetes patch ConfigMap default/c",
      "my-controller 3 kubernetes replace ConfigMap default/c 409",
      "my-controller 3 kubernetes delete ConfigMap default/c",
    ]);
    expect(JSON.stringify(log.records)).not.toMatch(/s3cr3t|0ther/u);
  });

  test("is at /statusz/writes, with ARM's writes, their correlation IDs, and the error of one that fails", async () => {
    await using lab = await SandboxLab.open();
    await joinNodes(lab.admin, lab.azure, 1);
    const refused = { status: 403, code: "AuthorizationFailed", times: 1 };
    lab.azure.simulator.failNext({ method: "PUT", path: "/publicIPAddresses/" }, refused);
    const host = lab.start({
      flags: [
        "--controllers=cloud-node-controller,service-lb-controller",
        "--authorization-always-allow-paths=/statusz,/statusz/writes",
      ],
    });
    await host.until("it runs", ({ running }) => running);
    await lab.admin.create(kinds.Service, balancedService("web"));
    await eventually(
      "the Service has an address",
      async () => addressesOf(await findService(lab.admin, "web")).length > 0,
      60_000,
    );
    const response = await host.get("/statusz/writes");
    expect(response.status).toBe(200);
    const { writes } = Value.Parse(page, await response.json());
    const cloud = writes.filter(({ system }) => system === "cloud");
    const publicIPs = cloud.filter(({ resource }) => resource.includes("/publicIPAddresses/"));
    expect(publicIPs.map(({ status }) => status)).toEqual([403, undefined]);
    expect(publicIPs[0]?.error).toContain("AuthorizationFailed");
    expect(cloud.every(({ controller, generation }) => controller === "azure-cloud-provider" && generation === 1)).toBe(
      true,
    );
    expect(cloud.filter(({ correlationId }) => correlationId === undefined)).toEqual([]);
    expect(writes).toContainEqual(
      expect.objectContaining({
        operation: "patch",
        resource: "Service default/web (status)",
        controller: "service-controller",
      }),
    );
    expect(JSON.stringify(writes)).not.toContain("s3cr3t");
  });
});

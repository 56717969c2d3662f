import { describe, expect, setDefaultTimeout, test } from "bun:test";
import { appendFile } from "node:fs/promises";
import { join } from "node:path";

import { Value } from "@sinclair/typebox/value";
import { isConflict, kinds, Type } from "cloud-controller-host/sdk";
import { eventually } from "cloud-controller-host/sdk/testing";

import { WriteLog } from "../../../../host/process/writes/write-log.ts";
import { joinNodes } from "../../../kit/azure.ts";
import { addressesOf, balancedService, cleanupFinalizer, deleteService, findService } from "../../../kit/services.ts";
import { SandboxLab } from "../../sandbox-lab.ts";

setDefaultTimeout(120_000);

const record = Type.Object({
  system: Type.String(),
  controller: Type.String(),
  generation: Type.Number(),
  operation: Type.String(),
  resource: Type.String(),
  status: Type.Optional(Type.Number()),
  error: Type.Optional(Type.String()),
  correlationId: Type.Optional(Type.String()),
  causes: Type.Array(Type.String()),
  fields: Type.Array(
    Type.Object({ path: Type.String(), before: Type.Optional(Type.Unknown()), after: Type.Optional(Type.Unknown()) }),
  ),
});

const page = Type.Object({ writes: Type.Array(record) });

const source = { controller: "c", generation: 1, system: "cloud" } as const;
const write = (resource: string) => ({ operation: "PUT", resource, milliseconds: 10.4 });

describe("the record of writes", () => {
  test("keeps the latest thousand, oldest first, with the time at which each was sent", () => {
    let now = Date.UTC(2026, 10, 22);
    const log = new WriteLog({ clock: { now: () => now } });
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
    const log = new WriteLog({ clock: Date });
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
    expect(log.records[0]?.fields).toContainEqual({ path: "data.key", after: "(not recorded)" });
  });

  test("stays below two megabytes: it shortens long values, counts what it leaves out, and drops the oldest", () => {
    const log = new WriteLog({ clock: Date });
    const rules = Array.from({ length: 500 }, (_, index) => ({ name: `r${index}`, text: "x".repeat(500) }));
    for (let index = 0; index < 300; index += 1)
      log.add(source, { ...write(`r${index}`), change: { before: undefined, after: { rules } } });
    expect(JSON.stringify(log.records).length).toBeLessThan(2 * 1024 * 1024 + 1_000);
    expect(log.records.at(-1)).toMatchObject({ resource: "r299", moreFields: 460 });
    expect(log.records.length).toBeGreaterThan(100);
    expect(log.records.at(-1)?.fields).toHaveLength(40);
  });

  test("names the Services and nodes behind a write, also deleted ones", () => {
    const log = new WriteLog({ clock: Date });
    const web = { metadata: { namespace: "default", name: "web", uid: "aa-bb" } };
    const node = { metadata: { name: "vm-0" }, status: { addresses: [{ type: "InternalIP", address: "10.0.0.4" }] } };
    log.services.added(web);
    log.nodes.added(node);
    const rule = { rules: [{ name: "aaabb-TCP-80", port: 80 }] };
    const member = { members: [{ ipAddress: "10.0.0.4" }] };
    log.add(source, { ...write("lb"), change: { before: {}, after: { ...rule, ...member } } });
    log.services.deleted(web);
    log.nodes.deleted(node);
    log.add(source, { ...write("lb"), change: { before: rule, after: {} } });
    log.add(source, { ...write("lb"), change: { before: member, after: undefined } });
    log.add(source, write("lb"));
    expect(log.records.map(({ causes }) => causes)).toEqual([
      ["Node vm-0", "Service default/web"],
      ["Service default/web"],
      ["Node vm-0"],
      [],
    ]);
    expect(log.records[1]?.fields).toEqual([{ path: "rules[aaabb-TCP-80].port", before: 80 }]);
    expect(log.records[2]?.fields).toEqual([]);
  });

  test("forgets the oldest of more than a thousand deleted objects, and no other", () => {
    const log = new WriteLog({ clock: Date });
    for (let index = 0; index <= 1_000; index += 1) {
      const node = { metadata: { name: `vm-${index}` } };
      log.nodes.added(node);
      log.nodes.deleted(node);
    }
    for (const name of ["vm-0", "vm-1"]) log.add(source, write(`pool ${name}`));
    expect(log.records.map(({ causes }) => causes)).toEqual([[], ["Node vm-1"]]);
  });

  test("never keeps a write from being sent: a change that cannot be described has no fields", async () => {
    await using lab = await SandboxLab.open();
    const name = { metadata: { name: "n" } };
    await lab.admin.create(kinds.Node, name);
    const find = (): never => {
      throw new Error("the store is broken");
    };
    const log = new WriteLog({ clock: Date, find });
    await log.of(lab.admin, "c", 1).patch(kinds.Node, { name: "n" }, "merge", { metadata: { labels: { a: "1" } } });
    expect((await lab.admin.get(kinds.Node, { name: "n" })).metadata?.labels).toMatchObject({ a: "1" });
    expect(log.records.map(({ operation, fields }) => ({ operation, fields }))).toEqual([
      { operation: "patch", fields: [] },
    ]);
  });

  test("has what a patch changes of a Node, without the values of annotations and secrets", async () => {
    await using lab = await SandboxLab.open();
    const before = await lab.admin.create(kinds.Node, { metadata: { name: "n", labels: { a: "1" } }, spec: {} });
    const log = new WriteLog({ clock: Date, find: () => before });
    const client = log.of(lab.admin, "my-controller", 3);
    await client.patch(kinds.Node, { name: "n" }, "merge", {
      metadata: { labels: { a: "2" }, annotations: { note: "s3cr3t" } },
      spec: { podCIDR: "10.1.0.0/24" },
    });
    await client.patch(kinds.Node, { name: "n" }, "json", [
      { op: "add", path: "/spec/taints", value: [{ key: "k", effect: "NoSchedule" }] },
    ]);
    expect(log.records.map(({ fields }) => fields)).toEqual([
      [
        { path: "metadata.annotations.note", after: "(not recorded)" },
        { path: "metadata.labels.a", before: "1", after: "2" },
        { path: "spec.podCIDR", after: "10.1.0.0/24" },
      ],
      [{ path: "spec.taints[k].effect", after: "NoSchedule" }],
    ]);
  });

  test("redacts what looks like a secret in fields and errors", () => {
    const log = new WriteLog({ clock: Date });
    const after = { tags: { password: "s3cr3t", note: "Bearer s3cr3t-0123456789" }, body: '{"clientSecret":"s3cr3t"}' };
    log.add(source, { ...write("lb"), change: { before: {}, after }, error: "refused client_secret=s3cr3t" });
    expect(log.records[0]?.fields.map(({ path }) => path)).toEqual(["body", "tags.note", "tags.password"]);
    expect(JSON.stringify(log.records)).not.toContain("s3cr3t");
  });

  test("is at /statusz/writes, with ARM's writes, their causes and fields, and the error of one that fails; the audit log has the same", async () => {
    await using lab = await SandboxLab.open();
    await joinNodes(lab.admin, lab.azure, 1);
    const refused = { status: 403, code: "AuthorizationFailed", times: 1 };
    lab.azure.simulator.failNext({ method: "PUT", path: "/publicIPAddresses/" }, refused);
    const path = join(lab.azure.folder, "audit.log");
    const host = lab.start({
      flags: [
        `--audit-log-path=${path}`,
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
    const balancer = cloud.find(({ resource }) => resource.includes("/loadBalancers/"));
    expect(balancer?.causes).toContain("Service default/web");
    expect(balancer?.fields).toContainEqual({ path: "sku.name", after: "Standard" });
    const ofService = writes.filter(({ resource }) => resource === "Service default/web (status)");
    expect(ofService.flatMap(({ causes }) => causes)).toEqual(ofService.map(() => "Service default/web"));
    const paths = ofService.flatMap(({ fields }) => fields.map((field) => field.path));
    expect(paths.join(" ")).toContain("status.loadBalancer.ingress");
    await deleteService(lab.admin, "web");
    await eventually("the Service is gone", async () => (await findService(lab.admin, "web")) === undefined, 60_000);
    expect(await host.stop()).toBe(0);
    const lines = (await Bun.file(path).text()).trim().split("\n");
    const records = Value.Parse(
      Type.Array(record),
      lines.map((line): unknown => JSON.parse(line)),
    );
    expect(records.slice(0, writes.length)).toEqual(writes);
    expect(records).toContainEqual(
      expect.objectContaining({ operation: "DELETE", causes: ["Service default/web"], fields: [] }),
    );
    expect(records).toContainEqual(
      expect.objectContaining({
        operation: "patch",
        resource: "Service default/web (status)",
        fields: [
          { path: "metadata.finalizers", before: [cleanupFinalizer] },
          { path: "status.loadBalancer.ingress", before: [expect.objectContaining({ ip: expect.any(String) })] },
        ],
      }),
    );
    const [, secret = ""] = /aadClientSecret"?: "?([0-9a-f-]{36})/u.exec(lab.azure.configText) ?? [];
    expect(secret).not.toBe("");
    expect(lines.join("")).not.toContain(secret);
  });

  test("contains no secret, neither at /statusz/writes nor in the audit log: of the config, of Secrets, of annotations, of tokens", async () => {
    await using lab = await SandboxLab.open();
    await joinNodes(lab.admin, lab.azure, 1);
    const canary = "c4n4ry-77d2";
    const annotations = { "corp.example/password": canary, "corp.example/join-token": canary };
    const { metadata, ...other } = balancedService("web");
    await lab.admin.create(kinds.Service, { ...other, metadata: { ...metadata, annotations } });
    const plugins = await lab.plugin(
      "secretive",
      `import { defineController, kinds } from "cloud-controller-host/sdk";
       export default defineController({
         name: "secretive-controller",
         permissions: [],
         construct: () => ({ client }) => ({
           run: async (signal) => {
             const metadata = { namespace: "default", name: "own", annotations: { "corp.example/token": "${canary}" } };
             await client.create(kinds.Secret, { metadata, stringData: { key: "${canary}" } });
             await client.patch(kinds.Secret, metadata, "merge", { stringData: { key: "${canary}-2" } });
             await client.create(kinds.ConfigMap, { metadata: { ...metadata, name: "map" }, data: { password: "${canary}" } });
             await client.patch(kinds.Service, { ...metadata, name: "web" }, "merge", { metadata: { annotations: { "corp.example/password": "${canary}-3" } } });
             await new Promise((resolve) => signal.addEventListener("abort", resolve));
           },
         }),
       });`,
    );
    const path = join(lab.azure.folder, "audit.log");
    await appendFile(lab.azure.config, `aadClientCertPassword: ${canary}\n`);
    const host = lab.start({
      flags: [
        `--audit-log-path=${path}`,
        "--controllers=cloud-node-controller,service-lb-controller,secretive-controller",
        "--authorization-always-allow-paths=/statusz,/statusz/writes",
        plugins,
      ],
    });
    await eventually(
      "the Service has an address",
      async () => addressesOf(await findService(lab.admin, "web")).length > 0,
      60_000,
    );
    const served = await (await host.get("/statusz/writes")).text();
    expect(await host.stop()).toBe(0);
    const written = await Bun.file(path).text();
    const [, secret = "-"] = /aadClientSecret"?: "?([0-9a-f-]{36})/u.exec(lab.azure.configText) ?? [];
    for (const text of [served, written]) {
      for (const resource of ["Secret default/own", "ConfigMap default/map", "Service default/web"])
        expect(text).toContain(`"${resource}`);
      expect(text).toContain("corp.example/password");
      for (const hidden of [canary, secret, lab.api.tokens.of("admin")]) expect(text).not.toContain(hidden);
    }
  });
});

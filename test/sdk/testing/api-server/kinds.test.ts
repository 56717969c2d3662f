import { expect, test } from "bun:test";

import { merge, type Reply } from "./api-client.ts";
import { describeProtocol } from "./on-both.ts";

const causes = ({ body }: Reply): readonly string[] =>
  [...JSON.stringify(body).matchAll(/"field":"([^"]+)"/g)].map(([, field = ""]) => field);

describeProtocol("nodes", (protocol) => {
  const create = (fields: object): Promise<Reply> =>
    protocol.api.send("POST", "/api/v1/nodes", { metadata: { name: protocol.name("node") }, ...fields });
  const patch = ({ body }: Reply, fields: object, at = ""): Promise<Reply> =>
    protocol.api.send("PATCH", `/api/v1/nodes/${body.metadata.name ?? ""}${at}`, fields, { contentType: merge });
  const taint = (key: string, effect: string, value = ""): object => ({ key, effect, value });

  const podCIDRs: readonly (readonly [string, object, object])[] = [
    [
      "the list is made of the single field",
      { podCIDR: "10.1.0.0/24" },
      { podCIDR: "10.1.0.0/24", podCIDRs: ["10.1.0.0/24"] },
    ],
    [
      "the single field is the first of the list",
      { podCIDRs: ["10.1.0.0/24", "fd01::/64"] },
      { podCIDR: "10.1.0.0/24", podCIDRs: ["10.1.0.0/24", "fd01::/64"] },
    ],
    [
      "the single field wins where they differ",
      { podCIDR: "10.2.0.0/24", podCIDRs: ["10.1.0.0/24"] },
      { podCIDR: "10.2.0.0/24", podCIDRs: ["10.2.0.0/24"] },
    ],
  ];
  for (const [name, sent, kept] of podCIDRs)
    test(`the pod CIDRs of a node: ${name}`, async () => {
      expect((await create({ spec: sent })).body.spec).toEqual({ ...kept });
    });

  test("the pod CIDRs of a node are immutable once set", async () => {
    const node = await create({});
    const given = await patch(node, { spec: { podCIDR: "10.1.0.0/24", podCIDRs: ["10.1.0.0/24"] } });
    expect(given.status).toBe(200);
    for (const spec of [
      { podCIDR: "10.2.0.0/24", podCIDRs: ["10.2.0.0/24"] },
      { podCIDRs: ["10.1.0.0/24", "fd01::/64"] },
      { podCIDR: null, podCIDRs: null },
    ]) {
      const refused = await patch(node, { spec });
      expect(refused.status).toBe(422);
      expect(causes(refused).some((field) => field.startsWith("spec.podCIDRs"))).toBe(true);
    }
  });

  test("the provider ID of a node is immutable once set", async () => {
    const node = await create({});
    expect((await patch(node, { spec: { providerID: "azure:///a" } })).status).toBe(200);
    for (const providerID of ["azure:///b", null]) {
      const refused = await patch(node, { spec: { providerID } });
      expect([refused.status, causes(refused)]).toEqual([422, ["spec.providerID"]]);
    }
  });

  const refusals: readonly (readonly [string, object, string])[] = [
    ["an invalid pod CIDR", { spec: { podCIDR: "ten" } }, "spec.podCIDRs"],
    ["two pod CIDRs of one family", { spec: { podCIDRs: ["10.1.0.0/24", "10.2.0.0/24"] } }, "spec.podCIDRs"],
    ["an unknown effect of a taint", { spec: { taints: [taint("a", "Maybe")] } }, "metadata.taints[0].effect"],
    ["a taint without an effect", { spec: { taints: [taint("a", "")] } }, "metadata.taints[0].effect"],
    [
      "a taint's key that is not a qualified name",
      { spec: { taints: [taint("a b", "NoSchedule")] } },
      "metadata.taints[0].key",
    ],
    [
      "a taint's value that no label may have",
      { spec: { taints: [taint("a", "NoSchedule", "b c")] } },
      "metadata.taints[0].value",
    ],
    [
      "the same taint twice",
      { spec: { taints: [taint("a", "NoSchedule"), taint("a", "NoExecute"), taint("a", "NoSchedule", "b")] } },
      "metadata.taints[2]",
    ],
  ];
  for (const [name, fields, field] of refusals)
    test(`rejects ${name} with an error on ${field}`, async () => {
      const refused = await create(fields);
      expect(refused.status).toBe(422);
      expect(causes(refused).some((cause) => cause.startsWith(field))).toBe(true);
    });

  test("rejects a status update with a duplicate address", async () => {
    const node = await create({});
    const address = { type: "InternalIP", address: "10.0.0.4" };
    const refused = await patch(node, { status: { addresses: [address, address] } }, "/status");
    expect(causes(refused)).toEqual(["status.addresses[1]"]);
  });

  test("a condition without timestamps returns them as null", async () => {
    const { body } = await create({ status: { conditions: [{ type: "Ready", status: "True" }] } });
    expect(body.status).toMatchObject({
      conditions: [{ type: "Ready", status: "True", lastHeartbeatTime: null, lastTransitionTime: null }],
    });
  });
});

describeProtocol("leases, config maps and secrets", (protocol) => {
  const send = async (path: string, body: object): Promise<Reply> =>
    protocol.api.send("POST", path.replace("NS", await protocol.namespace()), { metadata: { name: "x" }, ...body });
  const leases = "/apis/coordination.k8s.io/v1/namespaces/NS/leases";
  const configMaps = "/api/v1/namespaces/NS/configmaps";
  const secrets = "/api/v1/namespaces/NS/secrets";

  const refusals: readonly (readonly [string, string, object, string])[] = [
    ["a lease with a zero duration", leases, { spec: { leaseDurationSeconds: 0 } }, "spec.leaseDurationSeconds"],
    ["a negative number of transitions", leases, { spec: { leaseTransitions: -1 } }, "spec.leaseTransitions"],
    ["a config map's key with a slash", configMaps, { data: { "a/b": "c" } }, "data[a/b]"],
    ["a key that is there in both forms", configMaps, { data: { a: "b" }, binaryData: { a: "Yg==" } }, "data[a]"],
    ["a secret's key with a space", secrets, { data: { "a b": "" } }, "data[a b]"],
  ];
  for (const [name, path, body, field] of refusals)
    test(`rejects ${name} with an error on ${field}`, async () => {
      const refused = await send(path, body);
      expect([refused.status, causes(refused)]).toEqual([422, [field]]);
    });

  for (const [name, path] of [
    ["config map", configMaps],
    ["secret", secrets],
  ] as const)
    test(`an immutable ${name} keeps its data and stays immutable, but its labels may change`, async () => {
      const created = await send(path, { data: { a: "Yg==" }, immutable: true });
      const own = `${path.replace("NS", created.body.metadata.namespace ?? "")}/x`;
      const patch = async (body: object): Promise<number> =>
        (await protocol.api.send("PATCH", own, body, { contentType: merge })).status;
      expect(await patch({ data: { a: "Yw==" } })).toBe(422);
      expect(await patch({ immutable: false })).toBe(422);
      expect(await patch({ metadata: { labels: { a: "b" } } })).toBe(200);
    });

  test("the type of a secret is immutable, and the keys that it requires must be present", async () => {
    const created = await send(secrets, { data: { a: "Yg==" } });
    const own = `${secrets.replace("NS", created.body.metadata.namespace ?? "")}/x`;
    const changed = await protocol.api.send("PATCH", own, { type: "other" }, { contentType: merge });
    expect([changed.status, causes(changed)]).toEqual([422, ["type"]]);
  });
});

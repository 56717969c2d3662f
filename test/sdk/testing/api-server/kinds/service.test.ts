import { expect, test } from "bun:test";

import type { Service } from "cloud-controller-host/sdk";

import { type Document, merge, type Reply } from "../api-client.ts";
import { describeProtocol } from "../on-both.ts";

type Spec = NonNullable<Service["spec"]>;
type Port = Partial<NonNullable<Spec["ports"]>[number]>;
type SentSpec = Omit<Partial<Spec>, "ports"> & { readonly ports?: readonly Port[] };

describeProtocol("services", (protocol) => {
  const send = async (spec: object): Promise<Reply> => {
    const path = `/api/v1/namespaces/${await protocol.namespace()}/services`;
    return protocol.api.send("POST", path, { metadata: { name: "s" }, spec });
  };
  const create = async (sent: SentSpec): Promise<{ readonly path: string; readonly spec: Spec }> => {
    const { status, body } = await send({ ports: [{ port: 80 }], ...sent });
    if (status !== 201) throw new Error(body.message);
    return { path: `/api/v1/namespaces/${body.metadata.namespace ?? ""}/services/s`, spec: body.spec };
  };
  const patch = async (path: string, spec: object): Promise<Spec> =>
    (await protocol.api.done("PATCH", path, { spec }, merge)).spec;
  const fieldsOf = (body: Document): string => JSON.stringify(body);

  test("a service gets a cluster IP and the defaults of its type", async () => {
    const { spec } = await create({});
    expect(spec).toEqual({
      type: "ClusterIP",
      clusterIP: expect.stringMatching(/^10\./),
      clusterIPs: [spec.clusterIP ?? ""],
      ipFamilies: ["IPv4"],
      ipFamilyPolicy: "SingleStack",
      internalTrafficPolicy: "Cluster",
      sessionAffinity: "None",
      ports: [{ port: 80, protocol: "TCP", targetPort: 80 }],
    });
  });

  test("a load balancer gets node ports and traffic policies", async () => {
    const { spec } = await create({ type: "LoadBalancer" });
    expect(spec).toMatchObject({ allocateLoadBalancerNodePorts: true, externalTrafficPolicy: "Cluster" });
    expect(spec.ports?.[0]?.nodePort).toBeWithin(30_000, 32_768);
    expect(spec.healthCheckNodePort).toBeUndefined();
  });

  test("a load balancer with externalTrafficPolicy Local gets a health check node port", async () => {
    const { spec } = await create({ type: "LoadBalancer", externalTrafficPolicy: "Local" });
    expect(spec.healthCheckNodePort).toBeWithin(30_000, 32_768);
    expect(spec.healthCheckNodePort).not.toBe(spec.ports?.[0]?.nodePort ?? 0);
  });

  test("a load balancer with allocateLoadBalancerNodePorts false gets no node ports", async () => {
    const { spec } = await create({ type: "LoadBalancer", allocateLoadBalancerNodePorts: false });
    expect(spec.ports).toEqual([{ port: 80, protocol: "TCP", targetPort: 80 }]);
  });

  test("one port for two protocols gets one node port", async () => {
    const ports = [
      { name: "a", port: 53, protocol: "TCP" },
      { name: "b", port: 53, protocol: "UDP" },
    ];
    const { spec } = await create({ type: "NodePort", ports });
    expect(new Set(spec.ports?.map(({ nodePort }) => nodePort)).size).toBe(1);
  });

  test("a service may request a node port, which is then taken", async () => {
    const { spec } = await create({ type: "NodePort", ports: [{ port: 80 }] });
    const nodePort = spec.ports?.[0]?.nodePort ?? 0;
    const refused = await send({ type: "NodePort", ports: [{ port: 80, nodePort }] });
    expect(refused.status).toBe(422);
    expect(fieldsOf(refused.body)).toContain("spec.ports[0].nodePort");
  });

  test("a service may request a cluster IP, which is then taken", async () => {
    const { spec } = await create({ clusterIP: "10.0.0.77" });
    expect(spec.clusterIPs).toEqual(["10.0.0.77"]);
    expect((await send({ clusterIP: "10.0.0.77", ports: [{ port: 80 }] })).status).toBe(422);
    expect((await send({ clusterIP: "192.168.0.1", ports: [{ port: 80 }] })).status).toBe(422);
  });

  test("session affinity lasts three hours by default", async () => {
    const { path, spec } = await create({ sessionAffinity: "ClientIP" });
    expect(spec.sessionAffinityConfig).toEqual({ clientIP: { timeoutSeconds: 10_800 } });
    const timed = await patch(path, { sessionAffinityConfig: { clientIP: { timeoutSeconds: 60 } } });
    expect(timed.sessionAffinityConfig).toEqual({ clientIP: { timeoutSeconds: 60 } });
  });

  test("a headless service has no cluster IP; one without a selector has both families", async () => {
    const one = await create({ clusterIP: "None", selector: { a: "b" } });
    expect(one.spec).toMatchObject({ clusterIP: "None", clusterIPs: ["None"], ipFamilies: ["IPv4"] });
  });

  test("an ExternalName service has neither cluster IP nor node ports", async () => {
    const { status, body } = await send({ type: "ExternalName", externalName: "a.example" });
    expect(status).toBe(201);
    expect(body.spec).toEqual({ type: "ExternalName", externalName: "a.example", sessionAffinity: "None" });
  });

  test("values that the server allocated stay when an update omits them", async () => {
    const { path, spec } = await create({ type: "LoadBalancer", externalTrafficPolicy: "Local" });
    const put = await protocol.api.done("PUT", path, {
      metadata: { name: "s" },
      spec: { type: "LoadBalancer", externalTrafficPolicy: "Local", ports: [{ port: 80 }] },
    });
    expect(put.spec).toEqual(spec);
    expect(await patch(path, { clusterIP: null })).toEqual(spec);
  });

  test("fields specific to the old type are removed on a type change", async () => {
    const { path, spec } = await create({ type: "LoadBalancer", externalTrafficPolicy: "Local" });
    const status = { loadBalancer: { ingress: [{ ip: "203.0.113.9" }] } };
    await protocol.api.done("PATCH", `${path}/status`, { status }, merge);
    const internal = await protocol.api.done("PATCH", path, { spec: { type: "ClusterIP" } }, merge);
    expect(internal.spec).toEqual({
      type: "ClusterIP",
      clusterIP: spec.clusterIP,
      clusterIPs: spec.clusterIPs,
      ipFamilies: ["IPv4"],
      ipFamilyPolicy: "SingleStack",
      internalTrafficPolicy: "Cluster",
      sessionAffinity: "None",
      ports: [{ port: 80, protocol: "TCP", targetPort: 80 }],
    });
    expect(internal.status).toEqual({ loadBalancer: {} });
    expect(await patch(path, { type: "ExternalName", externalName: "a.example" })).toEqual({
      type: "ExternalName",
      externalName: "a.example",
      sessionAffinity: "None",
      ports: [{ port: 80, protocol: "TCP", targetPort: 80 }],
    });
  });

  test("the ipMode of an ingress address is VIP by default", async () => {
    const { path } = await create({ type: "LoadBalancer" });
    const ingress = [{ ip: "203.0.113.9" }, { hostname: "a.example" }, { ip: "203.0.113.10", ipMode: "Proxy" }];
    const body = { status: { loadBalancer: { ingress } } };
    const { status } = await protocol.api.done("PATCH", `${path}/status`, body, merge);
    expect(status).toEqual({
      loadBalancer: {
        ingress: [
          { ip: "203.0.113.9", ipMode: "VIP" },
          { hostname: "a.example" },
          { ip: "203.0.113.10", ipMode: "Proxy" },
        ],
      },
    });
  });

  const refusals: readonly { readonly name: string; readonly spec: object; readonly field: string }[] = [
    { name: "no ports", spec: { ports: [] }, field: "spec.ports" },
    { name: "two ports without names", spec: { ports: [{ port: 1 }, { port: 2 }] }, field: "spec.ports[1].name" },
    {
      name: "two ports of one name",
      spec: {
        ports: [
          { port: 1, name: "a" },
          { port: 2, name: "a" },
        ],
      },
      field: "spec.ports[1].name",
    },
    { name: "an unknown protocol", spec: { ports: [{ port: 1, protocol: "ICMP" }] }, field: "spec.ports[0].protocol" },
    { name: "an unknown type", spec: { type: "Fancy", ports: [{ port: 1 }] }, field: "spec.type" },
    {
      name: "a node port without its type",
      spec: { ports: [{ port: 1, nodePort: 30_001 }] },
      field: "spec.ports[0].nodePort",
    },
    {
      name: "a node port out of range",
      spec: { type: "NodePort", ports: [{ port: 1, nodePort: 80 }] },
      field: "spec.ports[0].nodePort",
    },
    {
      name: "a load balancer class without its type",
      spec: { loadBalancerClass: "a.b/c", ports: [{ port: 1 }] },
      field: "spec.loadBalancerClass",
    },
    {
      name: "invalid source ranges",
      spec: { type: "LoadBalancer", loadBalancerSourceRanges: ["everywhere"], ports: [{ port: 1 }] },
      field: "spec.LoadBalancerSourceRanges[0]",
    },
    {
      name: "an external traffic policy on a ClusterIP service",
      spec: { externalTrafficPolicy: "Local", ports: [{ port: 1 }] },
      field: "spec.externalTrafficPolicy",
    },
    {
      name: "a health check port without local traffic",
      spec: { type: "LoadBalancer", healthCheckNodePort: 30_002, ports: [{ port: 1 }] },
      field: "spec.healthCheckNodePort",
    },
    { name: "no external name", spec: { type: "ExternalName" }, field: "spec.externalName" },
  ];
  for (const { name, spec, field } of refusals)
    test(`rejects ${name} with an error on ${field}`, async () => {
      const { status, body } = await send(spec);
      expect(status).toBe(422);
      expect(fieldsOf(body)).toContain(`"field":"${field}"`);
    });

  test("the cluster IP and the class of a load balancer are immutable", async () => {
    const { path } = await create({ type: "LoadBalancer", loadBalancerClass: "a.b/c" });
    for (const spec of [{ clusterIP: "10.0.0.78" }, { loadBalancerClass: "a.b/d" }])
      expect((await protocol.api.send("PATCH", path, { spec }, { contentType: merge })).status).toBe(422);
  });

  test("only load balancers may have an ingress", async () => {
    const { path } = await create({});
    const body = { status: { loadBalancer: { ingress: [{ ip: "203.0.113.9" }] } } };
    expect((await protocol.api.send("PATCH", `${path}/status`, body, { contentType: merge })).status).toBe(422);
  });

  test("deleting a service returns it and releases its cluster IP", async () => {
    const { path, spec } = await create({ clusterIP: "10.0.0.79" });
    expect((await protocol.api.done("DELETE", path)).kind).toBe("Service");
    expect((await create({ clusterIP: spec.clusterIP ?? "" })).spec.clusterIP).toBe("10.0.0.79");
  });

  test("the kubernetes service exists", async () => {
    const { spec } = (await protocol.api.get("/api/v1/namespaces/default/services/kubernetes")).body;
    expect(spec).toMatchObject({
      type: "ClusterIP",
      clusterIP: expect.stringMatching(/\.1$/),
      ports: [{ name: "https", port: 443 }],
    });
  });

  test("a service in a table has its type, addresses and ports", async () => {
    const { path } = await create({
      type: "LoadBalancer",
      ports: [{ port: 80 }, { port: 53, protocol: "UDP" }].map((port) => ({ name: `p${port.port}`, ...port })),
    });
    const cells = async (): Promise<readonly unknown[]> => {
      const { body } = await protocol.api.get(path, "application/json;as=Table;v=v1;g=meta.k8s.io");
      const rows: unknown = "rows" in body ? body.rows : undefined;
      expect(rows).toEqual([{ cells: expect.any(Array), object: expect.any(Object) }]);
      const [row] = Array.isArray(rows) ? rows : [];
      return row.cells;
    };
    const ports = expect.stringMatching(/^80:3\d{4}\/TCP,53:3\d{4}\/UDP$/);
    const address = expect.stringMatching(/^10\./);
    expect(await cells()).toEqual(["s", "LoadBalancer", address, "<pending>", ports, expect.any(String), "<none>"]);
    const status = { loadBalancer: { ingress: [{ ip: "203.0.113.9" }, { hostname: "a.example" }] } };
    await protocol.api.done("PATCH", `${path}/status`, { status }, merge);
    await patch(path, { selector: { b: "2", a: "1" } });
    expect(await cells()).toEqual([
      "s",
      "LoadBalancer",
      address,
      "203.0.113.9,a.example",
      ports,
      expect.any(String),
      "a=1,b=2",
    ]);
  });
});

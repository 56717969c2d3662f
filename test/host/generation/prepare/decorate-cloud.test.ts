import { expect, test } from "bun:test";

import { type Informer, kinds, type LoadBalancers, type Service } from "cloud-controller-host/sdk";
import { eventually, memoryCloud } from "cloud-controller-host/sdk/testing";

import { decorateCloud } from "../../../../host/generation/prepare/decorate-cloud.ts";
import { ControllerFence, GenerationFence } from "../../../../host/generation/scope/fence.ts";
import { MetricsRegistry } from "../../../../host/process/metrics/metrics.ts";
import { openSandbox } from "../../../../host/sandbox-host.ts";
import serviceLB from "../../../../plugins/service-lb/plugin.ts";
import { wholeCloud } from "../../../kit/whole-cloud.ts";

const fence = (): ControllerFence => new ControllerFence(new GenerationFence(() => true));
const decorated = (cloud = memoryCloud().cloud) => decorateCloud(cloud, fence(), new MetricsRegistry().root);

const methods = (capability: object | undefined): readonly string[] => Object.keys(capability ?? {}).toSorted();

test("a fence that has not opened refuses cloud calls that write before the cloud is called, and lets reads pass", async () => {
  const { cloud, calls } = memoryCloud();
  const registry = new MetricsRegistry();
  const { loadBalancers } = decorateCloud(cloud, fence(), registry.root);
  const service = { metadata: { name: "web", namespace: "default" } };
  const refused = loadBalancers?.ensureLoadBalancerDeleted("cluster", service);
  await expect(refused).rejects.toThrow(/cloud call ensureLoadBalancerDeleted.*does not run yet/su);
  await loadBalancers?.getLoadBalancer("cluster", service);
  expect(calls.map(({ method }) => method)).toEqual(["getLoadBalancer"]);
  const counts = (await registry.samples("cloud_provider_call_duration_seconds"))
    .filter(({ name }) => name.endsWith("_count"))
    .map(({ labels, value }) => [labels["method"], labels["result"], value]);
  expect(counts).toEqual([
    ["ensureLoadBalancerDeleted", "error", 1],
    ["getLoadBalancer", "success", 1],
  ]);
});

test("a controller's cloud has every method of each capability that the cloud itself has", () => {
  const cloud = wholeCloud();
  for (const name of ["instances", "loadBalancers", "routes", "nodeMasks"] as const) {
    const own = methods(cloud[name]);
    expect(own.length).toBeGreaterThan(0);
    expect([name, methods(decorated(cloud)[name])]).toEqual([name, own]);
  }
});

test("a cloud that watches Services gets the informer of the service controller", () => {
  const { cloud } = memoryCloud();
  const watched: unknown[] = [];
  const watch = { value: (services: unknown) => void watched.push(services), enumerable: true };
  const loadBalancers: LoadBalancers = Object.create(cloud.loadBalancers ?? null, { watch });
  const services: Informer<Service> = {
    store: { get: () => undefined, list: () => [], size: 0 },
    hasSynced: () => true,
    handle: () => ({ remove: () => undefined }),
  };
  decorated({ ...cloud, loadBalancers }).loadBalancers?.watch?.(services);
  expect(watched).toEqual([services]);
});

test("a capability or an optional method that a cloud lacks stays absent for its controllers", () => {
  const { cloud } = memoryCloud({ without: ["routes", "nodeMasks"] });
  const { loadBalancers } = cloud;
  if (loadBalancers === undefined) throw new Error("the cloud in memory has load balancers");
  const optional = { updateLoadBalancers: undefined, warnings: undefined };
  const plain: LoadBalancers = Object.create(loadBalancers, Object.getOwnPropertyDescriptors(optional));
  const bare = decorated({ ...cloud, loadBalancers: plain });
  expect([bare.routes, bare.nodeMasks]).toEqual([undefined, undefined]);
  expect(methods(bare.loadBalancers)).toEqual(methods(loadBalancers).filter((name) => !(name in optional)));
});

test("the Azure cloud's warnings about a Service reach its events and its condition through the host", async () => {
  await using sandbox = await openSandbox({ nodes: 1, flags: ["--secure-port=0", `--controllers=${serviceLB.name}`] });
  const place = { name: "web", namespace: "default" };
  const prefix = "service.beta.kubernetes.io";
  const annotations = {
    [`${prefix}/azure-loadbalancer-internal`]: "true",
    [`${prefix}/load-balancer-source-ranges`]: "10.0.0.0/99",
  };
  const spec = { type: "LoadBalancer", ports: [{ port: 80 }] };
  sandbox.api.create(kinds.Service, { metadata: { ...place, annotations }, spec });
  const ready = (service: Service | undefined) =>
    service?.status?.conditions?.find(({ type }) => type === "LoadBalancerReady");
  const condition = await eventually(
    "the condition is there",
    () => ready(sandbox.api.get(kinds.Service, place)),
    30_000,
  );
  expect([condition.status, condition.message]).toEqual(["True", expect.stringContaining("did you mean")]);
  expect(condition.message).toContain("10.0.0.0/99");
  const warnings = (): readonly string[] =>
    sandbox.api.list(kinds.Event).flatMap(({ type, message = "" }) => (type === "Warning" ? [message] : []));
  await eventually("both are events", () => warnings().length === 2);
  expect(warnings().toSorted()).toEqual([
    expect.stringContaining("10.0.0.0/99"),
    expect.stringContaining("did you mean service.beta.kubernetes.io/azure-load-balancer-internal?"),
  ]);
}, 120_000);

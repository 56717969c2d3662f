import { afterEach, beforeEach, expect, setDefaultTimeout, test } from "bun:test";

import { controllerNames, kinds, type Service } from "cloud-controller-host/sdk";
import { eventually } from "cloud-controller-host/sdk/testing";

import { SandboxLab } from "../host/sandbox-lab.ts";
import { joinNodes } from "../kit/azure.ts";
import { shardedService } from "../kit/services.ts";

setDefaultTimeout(120_000);

let lab: SandboxLab;
beforeEach(async () => {
  lab = await SandboxLab.open();
  await joinNodes(lab.admin, lab.azure, 2, (node) => ({ ...node, spec: { ...node.spec, taints: [] } }));
});
afterEach(() => lab[Symbol.asyncDispose]());

/** A deployment with a Lease of its own, for the Services with these labels. */
const deployment = (lease: string, selector: string) =>
  lab.host([
    `--controllers=${controllerNames.serviceLB}`,
    `--leader-elect-resource-name=${lease}`,
    `--service-selector=${selector}`,
  ]);

const place = { namespace: "default", name: "web" };
const stored = (): Service | undefined => lab.api.get(kinds.Service, place);
const addressOf = (name: string): string | undefined =>
  lab.api.get(kinds.Service, { ...place, name })?.status?.loadBalancer?.ingress?.[0]?.ip;
const address = (): string | undefined => addressOf("web");
const writes = (): readonly string[] =>
  lab.azure.simulator.requests().filter((request) => /^(PUT|DELETE) /u.test(request));
const left = (name: string): readonly string[] =>
  lab.azure.simulator.requests().filter((request) => request.startsWith("DELETE ") && request.includes(name));

const reasons = (): readonly string[] => lab.api.list(kinds.Event).map(({ reason = "" }) => reason);
const create = (name: string, shard: string): void => void lab.api.create(kinds.Service, shardedService(name, shard));
const addresses = (...names: readonly string[]): Promise<unknown> =>
  eventually(`addresses of ${names.join(" ")}`, () => names.every((name) => addressOf(name) !== undefined), 20_000);

test("another deployment adopts a Service by its label without a write to Azure, and deletes what it has there", async () => {
  await deployment("shard-a", "shard=a");
  const other = await deployment("shard-b", "shard!=a");
  create("web", "a");
  const first = await eventually("it has an address", address, 20_000);
  await eventually("its writes have ended", () => stored()?.metadata?.finalizers?.length === 1);
  const before = writes();

  lab.api.update(kinds.Service, place, (now) => ({ ...now, metadata: { ...now.metadata, labels: { shard: "b" } } }));
  const ensured = (): boolean =>
    lab.api.list(kinds.Event).filter(({ reason }) => reason === "EnsuredLoadBalancer").length === 2 ||
    lab.api.list(kinds.Event).some(({ reason, count = 1 }) => reason === "EnsuredLoadBalancer" && count === 2);
  await eventually("the other deployment has ensured it", ensured, 20_000);
  expect(reasons()).toContain("LoadBalancerLeftAlone");
  expect([address(), writes()]).toEqual([first, before]);

  lab.api.delete(kinds.Service, place);
  await eventually("it is gone", () => stored() === undefined, 20_000);
  expect(left("publicIPAddresses")).toHaveLength(1);
  expect(other.log.join("\n")).not.toContain("error processing service");
});

test("two deployments share a load balancer: neither takes the other's writes for a stranger's, nor holds what it removes", async () => {
  const one = await deployment("shard-a", "shard=a");
  const two = await deployment("shard-b", "shard!=a");
  const names = Array.from({ length: 15 }, (_, index) => index);
  for (const index of names) {
    create(`a${index}`, "a");
    create(`b${index}`, "b");
  }
  await addresses(...names.flatMap((index) => [`a${index}`, `b${index}`]));
  expect(new Set(names.flatMap((index) => [addressOf(`a${index}`), addressOf(`b${index}`)])).size).toBe(30);
  for (const index of names) lab.api.delete(kinds.Service, { ...place, name: `b${index}` });
  const isGone = (index: number): boolean => lab.api.get(kinds.Service, { ...place, name: `b${index}` }) === undefined;
  await eventually("the Services of one deployment are gone", () => names.every(isGone), 20_000);
  create("late", "a");
  await addresses("late");
  expect(left("publicIPAddresses")).toHaveLength(15);
  expect(reasons()).not.toContain("AzureResourceChanged");
  for (const { log } of [one, two]) expect(log.join("\n")).not.toContain("Removals are held");
});

import { afterEach, beforeEach, expect, setDefaultTimeout, test } from "bun:test";
import { appendFile } from "node:fs/promises";

import { controllerNames, kinds, type Service } from "cloud-controller-host/sdk";
import { eventually } from "cloud-controller-host/sdk/testing";

import { runNamedCommand } from "../../host/cli/commands.ts";
import { SandboxLab } from "../host/sandbox-lab.ts";
import { joinNodes } from "../kit/azure.ts";
import { shardedService } from "../kit/services.ts";

setDefaultTimeout(120_000);

let lab: SandboxLab;
beforeEach(async () => {
  lab = await SandboxLab.open();
  // Pools of addresses: the load balancers of both shards have all nodes.
  await appendFile(lab.azure.config, "loadBalancerBackendPoolConfigurationType: nodeIP\n");
  await joinNodes(lab.admin, lab.azure, 2, (node) => ({ ...node, spec: { ...node.spec, taints: [] } }));
});
afterEach(() => lab[Symbol.asyncDispose]());

const fast = ["--leader-elect-lease-duration=4s", "--leader-elect-renew-deadline=3s", "--leader-elect-retry-period=1s"];
const shard = (name: string, selector = `shard=${name}`) =>
  lab.host([...fast, "--controllers=*", `--shard=${name}`, `--service-selector=${selector}`]);
/** The deployment without `--shard`. */
const main = (...flags: readonly string[]) =>
  lab.host([...fast, `--controllers=${controllerNames.serviceLB}`, ...flags]);

const place = (name: string): { readonly namespace: string; readonly name: string } => ({ namespace: "default", name });
const stored = (name: string): Service | undefined => lab.api.get(kinds.Service, place(name));
const addressOf = (name: string): string | undefined => stored(name)?.status?.loadBalancer?.ingress?.[0]?.ip;
const markOf = (name: string): string | undefined =>
  stored(name)?.metadata?.annotations?.["cloud-controller-host/served-by"];
const create = (name: string, label: string): void => void lab.api.create(kinds.Service, shardedService(name, label));
const relabel = (name: string, label: string): void =>
  void lab.api.update(kinds.Service, place(name), (now) => ({
    ...now,
    metadata: { ...now.metadata, labels: { shard: label } },
  }));
const served = (name: string): Promise<string> => eventually(`address of ${name}`, () => addressOf(name), 30_000);
const servedBy = (name: string, lease: string): Promise<unknown> =>
  eventually(
    `${name} is served by ${lease}`,
    () => markOf(name) === lease && reasonsOf(name, lease).includes("EnsuredLoadBalancer"),
    30_000,
  );
/** Reasons of events that the deployment with that Lease has recorded. */
const reasonsOf = (name: string, lease: string): readonly string[] =>
  lab.api
    .list(kinds.Event)
    .filter(({ involvedObject }) => involvedObject?.name === name)
    .filter(({ source }) => source?.component === lease.replace("cloud-controller-manager", "service-lb-controller"))
    .map(({ reason = "" }) => reason);
const [leaseA, leaseB] = ["cloud-controller-manager-a", "cloud-controller-manager-b"];

/** What a command prints. */
async function run(command: string, ...flags: readonly string[]): Promise<string> {
  let printed = "";
  const print = (text: string): void => void (printed += text);
  const argv = command === "plan" ? lab.flags(flags) : [`--kubeconfig=${lab.kubeconfig}`];
  await runNamedCommand(command, argv, { environment: {}, stdout: print, stderr: print, width: 100 });
  return printed;
}

/** Writes of load balancers that were accepted, as `PUT kubernetes-a`. */
const balancerWrites = (): readonly string[] =>
  lab.azure.simulator.log.flatMap(({ method, path, status }) => {
    const [, name] = /\/loadBalancers\/([^/]+)$/u.exec(path) ?? [];
    return name === undefined || method === "GET" || status >= 300 ? [] : [`${method} ${name}`];
  });
const deletions = (): readonly string[] =>
  lab.azure.simulator.requests().filter((request) => request.startsWith("DELETE "));

test("each shard has load balancers of its own, and hands a Service over with its address and one write of each", async () => {
  const { host } = await shard("a");
  const other = await shard("b");
  create("one", "a");
  create("two", "b");
  await served("one");
  await served("two");
  expect(balancerWrites().toSorted()).toEqual(["PUT kubernetes-a", "PUT kubernetes-b"]);
  expect([markOf("one"), markOf("two")]).toEqual([leaseA, leaseB]);
  await eventually("each shard sees the other", () => host.status.shards?.length === 2, 20_000);
  expect(host.status.shard).toBe("a");
  expect(host.status.shards?.map(({ lease, relation, serves }) => [lease, relation, serves?.serviceSelector])).toEqual([
    [leaseA, "self", "shard=a"],
    [leaseB, "disjoint", "shard=b"],
  ]);
  expect(host.status.shards?.map(({ leader }) => leader)).toEqual([host.status.identity, other.host.status.identity]);

  const address = addressOf("one");
  relabel("one", "b");
  await servedBy("one", leaseB);
  expect(balancerWrites().slice(2)).toEqual(["PUT kubernetes-a", "PUT kubernetes-b"]);
  expect(addressOf("one")).toBe(address);
  expect(deletions()).toEqual([]);

  lab.api.delete(kinds.Service, place("one"));
  await eventually("it is gone", () => stored("one") === undefined, 30_000);
  expect(deletions().filter((request) => request.includes("publicIPAddresses"))).toHaveLength(1);
  expect(reasonsOf("one", leaseA)).not.toContain("DeletingLoadBalancer");
});

test("a shard with Services in common with another one does not lead until that one is gone", async () => {
  const first = await shard("a");
  await eventually("the first leads", () => first.host.status.leading, 20_000);
  const { host, log } = await shard("c", "shard in (a,c)");
  const message = "Not leading: another shard serves some of the same Services";
  await eventually("it reports the overlap", () => log.join("").includes(message), 20_000);
  expect(host.status.shards?.map(({ lease, relation }) => [lease, relation])).toEqual([[leaseA, "overlaps"]]);
  create("three", "c");
  create("one", "a");
  await served("one");
  expect([host.status.leading, markOf("three"), lab.lease("cloud-controller-manager-c")]).toEqual([
    false,
    undefined,
    undefined,
  ]);
  expect(log.join("").split(message)).toHaveLength(2);

  first.host.stop();
  await first.host.finished;
  await served("three");
  await servedBy("one", "cloud-controller-manager-c");
});

test("the Services of a shard that is removed keep what they have, until another shard selects them", async () => {
  const { host } = await shard("a");
  await shard("b");
  const { log } = await main("--service-selector=shard notin (a,b)");
  create("one", "a");
  const address = await served("one");
  host.stop();
  await host.finished;
  create("late", "b");
  await served("late");
  expect([addressOf("one"), markOf("one"), deletions()]).toEqual([address, leaseA, []]);
  const planned = await run("plan", "--shard=b", "--service-selector=shard=b", "--controllers=*");
  expect(planned).toContain(
    "Served by no shard; nothing of them is changed or deleted:\n" +
      "  Service default/one: no shard that leads selects it; cloud-controller-manager-a served it\n",
  );
  expect(planned).not.toContain("default/late");
  const shown = await run("status");
  expect(shown).toMatch(/^cloud-controller-manager-a; no leader; serves Services without a class with shard=a$/mu);
  expect(shown).toMatch(/^cloud-controller-manager-b; led by .+ since .+Z; .+ with shard=b$/mu);

  relabel("one", "b");
  await servedBy("one", leaseB);
  expect([addressOf("one"), deletions()]).toEqual([address, []]);
  expect(log.join("")).not.toContain("EnsuringLoadBalancer");
});

test("a Service waits for its shard's Lease to expire after a crash, and is served by one shard at a time", async () => {
  const crashing = lab.start({ flags: [...fast, "--shard=a", "--service-selector=shard=a", "--controllers=*"] });
  create("one", "a");
  await served("one");
  await shard("b");
  create("two", "b");
  await served("two");
  crashing.signal("SIGKILL");
  await crashing.ended();
  const holder = lab.lease(leaseA)?.holderIdentity;
  relabel("one", "b");
  await eventually("it waits", () => reasonsOf("one", leaseB).includes("WaitingForLoadBalancer"), 20_000);
  expect([markOf("one"), lab.lease(leaseA)?.holderIdentity]).toEqual([leaseA, holder]);
  await servedBy("one", leaseB);
});

test("a deployment without selection leaves alone what a shard with a class serves, also when it is deleted", async () => {
  const { log } = await main();
  await lab.host([...fast, "--controllers=*", "--shard=a", "--load-balancer-class=example.com/a"]);
  lab.api.create(kinds.Service, {
    metadata: place("one"),
    spec: {
      type: "LoadBalancer",
      loadBalancerClass: "example.com/a",
      ports: [{ port: 80, protocol: "TCP" }],
    },
  });
  await served("one");
  lab.api.delete(kinds.Service, place("one"));
  await eventually("it is gone", () => stored("one") === undefined, 30_000);
  expect(reasonsOf("one", leaseA)).toContain("DeletingLoadBalancer");
  expect(log.join("")).not.toContain("default/one");
});

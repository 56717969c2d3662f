import { afterEach, beforeEach, expect, setDefaultTimeout, test } from "bun:test";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";

import { kinds, type Service } from "cloud-controller-host/sdk";
import { eventually } from "cloud-controller-host/sdk/testing";

import { SandboxLab } from "../host/sandbox-lab.ts";
import { joinNodes } from "../kit/azure.ts";
import type { HostProcess } from "../kit/host-process.ts";
import { addressesOf, shardedService } from "../kit/services.ts";
import { isThorough } from "../kit/thorough.ts";
import { AzureView } from "./service-features.ts";

setDefaultTimeout(900_000);

const limitMs = 240_000;
/** Services of each shard: enough to be killed while many of them are outstanding. */
const count = isThorough ? 200 : 80;
const names = ["a", "b"] as const;
type Shard = (typeof names)[number];

let lab: SandboxLab;
let joined = 0;
beforeEach(async () => {
  lab = await SandboxLab.open();
  joined = 0;
  // Azure allows an interface in the pools of one public load balancer: each shard has nodes of its own.
  await joinNodes(lab.admin, lab.azure, 4, (node) => ({
    ...node,
    metadata: { ...node.metadata, labels: { ...node.metadata?.labels, pool: names[joined++ % 2] ?? "" } },
    spec: { ...node.spec, taints: [] },
  }));
});
afterEach(() => lab[Symbol.asyncDispose]());

const configOf = (shard: Shard): string => join(lab.azure.folder, `config-${shard}.yaml`);
const auditOf = (shard: Shard): string => join(lab.azure.folder, `audit-${shard}.log`);

async function start(shard: Shard): Promise<HostProcess> {
  const nodes = { name: "kubernetes", primaryVMSet: "none", nodeSelector: { matchLabels: { pool: shard } } };
  const config = lab.azure.simulator.configWith({
    loadBalancerBackendPoolConfigurationType: "nodeIP",
    multipleStandardLoadBalancerConfigurations: [nodes],
  });
  await writeFile(configOf(shard), config);
  return lab.start({
    flags: [
      "--controllers=*",
      `--shard=${shard}`,
      `--service-selector=shard=${shard}`,
      `--cloud-config=${configOf(shard)}`,
      `--audit-log-path=${auditOf(shard)}`,
    ],
  });
}

/** A shard that is started again whenever it has ended, as a Deployment's Pod is. */
function keep(shard: Shard): { readonly kill: () => void; readonly log: () => string } & AsyncDisposable {
  let current: HostProcess | undefined;
  const over = new AbortController();
  const running = (async () => {
    while (!over.signal.aborted) {
      current = await start(shard);
      await current.ended();
    }
  })();
  const kill = (): void => current?.signal("SIGKILL");
  return {
    kill,
    log: () => current?.stderr.slice(-3000) ?? "",
    async [Symbol.asyncDispose]() {
      over.abort();
      kill();
      await running;
    },
  };
}

const place = (name: string): { readonly namespace: string; readonly name: string } => ({ namespace: "default", name });
const all = (): readonly Service[] => lab.api.list(kinds.Service).filter(({ spec }) => spec?.type === "LoadBalancer");
const create = (shard: Shard, name: string): void => void lab.api.create(kinds.Service, shardedService(name, shard));
const change = (name: string, to: (now: Service) => Service): void =>
  void lab.api.update(kinds.Service, place(name), to);
const withPort =
  (port: number) =>
  (now: Service): Service => ({ ...now, spec: { ...now.spec, ports: [{ ...now.spec?.ports?.[0], port }] } });
const moved =
  (shard: Shard) =>
  (now: Service): Service => ({ ...now, metadata: { ...now.metadata, labels: { shard } } });

const shardOf = ({ metadata }: Service): string => metadata?.labels?.["shard"] ?? "";
const portOf = ({ spec }: Service): number => spec?.ports?.[0]?.port ?? 0;
const baseOf = ({ metadata }: Service): string => `a${metadata?.uid?.replaceAll("-", "")}`.slice(0, 32);
const markOf = ({ metadata }: Service): string => metadata?.annotations?.["cloud-controller-host/served-by"] ?? "";

/** Polls seldom: the API server and the simulated Azure run in this process too. */
const waitFor = (what: string, holds: () => boolean): Promise<unknown> =>
  eventually(
    what,
    async () => {
      await Bun.sleep(500);
      return holds();
    },
    limitMs,
  );

/** What is still to be done; undefined once every Service has what it wants, in its own shard's load balancer alone. */
function missing(azure: AzureView): string | undefined {
  const services = all();
  for (const service of services) {
    const { name = "", deletionTimestamp } = service.metadata ?? {};
    if (deletionTimestamp !== undefined) return `${name} is still there`;
    if (addressesOf(service).length !== 1) return `${name} has no address`;
    if (markOf(service) !== `cloud-controller-manager-${shardOf(service)}`) return `${name} is of ${markOf(service)}`;
  }
  for (const shard of names) {
    const own = services.filter((service) => shardOf(service) === shard);
    const wanted = own.map((service) => `${baseOf(service)}-TCP-${portOf(service)}`).toSorted();
    const rules = [...azure.items("loadBalancingRules", `kubernetes-${shard}`).keys()].toSorted();
    if (rules.join() !== wanted.join()) return `${shard} has ${rules.length} rules of ${wanted.length}`;
    const frontends = [...azure.items("frontendIPConfigurations", `kubernetes-${shard}`).keys()].toSorted();
    if (frontends.join() !== own.map(baseOf).toSorted().join()) return `${shard} has ${frontends.length} frontends`;
  }
  const open = azure.securityRules().join("\n");
  const closed = services.find((service) => !addressesOf(service).every((address) => open.includes(address)));
  return closed === undefined ? undefined : `${closed.metadata?.name} is not open`;
}

/** Load balancers that a shard's processes have written, as `PUT kubernetes-a`. */
async function writtenBy(shard: Shard): Promise<readonly string[]> {
  const lines = (await readFile(auditOf(shard), "utf8")).split("\n");
  const found = lines.flatMap((line) => {
    const [, name] = /\/loadBalancers\/([^/"]+)"/u.exec(line) ?? [];
    const [, operation] = /"operation":"([^"]+)"/u.exec(line) ?? [];
    return name === undefined || operation === "drift" ? [] : [`${operation} ${name}`];
  });
  return [...new Set(found)].toSorted();
}

test(`two shards of ${count} Services each, created, changed, deleted and moved at once with kills, lose nothing and keep to their own`, async () => {
  const azure = new AzureView(lab.azure.simulator);
  await using a = keep("a");
  await using b = keep("b");
  const settled = async (what: string): Promise<void> => {
    let last: string | undefined;
    await waitFor(what, () => (last = missing(azure)) === undefined).catch((error: unknown) => {
      throw new Error(`${last}\n${a.log()}\n${b.log()}`, { cause: error });
    });
  };
  const withAddress = (least: number): Promise<unknown> =>
    waitFor(`${least} addresses`, () => all().filter((one) => addressesOf(one).length > 0).length >= least);

  for (let index = 0; index < count; index += 1) for (const shard of names) create(shard, `${shard}${index}`);
  await withAddress(count / 4);
  a.kill();
  await withAddress(count * 1.25);
  b.kill();
  await settled("all are served");

  for (const shard of names)
    for (let index = 0; index < count; index += 1)
      if (index % 4 === 0) lab.api.delete(kinds.Service, place(`${shard}${index}`));
      else if (index % 4 === 1) change(`${shard}${index}`, withPort(81));
      else if (index % 4 === 2) create(shard, `${shard}${index + count}`);
  await waitFor("some are deleted", () => all().length < count * 2.4);
  a.kill();
  b.kill();
  await settled("all changes are done");
  expect(await writtenBy("a")).toEqual(["PUT kubernetes-a"]);
  expect(await writtenBy("b")).toEqual(["PUT kubernetes-b"]);

  const before = new Map(all().map((service) => [service.metadata?.name, addressesOf(service).join()]));
  for (let index = 3; index < count / 2; index += 4) change(`a${index}`, moved("b"));
  await waitFor("some have moved", () => all().filter((one) => markOf(one).endsWith("-b")).length > count + 5);
  b.kill();
  await settled("all have moved");
  expect(new Map(all().map((service) => [service.metadata?.name, addressesOf(service).join()]))).toEqual(before);

  expect(new Set(before.values()).size).toBe(before.size);
  const publicIPs = lab.azure.simulator.resources().filter(({ type }) => /publicIPAddresses$/iu.test(type));
  const left = publicIPs.filter(({ name }) => !all().some((service) => name.endsWith(baseOf(service))));
  expect(left.map(({ name, tags }) => [name, tags])).toEqual([]);
  expect(publicIPs).toHaveLength(before.size);
  expect(await writtenBy("a")).toEqual(["PUT kubernetes-a"]);
  expect(await writtenBy("b")).toEqual(["PUT kubernetes-a", "PUT kubernetes-b"]);
});

import { expect } from "bun:test";

import { defaultLoadBalancerName, keyOf, type Service } from "cloud-controller-host/sdk";

import type { Failure, RequestMatcher } from "../../../../plugins/azure-cloud/simulator/faults.ts";
import type { Random } from "../../../kit/random.ts";
import { azureState } from "./azure-state.ts";
import { type Cluster, fast, type Generation, serviceOf, type ServiceOptions } from "./cluster.ts";

const names = ["s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7"];
const otherGroup = "ips";
const inOtherGroup = new Set(["s1", "s3", "s5"]);

const tcp = (port: number) => ({ name: `tcp-${port}`, protocol: "TCP", port, nodePort: 30_000 + port });

/** The public IP that a user has created for the Service of a name. */
const usersIP = (name: string) => ({ name: `users-${name}`, address: `20.9.9.${names.indexOf(name) + 1}` });

/** Annotations that all shapes of a name have. */
const commonOf = (name: string): Readonly<Record<string, string>> =>
  inOtherGroup.has(name) ? { "azure-load-balancer-resource-group": otherGroup } : {};

/**
 * What a Service of that name may ask for. The resource group does not change: a public IP that was created just
 * before a crash would not be found after such a change, because nothing names its group any more.
 */
const shapesOf = (name: string): readonly ServiceOptions[] =>
  shapes(name).map(({ annotations, ...rest }) => ({ ...rest, annotations: { ...commonOf(name), ...annotations } }));

const shapes = (name: string): readonly ServiceOptions[] => [
  {},
  {},
  { spec: { ports: [tcp(80), tcp(443)] } },
  { spec: { loadBalancerSourceRanges: ["192.0.2.0/24"] } },
  { spec: { ipFamilies: ["IPv4", "IPv6"] } },
  { annotations: { "azure-load-balancer-internal": "true" } },
  { annotations: { "azure-pip-name": usersIP(name).name } },
  { annotations: { "azure-load-balancer-ipv4": usersIP(name).address } },
  { annotations: { "azure-pip-tags": "team=network" } },
];

const write = /loadBalancers|publicIPAddresses|networkSecurityGroups|virtualMachines/u;
const puts: RequestMatcher = { method: "PUT", path: write };

/** Requests that may be slow, each kind apart from the others. */
const slow: readonly RequestMatcher[] = [
  { method: "PUT", path: "/publicIPAddresses/" },
  { method: "DELETE", path: "/publicIPAddresses/" },
  { method: "GET", path: "/publicIPAddresses" },
  { method: "PUT", path: "/loadBalancers/" },
  { method: "DELETE", path: "/loadBalancers/" },
  { method: "GET", path: "/loadBalancers" },
  { method: "PUT", path: "/networkSecurityGroups/" },
  { method: "PUT", path: /virtualMachineScaleSets\/[^/]+$/u },
  { method: "PUT", path: "/virtualMachines/" },
  { method: "GET", path: "/operations/" },
];

const failures: readonly (readonly [RequestMatcher, Failure])[] = [
  [{ path: "/providers/" }, { status: 429, headers: { "retry-after": "0" } }],
  [{ path: "/providers/" }, { status: 503, times: 2 }],
  [
    { method: "GET", path: `/${otherGroup}/` },
    { status: 503, times: 8 },
  ],
  [puts, { status: 412 }],
  [puts, { status: 409, code: "AnotherOperationInProgress" }],
  [puts, { status: 400, code: "InvalidRequestFormat" }],
  [puts, { status: 500, code: "InternalServerError", stage: "operation" }],
  [puts, { status: 409, code: "CanceledAndSupersededDueToAnotherOperation", stage: "operation" }],
  [puts, { status: 503, stage: "response" }],
  [puts, { status: 500, stage: "connection" }],
  [{ method: "DELETE" }, { status: 409, code: "Conflict" }],
  [{ method: "DELETE" }, { status: 504, stage: "response", times: 5 }],
  [
    { method: "DELETE", path: "/publicIPAddresses/" },
    { status: 400, code: "PublicIPAddressCannotBeDeleted" },
  ],
];

const wantsBalancer = ({ metadata, spec }: Service): boolean =>
  spec?.type === "LoadBalancer" && metadata?.deletionTimestamp === undefined;

const uidOf = ({ metadata }: Service): string => metadata?.uid ?? "";

/** Names of what a Service has in Azure, and the addresses that are open for it. */
function partsOf(service: Service) {
  const { annotations = {} } = service.metadata ?? {};
  const has = (name: string): boolean => annotations[`service.beta.kubernetes.io/${name}`] !== undefined;
  const suffixes = service.spec?.ipFamilies?.length === 2 ? ["", "-IPv6"] : [""];
  const resources = suffixes.map((suffix) => `${defaultLoadBalancerName(service)}${suffix}`);
  const isInternal = has("azure-load-balancer-internal");
  const hasOwnIP = !isInternal && !has("azure-pip-name") && !has("azure-load-balancer-ipv4");
  return {
    frontends: resources.map((name) => `kubernetes${isInternal ? "-internal" : ""}/${name}`),
    publicIPs: hasOwnIP ? resources.map((name) => `kubernetes-${name}`) : [],
    open: isInternal ? [] : (service.status?.loadBalancer?.ingress ?? []).flatMap(({ ip }) => ip ?? []),
  };
}

/**
 * Services that users create, change, flip, delete and create again while processes sync them, one after another. The
 * calls for one Service come in the order of the service controller: ensured with the finalizer, looked at and deleted
 * before the finalizer goes; its status is seen a moment after it is written.
 */
export class History {
  readonly #cluster: Cluster;
  readonly #random: Random;
  /** UIDs of Services with the finalizer. */
  readonly #finalized = new Set<string>();
  readonly #running = new Map<string, Promise<unknown>>();
  readonly #delayed = new Set<Promise<unknown>>();
  /** A name that is used again finds what was left behind under it, so half of the histories use each name once. */
  readonly #usesNamesAgain: boolean;
  readonly #usedNames = new Set<string>();
  #incarnation = 0;
  #isStopping = false;

  constructor(cluster: Cluster, random: Random) {
    this.#cluster = cluster;
    this.#random = random;
    this.#usesNamesAgain = random.chance(0.5);
    const { simulator } = cluster.world;
    simulator.addResourceGroup(otherGroup);
    for (const name of names) {
      const { name: ip, address } = usersIP(name);
      const properties = { ipAddress: address, publicIPAllocationMethod: "Static" };
      const group = `/subscriptions/sub0/resourceGroups/${inOtherGroup.has(name) ? otherGroup : "rg0"}`;
      const id = `${group}/providers/Microsoft.Network/publicIPAddresses/${ip}`;
      simulator.put(id, { sku: { name: "Standard" }, properties });
    }
  }

  /** Services that want a load balancer. */
  get wanted(): readonly Service[] {
    return [...this.#cluster.services.values()].filter(wantsBalancer);
  }

  /** One process: it is drained or crashes at some moment, among changes, slow requests and failures. */
  async live(): Promise<void> {
    const { simulator } = this.#cluster.world;
    simulator.setLatency(this.#random.between(0, 2));
    const generation = await this.#cluster.start({}, fast(this.#random.pick([500, 2000, 5000]) ?? 500));
    this.#isStopping = false;
    for (let steps = this.#random.between(2, 10); steps > 0; steps -= 1) {
      for (let changes = this.#random.between(0, 3); changes > 0; changes -= 1) this.#change();
      if (this.#random.chance(0.4)) this.#slowDown();
      if (this.#random.chance(0.5)) simulator.failNext(...(this.#random.pick(failures) ?? [puts, { status: 412 }]));
      if (this.#random.chance(0.2)) this.#updateAll(generation);
      for (const key of this.#cluster.services.keys()) this.#begin(key, () => this.#sync(generation, key));
      await Bun.sleep(this.#random.between(0, 12));
    }
    this.#isStopping = true;
    if (this.#random.chance(0.5)) await this.#idle();
    generation.crash();
    await this.#idle();
    while (simulator.underway() > 0) await Bun.sleep(1);
    simulator.clearFailures();
    simulator.setLatency(0);
  }

  /** Deletes every Service. */
  deleteAll(): void {
    for (const service of this.#cluster.services.values()) this.#delete(service);
  }

  /** Syncs everything without disturbance, as the next process does. Resolves with the errors of the last attempt. */
  async settle(): Promise<readonly unknown[]> {
    // The minute for which an absence is not believed takes 60 ms.
    const generation = await this.#cluster.start({}, fast(1000));
    let errors: readonly unknown[] = [];
    for (let attempts = 0; attempts < 10; attempts += 1) {
      const results = await Promise.allSettled(
        [...this.#cluster.services.keys()].map((key) => this.#sync(generation, key)),
      );
      await this.#idle();
      errors = results.flatMap((result) => (result.status === "rejected" ? [result.reason] : []));
      if (errors.length === 0) break;
      await Bun.sleep(10);
    }
    generation.crash();
    return errors;
  }

  /** Every Service has its frontends, public IPs and open addresses, and there are no others. */
  expectServed(): void {
    const { publicIPs, frontends, allowed } = azureState(this.#cluster.world.simulator);
    const parts = this.wanted.map(partsOf);
    const openAddresses = allowed.map((text) => text.slice(0, text.lastIndexOf(":")));
    expect({ publicIPs, frontends, open: [...new Set(openAddresses)].toSorted() }).toEqual({
      publicIPs: [...names.map((name) => usersIP(name).name), ...parts.flatMap((part) => part.publicIPs)].toSorted(),
      frontends: parts.flatMap((part) => part.frontends).toSorted(),
      open: parts.flatMap((part) => part.open).toSorted(),
    });
  }

  #change(): void {
    const name = this.#random.pick(names) ?? "s0";
    const present = this.#cluster.services.get(`default/${name}`);
    const shape = this.#random.pick(shapesOf(name)) ?? {};
    if (present === undefined) {
      if (this.#usesNamesAgain || !this.#usedNames.has(name)) this.#put(name, shape, ++this.#incarnation);
      this.#usedNames.add(name);
    }
    if (present === undefined || present.metadata?.deletionTimestamp !== undefined) return;
    if (this.#random.chance(0.4)) this.#delete(present);
    else if (this.#random.chance(0.3)) {
      const type = present.spec?.type === "LoadBalancer" ? "ClusterIP" : "LoadBalancer";
      this.#cluster.services.set(keyOf(present), { ...present, spec: { ...present.spec, type } });
    } else this.#put(name, shape, present.metadata?.generation ?? 0, present);
  }

  #put(name: string, shape: ServiceOptions, incarnation: number, before?: Service): void {
    const service = serviceOf(name, { ...shape, incarnation });
    this.#cluster.services.set(keyOf(service), {
      ...service,
      metadata: { ...service.metadata, generation: incarnation },
      ...(before?.status && { status: before.status }),
    });
  }

  #delete(service: Service): void {
    const metadata = { ...service.metadata, deletionTimestamp: "2026-01-02T00:00:00Z" };
    if (this.#finalized.has(uidOf(service))) this.#cluster.services.set(keyOf(service), { ...service, metadata });
    else this.#cluster.services.delete(keyOf(service));
  }

  #slowDown(): void {
    const stage = this.#random.chance(0.5) ? "request" : "response";
    const { release } = this.#cluster.world.simulator.hold(this.#random.pick(slow) ?? puts, stage);
    this.#later(this.#random.between(1, 40), release);
  }

  #later(ms: number, work: () => void): void {
    const done = Bun.sleep(ms)
      .then(work)
      .finally(() => this.#delayed.delete(done));
    this.#delayed.add(done);
  }

  /** Begins a call for a Service unless one is in flight. */
  #begin(key: string, work: () => Promise<unknown>): void {
    if (this.#isStopping || this.#running.has(key)) return;
    const done = work()
      .catch(() => undefined)
      .finally(() => this.#running.delete(key));
    this.#running.set(key, done);
  }

  async #idle(): Promise<void> {
    while (this.#running.size + this.#delayed.size > 0)
      await Promise.all([...this.#running.values(), ...this.#delayed]);
  }

  /** A node sync: every Service that was synced before and is not being synced, in one call. */
  #updateAll({ balancers }: Generation): void {
    const isIdle = (service: Service): boolean =>
      this.#finalized.has(uidOf(service)) && !this.#running.has(keyOf(service));
    const services = this.wanted.filter(isIdle);
    const work = Promise.resolve(balancers.updateLoadBalancers("kubernetes", services, this.#cluster.nodes));
    for (const service of services) this.#begin(keyOf(service), () => work);
  }

  async #sync({ balancers }: Generation, key: string): Promise<void> {
    const service = this.#cluster.services.get(key);
    if (service === undefined) return;
    if (wantsBalancer(service)) {
      this.#finalized.add(uidOf(service));
      const loadBalancer = await balancers.ensureLoadBalancer("kubernetes", service, this.#cluster.nodes);
      this.#later(this.#random.between(0, 10), () => this.#setStatus(service, { loadBalancer }));
    } else if (this.#finalized.has(uidOf(service))) {
      if ((await balancers.getLoadBalancer("kubernetes", service)) !== undefined)
        await balancers.ensureLoadBalancerDeleted("kubernetes", service);
      this.#finalized.delete(uidOf(service));
      const current = this.#cluster.services.get(key);
      if (current?.metadata?.deletionTimestamp !== undefined) this.#cluster.services.delete(key);
      else this.#setStatus(service, {});
    }
  }

  #setStatus(service: Service, status: NonNullable<Service["status"]>): void {
    const current = this.#cluster.services.get(keyOf(service));
    if (current === undefined || uidOf(current) !== uidOf(service)) return;
    this.#cluster.services.set(keyOf(service), { ...current, status });
  }
}

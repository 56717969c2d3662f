import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { kinds, type KubeObject, type Node, type Service } from "cloud-controller-host/sdk";

import type { HostInput } from "../../../host/run/process-parts.ts";
import { type AzureSimulator, startSimulator } from "../../../plugins/azure-cloud/simulator/simulator.ts";
import { SandboxApiServer } from "../../../sdk/testing/api-server/index.ts";
import { AzureView } from "./azure-view.ts";
import { CanceledRequests } from "./canceled-requests.ts";
import { type Cluster, clusters, seedCluster } from "./clusters.ts";
import type { Deployment } from "./deployments.ts";
import { Endpoints } from "./endpoints.ts";
import { HeldReads } from "./held-reads.ts";
import type { History } from "./history.ts";
import { configKey, configSecret, SimulatedHost } from "./host-program.ts";
import { LongOperations } from "./long-operations.ts";
import { type Machine, Machines } from "./machines.ts";
import { fullPace, leases, type LeaseTimings } from "./pace.ts";
import { type HostRequest, isOwnedWrite, type WorldObserver } from "./requests.ts";
import { enter } from "./runtime/install.ts";
import { type Exchange, type Fate, VirtualNetwork } from "./runtime/network.ts";
import { releaseSignals } from "./runtime/signals.ts";
import { VirtualRuntime } from "./runtime/virtual-runtime.ts";
import { Trace } from "./trace.ts";
import { WatchWeather } from "./watch-weather.ts";
import { type Target, Weather } from "./weather.ts";

/** How often the kubelet looks: it starts the next process one look after it has seen the end of the last. */
const restartMs = 1_500;
/** A process that has just begun to lead knows every Service after so long. */
const settleMs = 60_000;
/** Always the same, so that the hash of the config is. */
const hostIdentity = { clientSecret: "simulated-secret", federatedToken: "simulated-token" } as const;

/** A cluster, a simulated Azure, hosts and the network between them, in one process and on one clock. */
export class World implements AsyncDisposable {
  readonly runtime: VirtualRuntime;
  readonly trace: Trace;
  readonly weather: Weather;
  readonly watches: WatchWeather;
  readonly reads = new HeldReads();
  readonly canceled: CanceledRequests;
  readonly operations: LongOperations;
  readonly api: SandboxApiServer;
  readonly azure: AzureSimulator;
  readonly machines: Machines;
  /** Undefined where no Service has Pods. */
  readonly endpoints: Endpoints | undefined;
  readonly history: History;
  readonly cluster: Cluster;
  readonly lease: LeaseTimings;
  /** The newest process of each host. */
  readonly hosts: SimulatedHost[] = [];
  /** Numbers for what happens in the world; the history of actions has its own. */
  readonly random: () => number;
  readonly #program: HostInput;
  readonly #folder: string;
  readonly #stack: AsyncDisposableStack;
  readonly #processes = new Map<unknown, SimulatedHost>();
  readonly #ports: Readonly<Record<number, Target>>;
  observer: WorldObserver | undefined;
  restarts = true;
  /** A person has removed something of a Service. */
  meddled = false;
  /** A person has written that the Lease is valid until then: processes that have seen it wait as long, even if it is deleted. */
  heldUntil = 0;
  /** Names of nodes whose VMs run on without them. */
  readonly retired = new Set<string>();
  /** Services whose finalizers a person has removed, and when. */
  readonly abandoned: { readonly service: Service; readonly at: number }[] = [];
  /** When the Lease or the config has last changed: only the process and generation of a Service know that it was there. */
  #interruptedAt = Number.NEGATIVE_INFINITY;
  #config = "";
  #secret: string = hostIdentity.clientSecret;
  #view: { readonly revision: number; readonly view: AzureView } | undefined;
  #services: readonly Service[] | undefined;
  #nodes: readonly Node[] | undefined;
  /** Of Services, their endpoints and nodes. */
  #changes = 0;

  static async open(program: HostInput, history: History): Promise<World> {
    const { seed, operationPolls, pageSize, cluster, ignoresIfNoneMatch = false, showsMembersLate = false } = history;
    await using opening = new AsyncDisposableStack();
    const runtime = new VirtualRuntime(seed);
    const network = new VirtualNetwork(runtime);
    enter({ runtime, network });
    const folder = await mkdtemp(join(tmpdir(), "simulation-"));
    opening.defer(() => rm(folder, { recursive: true, force: true }));
    const api = opening.use(await SandboxApiServer.start());
    const lists = pageSize === undefined ? {} : { pageSize };
    const shows = { ignoresIfNoneMatch, showsMembersLate };
    const azure = opening.use(
      await startSimulator({ directory: folder, operationPolls, identity: hostIdentity, ...shows, ...lists }),
    );
    seedCluster(azure, clusters[cluster]);
    await writeFile(join(folder, "kubeconfig"), api.kubeconfig());
    runtime.reseed(seed);
    return new World({ program, history, runtime, network, api, azure, folder, stack: opening.move() });
  }

  private constructor(parts: {
    readonly program: HostInput;
    readonly history: History;
    readonly runtime: VirtualRuntime;
    readonly network: VirtualNetwork;
    readonly api: SandboxApiServer;
    readonly azure: AzureSimulator;
    readonly folder: string;
    readonly stack: AsyncDisposableStack;
  }) {
    const { runtime, network, history } = parts;
    this.runtime = runtime;
    this.api = parts.api;
    this.azure = parts.azure;
    this.history = history;
    this.cluster = clusters[history.cluster];
    this.machines = new Machines(parts.azure, this.cluster);
    this.lease = leases[(history.pace ?? fullPace).lease];
    this.random = runtime.random;
    this.trace = new Trace(runtime.timeline);
    this.weather = new Weather(runtime.random, () => runtime.timeline.now);
    this.canceled = new CanceledRequests(history.seed, history.lateWrites);
    this.watches = new WatchWeather(() => runtime.timeline.now);
    this.operations = new LongOperations(parts.azure, () => runtime.timeline.now);
    this.#program = parts.program;
    this.#folder = parts.folder;
    this.#stack = parts.stack;
    this.#ports = {
      [Number(new URL(parts.api.url).port)]: "kube",
      [Number(new URL(parts.azure.origin).port)]: "azure",
    };
    network.observer = {
      fate: (exchange) => this.#fateOf(exchange),
      sent: (exchange) => this.#observe(exchange, (request) => this.#sent(request)),
      canceled: (exchange) => this.#lateBy(exchange),
      arrived: () => undefined,
      passed: (exchange, part) => this.watches.passed(exchange, part),
      done: (exchange, status, text) => this.#done(exchange, status, text),
      held: (exchange) => (this.#processes.has(exchange.process) ? this.reads.answered(exchange) : 0),
    };
    for (const kind of [kinds.Service, kinds.Node, kinds.EndpointSlice])
      this.api.onChange<KubeObject>(kind, () => {
        this.#changes += 1;
        this.#services = undefined;
        this.#nodes = undefined;
      });
    this.endpoints = this.cluster.hasPods ? new Endpoints(this) : undefined;
    this.writeConfig({});
  }

  get now(): number {
    return this.runtime.timeline.now;
  }

  /** Runs something later, outside of every process of the world. */
  after(ms: number, work: () => void): void {
    this.runtime.timeline.after(ms, () => this.runtime.as(this.runtime.outside, work));
  }

  note(actor: string, text: string): void {
    this.trace.add(actor, text);
  }

  /** The same objects until a Service, an endpoint or a node changes. */
  services(): readonly Service[] {
    this.#services ??= this.api.list(kinds.Service).filter(({ metadata }) => metadata?.name !== "kubernetes");
    return this.#services;
  }

  /** Like `services`. */
  nodes(): readonly Node[] {
    this.#nodes ??= this.api.list(kinds.Node);
    return this.#nodes;
  }

  /** Azure as it is: the same view until something in it changes. */
  view(): AzureView {
    const revision = this.azure.revision();
    if (this.#view?.revision !== revision)
      this.#view = { revision, view: new AzureView(this.azure, this.machines.all) };
    return this.#view.view;
  }

  /** Changes with Azure, and with every Service, endpoint and node. */
  get revision(): string {
    return `${this.azure.revision()} ${this.#changes}`;
  }

  /** The machine that a node runs on now. */
  machineOf(name: string): Machine | undefined {
    return this.view().machineOf(name);
  }

  /** A node has the provider ID of its machine, or none yet. */
  isOfMachine(name: string, { spec: { providerID } = {} }: Node): boolean {
    const machine = this.machineOf(name);
    return machine !== undefined && (providerID?.endsWith(machine.path) ?? true);
  }

  /** True if a VM has the name, and its node is not retired. */
  isInUse(name: string): boolean {
    return this.machines.has(name) && !this.retired.has(name);
  }

  hostNamed(identity: string | undefined): SimulatedHost | undefined {
    return this.hosts.find((host) => host.identity === identity && identity !== "");
  }

  deploymentOfHost(index: number): Deployment {
    return index < this.history.hosts ? "first" : "second";
  }

  interrupted(): void {
    this.#interruptedAt = this.now;
  }

  /** Abandoned Services whose parts may stay: no process has known of them from before the end of their cleanup. */
  get forgiven(): readonly Service[] {
    return this.abandoned.flatMap(({ service, at }) => (this.#interruptedAt > at - settleMs ? [service] : []));
  }

  /** Starts a process, and another one whenever it has ended, as the kubelet does. */
  startHost(index: number): void {
    const startedAt = this.now;
    const again = (): void => void (this.restarts && this.startHost(index));
    const host = new SimulatedHost({
      runtime: this.runtime,
      program: this.#program,
      lease: this.lease,
      index,
      deployment: this.deploymentOfHost(index),
      second: this.history.second,
      kubeconfig: join(this.#folder, "kubeconfig"),
      podCIDR: this.cluster.podCIDR,
      log: (line) => this.note(`host${index}`, line),
      ended: () => this.after(2 * restartMs - ((this.now - startedAt) % restartMs), again),
    });
    this.hosts[index] = host;
    this.#processes.set(host.process, host);
  }

  /** Replaces the client secret; the config has it after a while. */
  rotateSecret(forMs: number): void {
    this.#secret = `simulated-secret-${this.now}`;
    this.azure.rotateSecret(this.#secret);
    this.after(forMs, () => this.writeConfig({}));
  }

  /** Changes keys of the cloud config, or replaces it by a text. */
  writeConfig(change: Readonly<Record<string, unknown>> | string): void {
    const base = { resourceManagerCAFile: undefined, aadClientSecret: this.#secret, ...this.cluster.config };
    this.#writeConfig(typeof change === "string" ? change : this.azure.configWith({ ...base, ...change }));
  }

  #writeConfig(text: string): void {
    if (text !== this.#config) this.interrupted();
    this.#config = text;
    const data = { [configKey]: Buffer.from(text).toString("base64") };
    if (this.api.get(kinds.Secret, configSecret) === undefined)
      this.api.create(kinds.Secret, { metadata: configSecret, data });
    else this.api.update(kinds.Secret, configSecret, (secret) => ({ ...secret, data }));
  }

  #fateOf(exchange: Exchange): Fate {
    const host = this.#processes.get(exchange.process);
    const fate = this.weather.fateOf(this.#targetOf(exchange), host?.index, exchange.method);
    if (host !== undefined && (fate.lost ?? fate.reset) !== undefined) this.observer?.lost(host, exchange);
    return fate;
  }

  #lateBy(exchange: Exchange): number | undefined {
    const host = this.#processes.get(exchange.process);
    if (host === undefined || !isOwnedWrite(exchange)) return undefined;
    const target = this.#targetOf(exchange);
    const lateMs = this.canceled.lateBy(target);
    const what = `${target} ${exchange.method} ${exchange.path.split("?")[0]}`;
    if (lateMs !== undefined)
      this.note(`host${host.index}`, `has canceled ${what}, which arrives ${Math.round(lateMs)} ms late`);
    return lateMs;
  }

  #sent(request: HostRequest): void {
    const { host, isWrite, target } = request;
    this.observer?.sent(request);
    if (isWrite && target === "azure") host.isWriting();
  }

  #targetOf({ port }: Exchange): Target {
    return this.#ports[port] ?? "kube";
  }

  #observe(exchange: Exchange, observe: (request: HostRequest) => void): void {
    const host = this.#processes.get(exchange.process);
    if (host === undefined) return;
    observe({ host, target: this.#targetOf(exchange), exchange, isWrite: isOwnedWrite(exchange) });
  }

  #done(exchange: Exchange, status: number | undefined, text: string): void {
    this.#observe(exchange, (request) => {
      const { host, isWrite, target } = request;
      const path = isWrite ? exchange.path.split("?")[0] : exchange.path;
      const body = isWrite ? ` #${Bun.hash.wyhash(exchange.body).toString(36).slice(0, 6)}` : "";
      this.note(
        `host${host.index}`,
        `${isWrite ? "*" : " "} ${target} ${exchange.method} ${path}${body} -> ${status ?? "broken"}`,
      );
      this.observer?.done(request, text, status);
      if (isWrite) host.wrote();
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const host of this.hosts) host.kill();
    await this.#stack.disposeAsync();
    releaseSignals();
  }
}

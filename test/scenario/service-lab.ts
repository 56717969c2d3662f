import { beforeEach, describe } from "bun:test";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import {
  type Clock,
  type Cloud,
  defineController,
  isObject,
  kinds,
  type KubeClient,
  type KubeEvent,
  type Node,
  type Service,
  skipped,
} from "cloud-controller-host/sdk";
import { eventually } from "cloud-controller-host/sdk/testing";

import type { ControllerRunner } from "../../host/sandbox/testing/runner.ts";
import { type JsonObject, parseJson } from "../../plugins/azure-cloud/json.ts";
import azure from "../../plugins/azure-cloud/plugin.ts";
import {
  type AzureSimulator,
  type SimulatorOptions,
  startSimulator,
} from "../../plugins/azure-cloud/simulator/simulator.ts";
import serviceLB from "../../plugins/service-lb/plugin.ts";
import type { Cluster } from "../envtest/cluster.ts";
import { describeOnRealApiServer } from "../envtest/shared.ts";
import type { RecordedNode } from "../golden/replay/cases.ts";
import { nodeObject, seedGroup, seedMachines } from "../golden/replay/seed.ts";
import { TestCluster } from "../kit/harness.ts";
import { realRunner } from "../kit/real.ts";
import { addressesOf, deleteService, findService } from "../kit/services.ts";

/** Generous: the machines that run this are shared. */
const patienceMs = 80_000;

/** The kinds of VM that the nodes of a cluster may be. */
export type Machines = "uniform" | "flexible" | "availability set" | "standalone";

export interface LabOptions {
  /** Keys of the cloud config beside those of the simulator. */
  readonly config?: JsonObject;
  readonly machines?: Machines;
  readonly simulator?: Partial<SimulatorOptions>;
  readonly clock?: Clock;
}

/** An API server, and the host's own parts connected to it. */
interface Backend {
  readonly admin: KubeClient;
  readonly runner: ControllerRunner;
}

type OpenLab = (options?: LabOptions) => Promise<ServiceLab>;

/** A suite about Services on a simulated Azure, on the sandbox and on a real API server alike. */
export function describeServices(name: string, body: (open: OpenLab) => void): void {
  describe(`${name}, on the sandbox`, () => {
    body(async (options) => (await openOnSandbox(options)).lab);
  });
  describeServicesOnReal(name, body);
}

/** One for a real API server alone. */
export function describeServicesOnReal(name: string, body: (open: OpenLab) => void): void {
  describeOnRealApiServer(`${name}, on a real API server`, (cluster) => {
    beforeEach(() => cluster.cleanSlate());
    body((options) => ServiceLab.open(() => realBackend(cluster), options));
  });
}

/** A lab on the sandbox, whose API server others may use, too. */
export async function openOnSandbox(
  options: LabOptions = {},
): Promise<{ readonly lab: ServiceLab; readonly api: TestCluster["api"] }> {
  const runner = await TestCluster.start();
  const lab = await ServiceLab.open(async () => ({ admin: runner.admin, runner }), options);
  return { lab, api: runner.api };
}

const realBackend = async (cluster: Cluster): Promise<Backend> => ({
  admin: cluster.admin,
  runner: await realRunner(cluster, serviceLB, azure.permissions),
});

/** The client and the events of the cloud itself, as the host makes them. */
const cloudClient = defineController({ name: "azure-cloud-provider", construct: () => () => skipped("a context") });

/** A cluster of three nodes with the real plugins, and the simulated Azure behind it. */
export class ServiceLab implements AsyncDisposable {
  readonly admin: KubeClient;
  readonly simulator: AzureSimulator;
  readonly nodes: readonly Node[];
  readonly #options: LabOptions;
  readonly #runner: ControllerRunner;
  readonly #stack: AsyncDisposableStack;
  #generation = new AsyncDisposableStack();

  static async open(openBackend: () => Promise<Backend>, options: LabOptions = {}): Promise<ServiceLab> {
    await using opening = new AsyncDisposableStack();
    const directory = await mkdtemp(join(tmpdir(), "service-lab-"));
    opening.defer(() => rm(directory, { recursive: true, force: true }));
    const simulator = opening.use(await startSimulator({ directory, ...options.simulator }));
    const machines = options.machines ?? "uniform";
    const nodes = machinesOf(machines);
    seedGroup(simulator);
    const cloudConfig = configKeys[machines];
    seedMachines(simulator, { case: "", cloudConfig, clusterName: "kubernetes", nodes, steps: {} }, undefined);
    if (machines === "standalone") leaveSets(simulator, nodes);
    const { admin, runner } = await openBackend();
    opening.use(runner);
    const objects = nodes.map(nodeObject);
    for (const node of objects) await registerNode(admin, node);
    return new ServiceLab({ admin, runner, simulator, nodes: objects, options, stack: opening.move() });
  }

  private constructor(parts: {
    readonly admin: KubeClient;
    readonly runner: ControllerRunner;
    readonly simulator: AzureSimulator;
    readonly nodes: readonly Node[];
    readonly options: LabOptions;
    readonly stack: AsyncDisposableStack;
  }) {
    this.admin = parts.admin;
    this.simulator = parts.simulator;
    this.nodes = parts.nodes;
    this.#options = parts.options;
    this.#runner = parts.runner;
    this.#stack = parts.stack;
  }

  /** Runs the service controller with the Azure cloud, as a generation of the host does. Stops the one before. */
  async start(): Promise<void> {
    await this.stop();
    const clock = this.#options.clock === undefined ? {} : { clock: this.#options.clock };
    const generation = this.#generation.use(this.#runner.generation(cloudClient, clock));
    const bound = azure.bind(this.cloudConfig(), {});
    if (!bound.ok) throw new Error(bound.problems.join("; "));
    const { context, fence } = generation;
    const cloud: Cloud = this.#generation.use(await bound.value({ ...context, clusterName: "kubernetes", fence }));
    await generation.synced();
    const running = cloud.run?.(generation.signal);
    this.#generation.defer(async () => {
      generation.abort();
      await running;
    });
    const flags = { clusterName: "kubernetes", concurrentServiceSyncs: 64 };
    this.#generation.use(await this.#runner.run(serviceLB, { cloud, ...clock, flags }));
  }

  async stop(): Promise<void> {
    const generation = this.#generation;
    this.#generation = new AsyncDisposableStack();
    await generation.disposeAsync();
  }

  /** Starts again, and waits until every Service is synced. Resolves with the writes to ARM that took. */
  async restart(services: number): Promise<readonly string[]> {
    await this.stop();
    this.simulator.clearLog();
    const { length } = this.#runner.log;
    await this.start();
    await this.eventually("every Service is synced", () => synced(this.#runner.log.slice(length)) >= services);
    return this.armWrites();
  }

  create(service: Service): Promise<Service> {
    return this.admin.create(kinds.Service, service);
  }

  /** Waits until the Service has that many addresses. */
  served(name: string, addresses = 1): Promise<Service> {
    return this.eventually(`${name} has its addresses`, async () => {
      const service = await findService(this.admin, name);
      return addressesOf(service).length === addresses && service;
    });
  }

  /** Deletes the Service, and waits until its load balancer and it are gone. */
  async remove(name: string): Promise<void> {
    await deleteService(this.admin, name);
    await this.eventually(`${name} is gone`, async () => (await findService(this.admin, name)) === undefined);
  }

  events(name: string): Promise<readonly KubeEvent[]> {
    return this.admin
      .list(kinds.Event, { namespace: "default" })
      .then((events) => events.filter(({ involvedObject }) => involvedObject.name === name));
  }

  /** Writes to ARM since the log was cleared. */
  armWrites(): readonly string[] {
    return this.simulator.log
      .filter(({ method, path }) => method !== "GET" && path.startsWith("/subscriptions/"))
      .map(({ method, path }) => `${method} ${path.split("/").slice(-2).join("/")}`);
  }

  async eventually<T>(awaited: string, ask: () => T | Promise<T>): Promise<Exclude<T, undefined | false>> {
    try {
      return await eventually(awaited, ask, patienceMs);
    } catch (error) {
      throw new Error(`${String(error)}\n${this.#runner.log.slice(-20).join("")}`, { cause: error });
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    try {
      await this.stop();
    } finally {
      await this.#stack.disposeAsync();
    }
  }

  cloudConfig(): JsonObject {
    const { config = {}, machines = "uniform" } = this.#options;
    const document = parseJson(this.simulator.configWith({ ...configKeys[machines], ...config }));
    if (!isObject(document)) throw new Error("the simulator's config is not a mapping");
    return document;
  }
}

/** How many Services the cloud has reported as synced. */
const synced = (log: readonly string[]): number =>
  log.reduce((sum, line) => sum + Number(/"(?:Verified|Reconciled) (\d+) Services?/u.exec(line)?.[1] ?? 0), 0);

const configKeys: Readonly<Record<Machines, JsonObject>> = {
  uniform: { vmType: "vmss", primaryScaleSetName: "vmss0" },
  flexible: { vmType: "vmssflex", primaryScaleSetName: "flex0" },
  "availability set": { vmType: "standard", primaryScaleSetName: "", primaryAvailabilitySetName: "as0" },
  standalone: { vmType: "standard", primaryScaleSetName: "" },
};

const compute = "azure:///subscriptions/sub0/resourceGroups/rg0/providers/Microsoft.Compute";

const machinesOf = (machines: Machines): readonly RecordedNode[] =>
  [0, 1, 2].map((index) => {
    const name = machines === "uniform" ? `vmss000000${index}` : `vm-${index}`;
    const id =
      machines === "uniform" ? `virtualMachineScaleSets/vmss0/virtualMachines/${index}` : `virtualMachines/${name}`;
    return {
      name,
      providerID: `${compute}/${id}`,
      addresses: [
        { type: "InternalIP", address: `10.240.0.${index + 4}` },
        { type: "InternalIP", address: `fd12:3456::${index + 4}` },
        { type: "Hostname", address: name },
      ],
    };
  });

/** A strategic patch would take two addresses of one type for one. */
async function registerNode(admin: KubeClient, { status, ...node }: Node): Promise<void> {
  await admin.create(kinds.Node, node);
  await admin.patch(kinds.Node, { name: node.metadata?.name ?? "" }, "merge", { status }, { subresource: "status" });
}

/** Takes the VMs out of the set that they are seeded in. */
function leaveSets(simulator: AzureSimulator, nodes: readonly RecordedNode[]): void {
  for (const { name } of nodes) {
    const vm = simulator.get(`/providers/Microsoft.Compute/virtualMachines/${name}`);
    if (vm === undefined) continue;
    const { availabilitySet: _set, ...properties } = vm.properties;
    simulator.put(vm.id, { ...vm, properties });
  }
}

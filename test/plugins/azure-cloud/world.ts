import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import {
  type Cloud,
  type CloudContext,
  FencedError,
  type Informer,
  type Informers,
  type KindRef,
  type KubeObject,
  type Logger,
  type Metrics,
  type Node,
} from "cloud-controller-host/sdk";

import { type ArmClients, createClients } from "../../../plugins/azure-cloud/arm/clients.ts";
import { type AzureConfig, decodeConfig } from "../../../plugins/azure-cloud/config/decode.ts";
import { ScaleSetCatalog } from "../../../plugins/azure-cloud/instances/scale-set-reads.ts";
import { VirtualMachineCatalog } from "../../../plugins/azure-cloud/instances/virtual-machine-reads.ts";
import type { VmReads } from "../../../plugins/azure-cloud/instances/vm-types.ts";
import {
  type AzureLoadBalancers,
  azureLoadBalancers,
} from "../../../plugins/azure-cloud/load-balancer/load-balancers.ts";
import { Drifts } from "../../../plugins/azure-cloud/load-balancer/removals/drifts.ts";
import azure from "../../../plugins/azure-cloud/plugin.ts";
import { type RemovalGuard, removalGuard } from "../../../plugins/azure-cloud/removal-guard/guard.ts";
import {
  type AzureSimulator,
  type SimulatorOptions,
  startSimulator,
} from "../../../plugins/azure-cloud/simulator/simulator.ts";
import { type MemoryLeases, memoryLeases } from "../../host/process/leader-election/memory-leases.ts";
import { hurriedClock } from "../../kit/clocks.ts";

const impatient = hurriedClock(Number.POSITIVE_INFINITY);

/** A line that was logged. */
export interface LogLine {
  readonly level: string;
  readonly message: string;
  readonly fields: Readonly<Record<string, unknown>>;
}

export interface World extends AsyncDisposable {
  readonly simulator: AzureSimulator;
  readonly directory: string;
  /** Nodes that the informer knows. */
  readonly nodes: Node[];
  readonly logged: LogLine[];
  /** All that the API server of the cluster has for the cloud. */
  readonly leases: MemoryLeases;
  /** Every observation and increment, as `name{label=value,…}`. */
  readonly measured: string[];
  /** Closes the fence of every cloud made so far. */
  closeFence(): void;
  create(changes?: Changes, options?: CreateOptions): Promise<TestCloud>;
  /** Only the SDK's clients over the real pipeline. */
  clients(changes?: Changes, options?: CreateOptions): Promise<ArmClients>;
  /** The clients and the shared reads of VMs. */
  reads(changes?: Changes, options?: CreateOptions): Promise<VmReads>;
  /** The load balancers alone, with long-running operations polled without pauses. */
  loadBalancers(changes?: Changes, options?: CreateOptions): Promise<AzureLoadBalancers>;
  /** The same with the removal guard that they ask. */
  guardedLoadBalancers(
    changes?: Changes,
    options?: CreateOptions,
  ): Promise<{ readonly balancers: AzureLoadBalancers; readonly guard: RemovalGuard }>;
}

type Changes = Readonly<Record<string, unknown>>;

export interface CreateOptions {
  readonly environment?: Readonly<Record<string, string>>;
  /** Default: 1, as at the start of the process. */
  readonly generation?: number;
  /** Default: time passes as it does, but no sleep is longer than 5 ms. */
  readonly clock?: CloudContext["clock"];
  /** What else of the context the test provides itself. */
  readonly context?: Partial<CloudContext>;
}

/** A cloud whose capabilities are certain to be there. */
export type TestCloud = Cloud & Required<Pick<Cloud, "instances" | "nodeMasks" | "routes">>;

/** An ARM simulator over TLS and the real cloud plugin in front of it. */
export async function openWorld(options: Partial<SimulatorOptions> = {}): Promise<World> {
  const directory = await mkdtemp(join(tmpdir(), "azure-cloud-"));
  const simulator = await startSimulator({ directory, ...options });
  const nodes: Node[] = [];
  const logged: LogLine[] = [];
  const leases = memoryLeases();
  const measured: string[] = [];
  const generation = new AbortController();
  const fence = new AbortController();
  const context: CloudContext = {
    generation: 1,
    clusterName: "kubernetes",
    client: leases.client,
    informers: informersOf(nodes),
    events: { event: () => undefined },
    metrics: metricsInto(measured),
    log: loggerInto(logged),
    clock: impatient,
    signal: generation.signal,
    fence: {
      get closed() {
        return fence.signal.aborted;
      },
      check(what) {
        if (fence.signal.aborted) throw new FencedError(what, "the generation has ended");
      },
      signal: fence.signal,
    },
  };
  const guardedLoadBalancers: World["guardedLoadBalancers"] = async (
    changes = {},
    { environment = {}, clock = impatient, context: own = {} } = {},
  ) => {
    const config = configOf(simulator, changes, environment);
    const all = { ...context, clock, ...own };
    const guard = removalGuard(all, config);
    return {
      balancers: azureLoadBalancers(config, await readsOf(config, all), all, { guard, drifts: new Drifts(all) }),
      guard,
    };
  };
  return {
    simulator,
    directory,
    nodes,
    logged,
    leases,
    measured,
    closeFence: () => fence.abort(new FencedError("ARM", "the generation has ended")),
    async create(
      changes = {},
      { environment = {}, clock = impatient, generation: number = 1, context: own = {} } = {},
    ) {
      const bound = azure.bind(documentOf(simulator, changes), environment);
      if (!bound.ok) throw new Error(bound.problems.join("; "));
      const cloud = await bound.value({ ...context, clock, generation: number, ...own });
      const { instances, nodeMasks, routes } = cloud;
      if (instances === undefined || nodeMasks === undefined || routes === undefined)
        throw new Error("the cloud lacks a capability");
      return { ...cloud, instances, nodeMasks, routes };
    },
    async clients(changes = {}, { environment = {}, clock = impatient, context: own = {} } = {}) {
      return createClients(configOf(simulator, changes, environment), { ...context, clock, ...own });
    },
    reads: (changes = {}, { environment = {}, clock = impatient } = {}) =>
      readsOf(configOf(simulator, changes, environment), { ...context, clock }),
    loadBalancers: async (...given) => (await guardedLoadBalancers(...given)).balancers,
    guardedLoadBalancers,
    async [Symbol.asyncDispose]() {
      generation.abort();
      await simulator[Symbol.asyncDispose]();
      await rm(directory, { recursive: true, force: true });
    },
  };
}

function configOf(
  simulator: AzureSimulator,
  changes: Changes,
  environment: Readonly<Record<string, string>>,
): AzureConfig {
  const decoded = decodeConfig(documentOf(simulator, changes), environment);
  if (!decoded.ok) throw new Error(decoded.problems.join("; "));
  return decoded.value;
}

async function readsOf(config: AzureConfig, context: CloudContext): Promise<VmReads> {
  const clients = await createClients(config, context);
  const { clock } = context;
  const scaleSets = new ScaleSetCatalog(clients, config, clock);
  return { clients, scaleSets, virtualMachines: new VirtualMachineCatalog(clients, config, clock) };
}

function documentOf(simulator: AzureSimulator, changes: Changes): Changes {
  const document: unknown = JSON.parse(simulator.configWith(changes));
  if (typeof document !== "object" || document === null) throw new Error("the config is not a mapping");
  return { ...document };
}

const isOf = <T extends KubeObject>(kind: KindRef<T>, object: KubeObject): object is T => object.kind === kind.kind;

/** An informer of nodes that holds what the test puts there. */
export function informersOf(nodes: readonly Node[]): Informers {
  return {
    of<T extends KubeObject>(kind: KindRef<T>): Informer<T> {
      return {
        store: {
          get: (key) => nodes.filter((node) => isOf(kind, node)).find(({ metadata }) => metadata?.name === key),
          list: () => nodes.filter((node) => isOf(kind, node)),
          size: nodes.length,
        },
        handle: () => ({ remove: () => undefined }),
        hasSynced: () => true,
      };
    },
  };
}

function metricsInto(measured: string[]): Metrics {
  const record =
    (name: string) =>
    (labels: Readonly<Record<string, string>> = {}) =>
      void measured.push(
        `${name}{${Object.entries(labels)
          .map(([label, value]) => `${label}=${value}`)
          .join(",")}}`,
      );
  return {
    counter: ({ name }) => ({ inc: record(name) }),
    gauge: ({ name }) => ({ set: (_value, labels) => record(name)(labels) }),
    histogram: ({ name }) => ({ observe: (_value, labels) => record(name)(labels) }),
  };
}

export function loggerInto(logged: LogLine[]): Logger {
  const at =
    (level: string) =>
    (message: string, fields: Readonly<Record<string, unknown>> = {}) =>
      void logged.push({ level, message, fields });
  const logger: Logger = {
    info: at("info"),
    warn: at("warn"),
    error: at("error"),
    debug: (_level, message, fields) => at("debug")(message, fields),
    with: () => logger,
  };
  return logger;
}

/** A node as its kubelet registers it; with a provider ID once the cloud has initialized it. */
export function nodeOf(
  name: string,
  more: {
    readonly providerID?: string;
    readonly labels?: Readonly<Record<string, string>>;
    readonly creationTimestamp?: string;
  } = {},
): Node {
  const { providerID, labels, creationTimestamp } = more;
  return {
    apiVersion: "v1",
    kind: "Node",
    metadata: {
      name,
      ...(labels === undefined ? {} : { labels }),
      ...(creationTimestamp === undefined ? {} : { creationTimestamp }),
    },
    ...(providerID === undefined ? {} : { spec: { providerID } }),
  };
}

export const instanceID = (instance: number | string, scaleSet = "vmss0", group = "rg0"): string =>
  `azure:///subscriptions/sub0/resourceGroups/${group}/providers/Microsoft.Compute/virtualMachineScaleSets/${scaleSet}/virtualMachines/${instance}`;

/** How many requests went to a path that ends so. */
export const countOf = (simulator: AzureSimulator, ending: string): number =>
  simulator.log.filter(({ path }) => path.toLowerCase().endsWith(ending.toLowerCase())).length;

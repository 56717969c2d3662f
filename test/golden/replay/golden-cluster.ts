import { setSystemTime } from "bun:test";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import {
  type Clock,
  type Cloud,
  type ControllerPlugin,
  defineController,
  isObject,
  kinds,
  type Node,
  type Service,
  skipped,
} from "cloud-controller-host/sdk";

import { type JsonObject, objectsAt, parseJson, stringAt } from "../../../plugins/azure-cloud/json.ts";
import azure from "../../../plugins/azure-cloud/plugin.ts";
import {
  type AzureSimulator,
  type SimulatorOptions,
  startSimulator,
} from "../../../plugins/azure-cloud/simulator/simulator.ts";
import route from "../../../plugins/route/plugin.ts";
import serviceLB from "../../../plugins/service-lb/plugin.ts";
import { TestCluster } from "../../kit/harness.ts";
import { type GoldenCase, nodesAfter, type RecordedNode, type RecordedStep } from "./cases.ts";
import { nodeObject, nodesOf, seedGroup, seedMachines, seedResources, seedRoutes, serviceObject } from "./seed.ts";
import type { Observed } from "./snapshot.ts";

/** The client and the events of the cloud itself, as the host makes them. */
const cloudClient = defineController({ name: "azure-cloud-provider", construct: () => () => skipped("a context") });

/** What runs in a case, by its kind. */
const controllers: Readonly<Record<string, ControllerPlugin>> = { services: serviceLB, routes: route };

export const kindOf = (golden: GoldenCase): string => golden.kind ?? "services";

const namespace = "default";

/** The cluster and the resource group of one case: the sandbox's API server, the ARM simulator, the real plugins. */
export class GoldenCluster implements AsyncDisposable {
  readonly golden: GoldenCase;
  readonly simulator: AzureSimulator;
  readonly cluster: TestCluster;
  /** What the Go provider left at its start; undefined where it began empty. */
  readonly adopted: RecordedStep | undefined;
  readonly #stack: AsyncDisposableStack;

  /** Seeds the start of the case, or, with a state, what the Go provider left at the end of a step. */
  static async open(
    golden: GoldenCase,
    state?: RecordedStep,
    options: Partial<SimulatorOptions> = {},
  ): Promise<GoldenCluster> {
    await using opening = new AsyncDisposableStack();
    const directory = await mkdtemp(join(tmpdir(), "golden-"));
    opening.defer(() => rm(directory, { recursive: true, force: true }));
    const simulator = opening.use(await startSimulator({ directory, ...options }));
    seedGroup(simulator);
    seedRoutes(simulator, golden);
    seedMachines(simulator, golden, state);
    const cluster = opening.use(await TestCluster.start());
    const opened = new GoldenCluster({ golden, simulator, cluster, adopted: state }, opening.move());
    for (const node of nodesAfter(golden, state)) opened.createNode(node);
    if (state !== undefined) {
      seedResources(simulator, state);
      for (const service of state.services ?? []) cluster.api.create(kinds.Service, serviceObject(service, true));
    }
    return opened;
  }

  private constructor(
    { golden, simulator, cluster, adopted }: Pick<GoldenCluster, "golden" | "simulator" | "cluster" | "adopted">,
    stack: AsyncDisposableStack,
  ) {
    this.golden = golden;
    this.simulator = simulator;
    this.cluster = cluster;
    this.adopted = adopted;
    this.#stack = stack;
  }

  /** The Azure cloud with the config of the case, and what begins its own work. */
  async #cloud(clock: Clock | undefined): Promise<{ readonly cloud: Cloud; readonly lead: () => void }> {
    const { golden, cluster } = this;
    const generation = cluster.generation(cloudClient, clock === undefined ? {} : { clock });
    const bound = azure.bind(this.cloudConfig(), {});
    if (!bound.ok) throw new Error(bound.problems.join("; "));
    const { context, fence } = generation;
    const cloud = this.#stack.use(await bound.value({ ...context, clusterName: golden.clusterName, fence }));
    await generation.synced();
    const lead = (): void => {
      const running = cloud.run?.(generation.signal);
      this.#stack.defer(async () => {
        generation.abort();
        await running;
      });
    };
    return { cloud, lead };
  }

  /** Runs the controller of the case with the Azure cloud, as a generation of the host does. */
  async start(clock?: Clock): Promise<void> {
    const { golden, cluster } = this;
    const plugin = controllers[kindOf(golden)];
    if (plugin === undefined) throw new Error(`case "${golden.case}" has an unknown kind "${golden.kind}"`);
    const { cloud, lead } = await this.#cloud(clock);
    await cluster.run(plugin, {
      cloud,
      ...(clock === undefined ? {} : { clock }),
      flags: {
        clusterName: golden.clusterName,
        concurrentServiceSyncs: 8,
        allocateNodeCidrs: true,
        clusterCidr: golden.clusterCIDR ?? "",
        routeReconciliationPeriod: 200,
      },
    });
    // As in a host, it leads once the informers of its controllers have synced.
    lead();
  }

  /** The case's config, with the simulator's credentials and endpoint. */
  cloudConfig(): JsonObject {
    const own = parseJson(this.simulator.configWith({}));
    if (!isObject(own)) throw new Error("the simulator's config is not a mapping");
    const keys = ["tenantId", "aadClientId", "aadClientSecret", "resourceManagerEndpoint", "resourceManagerCAFile"];
    return { ...this.golden.cloudConfig, ...Object.fromEntries(keys.map((key) => [key, own[key]])) };
  }

  createService(service: Service): void {
    this.cluster.api.create(kinds.Service, serviceObject(service, false));
  }

  /** Gives a Service the metadata and the spec that its user wrote in a recorded state. */
  updateService(recorded: Service): void {
    const { spec, metadata } = serviceObject(recorded, false);
    const { annotations, labels } = metadata ?? {};
    this.cluster.api.update(kinds.Service, { namespace, name: metadata?.name ?? "" }, (before) => {
      const { annotations: _annotations, labels: _labels, ...kept } = before.metadata ?? {};
      const written = {
        ...(annotations === undefined ? {} : { annotations }),
        ...(labels === undefined ? {} : { labels }),
      };
      return { ...before, metadata: { ...kept, ...written }, ...(spec === undefined ? {} : { spec }) };
    });
  }

  /** As a user did a minute ago: for that long, a cloud does not believe that a Service of another process has nothing. */
  deleteService(name: string): void {
    setSystemTime(Date.now() - 61_000);
    this.cluster.api.delete(kinds.Service, { namespace, name });
    setSystemTime();
  }

  createNode(node: RecordedNode): void {
    this.cluster.api.create(kinds.Node, nodeObject(node));
  }

  labelNode(name: string, label: string, value: string | undefined): void {
    this.cluster.api.update(kinds.Node, { name }, (before): Node => {
      const { [label]: _before, ...labels } = before.metadata?.labels ?? {};
      return {
        ...before,
        metadata: { ...before.metadata, labels: value === undefined ? labels : { ...labels, [label]: value } },
      };
    });
  }

  deleteNode(name: string): void {
    this.cluster.api.delete(kinds.Node, { name });
  }

  /** Writes so far that ARM accepted: one that it rejects is tried again after a restart. */
  armWrites(): readonly string[] {
    return this.simulator.log
      .filter(({ method, path, status }) => method !== "GET" && status < 400 && path.startsWith("/subscriptions/"))
      .map(({ method, path }) => `${method} ${path}`);
  }

  services(): readonly Service[] {
    return this.cluster.api
      .list(kinds.Service, { namespace })
      .filter(({ metadata }) => metadata?.name !== "kubernetes");
  }

  /** Everything as it is now, in the form of a recorded step that lists these parts. */
  observe(recorded: RecordedStep): Observed {
    const listed = (item: JsonObject): boolean => this.#isCompared(item, recorded);
    return {
      services: this.services(),
      events: this.cluster.events().map(({ type = "", reason = "", involvedObject }) => ({
        object: involvedObject?.name ?? "",
        type,
        reason,
      })),
      arm: [...this.simulator.resources().filter(listed), ...this.#membership()],
      ...(recorded.nodes === undefined ? {} : { nodes: this.#nodes() }),
    };
  }

  /** Load balancers and all that belongs to them always; a route table where it was recorded. */
  #isCompared(item: JsonObject, { arm }: RecordedStep): boolean {
    const type = (stringAt(item, "type") ?? "").toLowerCase().replace("microsoft.network/", "");
    if (type === "routetables") return arm.some(({ id }) => id === item["id"]);
    if (kindOf(this.golden) === "routes") return false;
    return ["loadbalancers", "publicipaddresses", "networksecuritygroups", "privatelinkservices"].includes(type);
  }

  /** Pools of every machine, in the form of the recording. */
  #membership(): readonly JsonObject[] {
    if (kindOf(this.golden) === "routes") return [];
    const { simulator } = this;
    const ofType = (type: string) => simulator.resources().filter((item) => item.type.toLowerCase() === type);
    const instances = ofType("microsoft.compute/virtualmachinescalesets").flatMap((scaleSet) =>
      simulator.instances(scaleSet.id).map(({ instanceId, networkInterfaceConfigurations }) => ({
        id: `${scaleSet.id}/virtualMachines/${instanceId}`,
        pools: networkInterfaceConfigurations.flatMap(poolsOf),
      })),
    );
    const interfaces = ofType("microsoft.network/networkinterfaces").map((nic) => ({
      id: nic.id,
      pools: poolsOf(nic),
    }));
    return [...instances, ...interfaces];
  }

  #nodes(): readonly RecordedNode[] {
    return this.cluster.api.list(kinds.Node).map(({ metadata, spec, status }) => ({
      name: metadata?.name ?? "",
      providerID: spec?.providerID ?? "",
      addresses: status?.addresses ?? [],
      podCIDRs: spec?.podCIDRs ?? [],
      conditions: status?.conditions ?? [],
    }));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#stack.disposeAsync();
  }
}

function poolsOf(nic: JsonObject): readonly JsonObject[] {
  const properties = isObject(nic["properties"]) ? nic["properties"] : {};
  return objectsAt(properties, "ipConfigurations").map((item) => ({
    ipConfiguration: item["name"],
    pools: objectsAt(isObject(item["properties"]) ? item["properties"] : {}, "loadBalancerBackendAddressPools").map(
      ({ id }) => id,
    ),
  }));
}

/** A node that a step is about: the third of the case. */
export function thirdNode({ golden }: GoldenCluster): RecordedNode {
  const node = nodesOf(golden)[2];
  if (node === undefined) throw new Error(`case "${golden.case}" has no third node`);
  return node;
}

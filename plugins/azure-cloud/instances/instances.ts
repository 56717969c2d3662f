import {
  type Clock,
  type InstanceMetadata,
  InstanceNotFoundError,
  type InstanceRead,
  type Instances,
  type Node,
  type NodeAddress,
} from "cloud-controller-host/sdk";

import { abandonable } from "../arm/transport/signals.ts";
import type { RetryLookup } from "./backoff.ts";
import { ExpiringSet } from "./expiring-set.ts";
import { isUnmanaged } from "./node-resource-groups.ts";
import { isManagedProviderID } from "./provider-id.ts";
import { isShutDown } from "./vm-rules.ts";
import type { FindPurpose, Vm, VmAddresses, VmSet } from "./vm-set.ts";

export interface InstancesOptions {
  readonly vms: VmSet;
  readonly clock: Clock;
  readonly retryLookup: RetryLookup;
  /** Age below which a node whose VM is not found is reported as existing. */
  readonly graceMs: number;
  /** Time for which a confirmed "does not exist" answers cached reads of that node. */
  readonly absenceTtlMs: (node: Node) => number;
}

/** Time for which metadata and shutdown lookups of a node do not read lists again after a miss. */
const missTtlMs = 10_000;

const emptyMetadata: InstanceMetadata = { providerID: "", instanceType: "", nodeAddresses: [], zone: "", region: "" };

const hasForeignID = ({ spec }: Node): boolean =>
  Boolean(spec?.providerID) && !isManagedProviderID(spec?.providerID ?? "");

/** A node that is not a VM of Azure, by its label or by its provider ID. */
const isForeign = (node: Node): boolean => isUnmanaged(node) || hasForeignID(node);

type ReadFreshness = NonNullable<InstanceRead["read"]>;
const freshnessOf = (options: InstanceRead | undefined): ReadFreshness => options?.read ?? "cached";

/** The identity of a node object: a recreated node and a new provider ID are looked up again. */
const keyOf = ({ metadata, spec }: Node): string => `${metadata?.uid}/${metadata?.name}/${spec?.providerID ?? ""}`;

/** upstream: `InstancesV2` of cloud-provider-azure, `azure_instances_v2.go`. */
export class AzureInstances implements Instances {
  readonly #options: InstancesOptions;
  /** Nodes whose VM a fresh read has not found. Nothing is deleted because of an entry: a fresh read passes it by. */
  readonly #absent: ExpiringSet;
  /** Nodes that the newest lists lack. */
  readonly #missed: ExpiringSet;

  constructor(options: InstancesOptions) {
    this.#options = options;
    this.#absent = new ExpiringSet(options.clock);
    this.#missed = new ExpiringSet(options.clock);
  }

  /** A `fresh` false is ARM's own answer to a read that began after the call; a cached one may be `absenceTtlMs` old. */
  instanceExists(node: Node, options?: InstanceRead): Promise<boolean> {
    return abandonable(() => this.#exists(node, freshnessOf(options)), options?.signal);
  }

  instanceShutdown(node: Node, options?: InstanceRead): Promise<boolean> {
    return abandonable(() => this.#isShutDown(node, freshnessOf(options)), options?.signal);
  }

  instanceMetadata(node: Node, options?: InstanceRead): Promise<InstanceMetadata> {
    return abandonable(() => this.#metadata(node, freshnessOf(options)), options?.signal);
  }

  async #exists(node: Node, freshness: ReadFreshness): Promise<boolean> {
    if (isForeign(node)) return true;
    const { vms, absenceTtlMs } = this.#options;
    const key = keyOf(node);
    if (freshness === "cached") {
      if ((await vms.find(node, "cached")) !== undefined) return true;
      if (this.#absent.has(key)) return this.#isYoung(node);
    }
    const exists = (await vms.find(node, "fresh")) !== undefined;
    if (exists) this.#absent.delete(key);
    else this.#absent.add(key, absenceTtlMs(node));
    return exists || this.#isYoung(node);
  }

  /** Reads lists again for a VM that the cached ones lack, at most once in `missTtlMs` per node. */
  async #find(node: Node, freshness: ReadFreshness, purpose: FindPurpose): Promise<Vm | undefined> {
    const { vms } = this.#options;
    const found = await vms.find(node, freshness, purpose);
    const key = keyOf(node);
    if (found !== undefined || freshness === "fresh" || this.#missed.has(key)) return found;
    const newer = await vms.find(node, "newer", purpose);
    if (newer === undefined) this.#missed.add(key, missTtlMs);
    return newer;
  }

  /** A node may join before ARM lists its VM. */
  #isYoung(node: Node): boolean {
    const { graceMs, clock } = this.#options;
    const createdAt = Date.parse(node.metadata?.creationTimestamp ?? "");
    return graceMs > 0 && !Number.isNaN(createdAt) && clock.now() - createdAt < graceMs;
  }

  async #isShutDown(node: Node, freshness: ReadFreshness): Promise<boolean> {
    if (isForeign(node)) return false;
    const vm = await this.#find(node, freshness, "existence");
    return vm !== undefined && isShutDown(await vm.state(freshness));
  }

  async #metadata(node: Node, freshness: ReadFreshness): Promise<InstanceMetadata> {
    if (isUnmanaged(node)) return emptyMetadata;
    const name = node.metadata?.name ?? "";
    // upstream: a provider ID of another form is kept, and everything else is looked up by the node's name.
    const wanted = hasForeignID(node) ? { ...node, spec: { ...node.spec, providerID: "" } } : node;
    const vm = await this.#find(wanted, freshness, "metadata");
    if (vm === undefined) throw new InstanceNotFoundError(`instance not found: ${name}`);
    const addresses = await this.#options.retryLookup(() => vm.addresses(freshness));
    return {
      providerID: node.spec?.providerID || vm.providerID,
      instanceType: vm.instanceType,
      nodeAddresses: nodeAddresses(name, addresses),
      zone: await vm.zone(),
      region: vm.location.toLowerCase(),
    };
  }
}

/** Upstream's order. Only the addresses of the primary configuration are reported; the kubelet knows the others. */
function nodeAddresses(name: string, { privateIP, publicIP }: VmAddresses): readonly NodeAddress[] {
  const external = publicIP === undefined ? [] : [{ type: "ExternalIP", address: publicIP }];
  return [{ type: "InternalIP", address: privateIP }, { type: "Hostname", address: name }, ...external];
}

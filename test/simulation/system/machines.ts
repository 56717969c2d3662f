import { objectAt, objectsAt } from "../../../plugins/azure-cloud/json.ts";
import { modelInterfaces } from "../../../plugins/azure-cloud/simulator/resources/scale-set-views.ts";
import type { AzureSimulator } from "../../../plugins/azure-cloud/simulator/simulator.ts";
import { type Cluster, flexible, standalone } from "./clusters.ts";

const compute = "/providers/Microsoft.Compute";
const network = "/providers/Microsoft.Network";
export const scaleSetPath = (name: string): string => `${compute}/virtualMachineScaleSets/${name}`;

/** What a node runs on: an instance of a uniform scale set, or a VM with a network interface of its own. */
export interface Machine {
  /** Of its node. */
  readonly name: string;
  /** Its scale set, or `standalone`. */
  readonly set: string;
  /** The end of its id, and of the provider ID of its node. */
  readonly path: string;
  readonly privateIP: string;
  /** Lower-case start, without the resource group, of the ids of its IP configurations. */
  readonly owner: string;
}

const interfaceOf = ({ path }: Machine): string => `${network}/networkInterfaces/${path.split("/").at(-1)}-nic`;

/** The machines of a cluster. Those of uniform scale sets are the simulator's own; the others are kept here. */
export class Machines {
  readonly #azure: AzureSimulator;
  readonly #cluster: Cluster;
  #vms: readonly Machine[] = [];
  /** At a revision of Azure, which changes with each of them. */
  #known: { readonly revision: number; readonly machines: readonly Machine[] } | undefined;
  readonly #hidden = new Set<string>();
  #created = 0;

  constructor(azure: AzureSimulator, cluster: Cluster) {
    this.#azure = azure;
    this.#cluster = cluster;
  }

  /** In the order of the sets of the cluster. */
  get all(): readonly Machine[] {
    const revision = this.#azure.revision();
    if (this.#known?.revision !== revision) this.#known = { revision, machines: this.#read() };
    return this.#known.machines;
  }

  #read(): readonly Machine[] {
    const instances = this.#cluster.scaleSets.flatMap((set) =>
      this.#azure.instances(set).map(({ instanceId, computerName, privateIP }) => {
        const path = `${scaleSetPath(set)}/virtualMachines/${instanceId}`;
        return { name: computerName.toLowerCase(), set, path, privateIP, owner: path.toLowerCase() };
      }),
    );
    return [...instances, ...this.#vms];
  }

  has(name: string): boolean {
    return this.#azure.hasInstance(name) || this.#named(name) !== undefined;
  }

  /** Adds machines to a set, and returns the names of their nodes. */
  add(set: string, count: number, name?: string): readonly string[] {
    if (!this.#cluster.virtualMachines.includes(set)) {
      const change = name === undefined ? {} : { computerName: name };
      return this.#azure.addScaleSetInstances(set, count, change).map(({ computerName }) => computerName.toLowerCase());
    }
    return Array.from({ length: count }, () => this.#addVM(set, name));
  }

  remove(name: string): void {
    const vm = this.#named(name);
    if (vm === undefined) return void this.#azure.removeInstance(name);
    this.#vms = this.#vms.filter((one) => one !== vm);
    this.#azure.delete(vm.path);
    this.#azure.delete(interfaceOf(vm));
  }

  setPower(name: string, powerState: "running" | "stopped"): void {
    const vm = this.#named(name);
    if (vm === undefined) this.#azure.changeInstance(name, { powerState });
    else this.#azure.put(vm.path, { properties: { instanceView: viewOf(powerState) } });
  }

  /** Lists omit it; reads of itself do not. */
  hide(name: string, hidden: boolean): void {
    const vm = this.#named(name);
    if (vm === undefined) return this.#azure.changeInstance(name, { hidden });
    if (hidden) this.#hidden.add(vm.path);
    else this.#hidden.delete(vm.path);
    const isShown = (id: string): boolean => ![...this.#hidden].some((path) => id.endsWith(path));
    this.#azure.changeLists((resources) => resources.filter(({ id }) => isShown(id)));
  }

  #named(name: string): Machine | undefined {
    return this.#vms.find((vm) => vm.name === name);
  }

  /** A standalone VM has the name of its node; one of a scale set has a name of its own, and the pools of its model. */
  #addVM(set: string, wanted: string | undefined): string {
    const number = this.#created++;
    const name = wanted ?? `${set}${String(number).padStart(6, "0")}`;
    const path = `${compute}/virtualMachines/${set === standalone ? name : `${set}_${number.toString(16)}`}`;
    const id = path.split("/").at(-1) ?? "";
    const privateIP = `10.240.128.${number + 4}`;
    const owner = `${network}/networkInterfaces/${id}-nic`;
    const ipConfiguration = {
      name: "ipconfig0",
      properties: { primary: true, privateIPAddress: privateIP, loadBalancerBackendAddressPools: this.#poolsOf(set) },
    };
    const nic = this.#azure.put(owner, { properties: { primary: true, ipConfigurations: [ipConfiguration] } });
    const member = set === flexible ? { virtualMachineScaleSet: { id: this.#azure.get(scaleSetPath(set))?.id } } : {};
    this.#vms = [...this.#vms, { name, set, path, privateIP, owner: owner.toLowerCase() }];
    this.#azure.put(path, {
      properties: {
        ...member,
        hardwareProfile: { vmSize: "Standard_D2s_v3" },
        osProfile: { computerName: name },
        networkProfile: { networkInterfaces: [{ id: nic.id, properties: { primary: true } }] },
        instanceView: viewOf("running"),
      },
    });
    return name;
  }

  #poolsOf(set: string) {
    const model = set === standalone ? undefined : this.#azure.get(scaleSetPath(set));
    const [configuration] = model === undefined ? [] : modelInterfaces(model);
    const [first] = objectsAt(objectAt(configuration, "properties"), "ipConfigurations");
    return objectsAt(objectAt(first, "properties"), "loadBalancerBackendAddressPools");
  }
}

const viewOf = (powerState: string) => ({
  platformFaultDomain: 0,
  statuses: [
    { code: "ProvisioningState/succeeded", level: "Info" },
    { code: `PowerState/${powerState}`, level: "Info", displayStatus: `VM ${powerState}` },
  ],
});

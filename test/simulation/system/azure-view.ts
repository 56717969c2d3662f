import { defaultLoadBalancerName, type Service } from "cloud-controller-host/sdk";

import { type JsonObject, objectAt, objectsAt, stringAt, stringsAt } from "../../../plugins/azure-cloud/json.ts";
import type { AzureSimulator } from "../../../plugins/azure-cloud/simulator/simulator.ts";
import type { Machine } from "./machines.ts";

const network = "/providers/Microsoft.Network";
export const ids = {
  securityGroup: `${network}/networkSecurityGroups/nsg0`,
  routeTable: `${network}/routeTables/rt0`,
  balancer: `${network}/loadBalancers/kubernetes`,
} as const;

/** The families of a Service. */
export const familiesOf = ({ spec }: Service): readonly string[] => spec?.ipFamilies ?? ["IPv4"];

/** Keys of the Services that have a public IP by its tag. */
export const ownersOf = (publicIP: JsonObject): readonly string[] =>
  (stringAt(objectAt(publicIP, "tags"), "k8s-azure-service") ?? "").split(",").filter((owner) => owner !== "");

/** What a Service has in Azure of one family. */
export interface ServiceInAzure {
  /** `load balancer/frontend`. */
  readonly frontends: readonly string[];
  /** Its load-balancing rules, as `ruleText` describes them, sorted. */
  readonly rules: readonly string[];
  readonly address: string | undefined;
  /** The name of its public IP. */
  readonly publicIP: string | undefined;
  /** The IP tags of its public IP, as its annotation would have them. */
  readonly ipTags: string;
  /** Names of the nodes in its pools. */
  readonly members: ReadonlySet<string>;
  /** True where its rules have a pool that no other Service has. */
  readonly isLocal: boolean;
  /** `TCP 80 from Internet`: what allow rules let through to its address, sorted. */
  readonly opened: readonly string[];
  /** Names of what it uses whose last write failed as an operation: they are written again, however they look. */
  readonly failed: readonly string[];
}

interface Rule {
  readonly protocol: string;
  readonly port: number;
  readonly distribution: string;
  readonly idleMinutes: number;
  readonly resets: boolean;
  readonly floats: boolean;
}

/** A load-balancing rule: what a Service decides about it. UDP has no reset. */
export function ruleText({ protocol, port, distribution, idleMinutes, resets, floats }: Rule): string {
  const name = protocol.toUpperCase();
  const reset = name === "UDP" || resets ? "" : " without reset";
  return `${name} ${port} ${distribution} ${idleMinutes} min${reset}${floats ? "" : " to node ports"}`;
}

export const propertiesOf = (part: JsonObject | undefined): JsonObject => objectAt(part, "properties") ?? {};
export const idAt = (part: JsonObject, key: string): string =>
  (stringAt(objectAt(part, key), "id") ?? "").toLowerCase();
export const nameOf = (part: JsonObject): string => stringAt(part, "name") ?? "";
const typeOf = (resource: JsonObject): string => stringAt(resource, "type")?.toLowerCase() ?? "";
export const isOfType = (type: string) => (resource: JsonObject) => typeOf(resource) === `microsoft.network/${type}`;

/** What a rule has under a name, or several under its plural. */
export const textsAt = (rule: JsonObject, key: string): readonly string[] => [
  ...[stringAt(rule, key) ?? []].flat(),
  ...stringsAt(rule, key.endsWith("x") ? `${key}es` : `${key}s`),
];

const ipTagsOf = (publicIP: JsonObject | undefined): string =>
  objectsAt(propertiesOf(publicIP), "ipTags")
    .map((one) => `${stringAt(one, "ipTagType")}=${stringAt(one, "tag")}`)
    .toSorted()
    .join();

const hasFailed = (one: JsonObject): boolean => stringAt(propertiesOf(one), "provisioningState") === "Failed";

/** What has an IP configuration: an instance of a scale set, or a network interface that is a resource itself. */
const ownerOf = /\/providers\/[^/]+\/(?:virtualMachineScaleSets\/[^/]+\/virtualMachines|networkInterfaces)\/[^/]+/iu;

/** The pool of one Service. All others have the name of the cluster. */
export const isLocalPool = (pool: JsonObject): boolean => !/^kubernetes(?:-ipv6)?$/iu.test(nameOf(pool));

/** The simulated subscription at one moment, in the terms of Services and nodes. */
export class AzureView {
  readonly resources: readonly JsonObject[];
  readonly #byType: ReadonlyMap<string, readonly JsonObject[]>;
  readonly #names: ReadonlySet<string>;
  readonly balancers: readonly JsonObject[];
  readonly publicIPs: readonly JsonObject[];
  readonly securityRules: readonly JsonObject[];
  /** Nodes by what has their IP configurations, and by private address. */
  readonly nodeNames: ReadonlyMap<string, string>;
  /** By node. */
  readonly #machines = new Map<string, Machine>();
  readonly #members = new Map<JsonObject, readonly string[]>();
  /** The rules of each load balancer, by their frontends. */
  readonly #users = new Map<JsonObject, ReadonlyMap<string, readonly JsonObject[]>>();
  readonly #publicIPsById: ReadonlyMap<string, JsonObject>;
  /** By the start of the names of a Service and a family. */
  readonly #services = new Map<string, ServiceInAzure>();

  constructor(azure: AzureSimulator, machines: readonly Machine[]) {
    this.resources = azure.resources();
    this.#names = new Set(this.resources.map(nameOf));
    this.#byType = Map.groupBy(this.resources, typeOf);
    this.balancers = this.ofType("loadbalancers");
    this.publicIPs = this.ofType("publicipaddresses");
    this.#publicIPsById = new Map(this.publicIPs.map((one) => [(stringAt(one, "id") ?? "").toLowerCase(), one]));
    this.securityRules = this.ofType("networksecuritygroups").flatMap((group) =>
      objectsAt(propertiesOf(group), "securityRules"),
    );
    this.nodeNames = new Map(
      machines.flatMap((machine) => {
        const { name, owner, privateIP } = machine;
        if (!this.#machines.has(name)) this.#machines.set(name, machine);
        return [[owner, name] as const, [privateIP, name] as const];
      }),
    );
  }

  /** The resources of a lower-case type of Microsoft.Network. */
  ofType(type: string): readonly JsonObject[] {
    return this.#byType.get(`microsoft.network/${type}`) ?? [];
  }

  has(name: string): boolean {
    return this.#names.has(name);
  }

  /** The machine that a node runs on. */
  machineOf(name: string): Machine | undefined {
    return this.#machines.get(name);
  }

  serviceOf(service: Service, family: string): ServiceInAzure {
    const base = defaultLoadBalancerName(service);
    return this.#services.getOrInsertComputed(`${base} ${family}`, () => this.#readService(base, family));
  }

  #readService(base: string, family: string): ServiceInAzure {
    const isOwn = (part: JsonObject): boolean => nameOf(part).startsWith(base);
    const frontends: string[] = [];
    const rules: string[] = [];
    const members = new Set<string>();
    const failed = this.ofType("networksecuritygroups").filter(hasFailed).map(nameOf);
    let address: string | undefined;
    let publicIP: string | undefined;
    let ipTags = "";
    let isLocal = false;
    for (const balancer of this.balancers) {
      const properties = propertiesOf(balancer);
      const own = this.#frontendsUsed(balancer, isOwn).filter(
        (frontend) => this.#familyOf(propertiesOf(frontend)) === family,
      );
      const ownIds = new Set(own.map((frontend) => stringAt(frontend, "id")?.toLowerCase()));
      for (const frontend of own) {
        const itsIP = this.publicIPOf(propertiesOf(frontend));
        frontends.push(`${nameOf(balancer)}/${nameOf(frontend)}`);
        address = this.addressOf(propertiesOf(frontend));
        publicIP = itsIP?.["name"]?.toString();
        ipTags = ipTagsOf(itsIP);
        failed.push(...[balancer, ...(itsIP === undefined ? [] : [itsIP])].filter(hasFailed).map(nameOf));
      }
      for (const rule of objectsAt(properties, "loadBalancingRules").filter(isOwn)) {
        if (!ownIds.has(idAt(propertiesOf(rule), "frontendIPConfiguration"))) continue;
        rules.push(textOfRule(propertiesOf(rule)));
        const poolId = idAt(propertiesOf(rule), "backendAddressPool");
        const pool = objectsAt(properties, "backendAddressPools").find(
          (one) => stringAt(one, "id")?.toLowerCase() === poolId,
        );
        if (pool !== undefined && isLocalPool(pool)) isLocal = true;
        for (const name of this.membersOf(pool)) members.add(name);
      }
    }
    const opened = this.openedAt(address);
    return { frontends, rules: rules.toSorted(), address, publicIP, ipTags, members, isLocal, opened, failed };
  }

  /** The frontends that rules of a Service use, and those of its name that rules of no other one use. */
  #frontendsUsed(balancer: JsonObject, isOwn: (part: JsonObject) => boolean): readonly JsonObject[] {
    const users = this.#users.getOrInsertComputed(balancer, () =>
      Map.groupBy(objectsAt(propertiesOf(balancer), "loadBalancingRules"), (rule) =>
        idAt(propertiesOf(rule), "frontendIPConfiguration"),
      ),
    );
    return objectsAt(propertiesOf(balancer), "frontendIPConfigurations").filter((frontend) => {
      const own = users.get((stringAt(frontend, "id") ?? "").toLowerCase());
      return own === undefined ? isOwn(frontend) : own.some(isOwn);
    });
  }

  #familyOf(frontend: JsonObject): string {
    const publicIP = this.publicIPOf(frontend);
    const version =
      publicIP === undefined
        ? stringAt(frontend, "privateIPAddressVersion")
        : stringAt(propertiesOf(publicIP), "publicIPAddressVersion");
    return version ?? "IPv4";
  }

  /** The public IP of the properties of a frontend. */
  publicIPOf(frontend: JsonObject): JsonObject | undefined {
    return this.#publicIPsById.get(idAt(frontend, "publicIPAddress"));
  }

  /** The address of the properties of a frontend. */
  addressOf(frontend: JsonObject): string | undefined {
    const publicIP = this.publicIPOf(frontend);
    return publicIP === undefined
      ? stringAt(frontend, "privateIPAddress")
      : stringAt(propertiesOf(publicIP), "ipAddress");
  }

  /** Names of the nodes in a pool. */
  membersOf(pool: JsonObject = {}): readonly string[] {
    const members = this.#members.get(pool) ?? this.#readMembers(pool);
    this.#members.set(pool, members);
    return members;
  }

  #readMembers(pool: JsonObject): readonly string[] {
    const configurations = objectsAt(propertiesOf(pool), "backendIPConfigurations").map(
      (configuration) => ownerOf.exec(stringAt(configuration, "id") ?? "")?.[0].toLowerCase() ?? "",
    );
    const addresses = objectsAt(propertiesOf(pool), "loadBalancerBackendAddresses").map(
      (address) => stringAt(propertiesOf(address), "ipAddress") ?? "",
    );
    return [...configurations, ...addresses].flatMap((key) => this.nodeNames.get(key) ?? []);
  }

  /** What allow rules let through to an address, sorted. */
  openedAt(address: string | undefined): readonly string[] {
    if (address === undefined) return [];
    const opened = this.securityRules
      .map(propertiesOf)
      .filter((rule) => String(rule["access"]).toLowerCase() === "allow")
      .filter((rule) => textsAt(rule, "destinationAddressPrefix").includes(address))
      .flatMap((rule) =>
        textsAt(rule, "destinationPortRange").flatMap((port) =>
          textsAt(rule, "sourceAddressPrefix").map(
            (source) => `${String(rule["protocol"]).toUpperCase()} ${port} from ${source}`,
          ),
        ),
      );
    return [...new Set(opened)].toSorted();
  }

  /** `node CIDR address` of each route that is ours. */
  get routes(): readonly string[] {
    return this.#routes
      .filter((route) => nameOf(route).includes("____"))
      .map((route) => {
        const node = nameOf(route).split("____")[0] ?? "";
        const { addressPrefix, nextHopIpAddress } = propertiesOf(route);
        return `${node} ${String(addressPrefix)} ${String(nextHopIpAddress)}`;
      });
  }

  get #routes(): readonly JsonObject[] {
    return this.ofType("routetables").flatMap((table) => objectsAt(propertiesOf(table), "routes"));
  }

  /** Everything that a foreign writer owns, by a name that begins with `foreign`, with its content. */
  get foreign(): ReadonlyMap<string, string> {
    const parts = [
      ...this.securityRules,
      ...this.#routes,
      ...this.publicIPs,
      ...this.balancers.flatMap((balancer) =>
        ["frontendIPConfigurations", "outboundRules", "backendAddressPools"].flatMap((key) =>
          objectsAt(propertiesOf(balancer), key),
        ),
      ),
    ].filter((part) => nameOf(part).startsWith("foreign"));
    const tags = this.resources.flatMap((resource) =>
      Object.entries(objectAt(resource, "tags") ?? {}).flatMap(([key, value]) =>
        key.startsWith("foreign") ? [[`tag ${key} of ${nameOf(resource)}`, String(value)] as const] : [],
      ),
    );
    return new Map([...parts.map((part) => [nameOf(part), essenceOf(part)] as const), ...tags]);
  }
}

/** True if a load-balancing rule is for a frontend. */
export const isOn = (rule: JsonObject, frontend: JsonObject): boolean =>
  idAt(propertiesOf(rule), "frontendIPConfiguration") === (stringAt(frontend, "id") ?? "").toLowerCase();

/** The port that a rule has, as `TCP 80`. */
export function portOf(rule: JsonObject): string {
  const { protocol, frontendPort } = propertiesOf(rule);
  return `${String(protocol).toUpperCase()} ${String(frontendPort)}`;
}

const textOfRule = (rule: JsonObject): string =>
  ruleText({
    protocol: String(rule["protocol"]),
    port: Number(rule["frontendPort"]),
    distribution: String(rule["loadDistribution"]),
    idleMinutes: Number(rule["idleTimeoutInMinutes"]),
    resets: rule["enableTcpReset"] === true,
    floats: rule["enableFloatingIP"] === true,
  });

/** What the owner of a part has written: without what Azure adds to it. */
function essenceOf(part: JsonObject): string {
  const { access, priority, addressPrefix, nextHopType, ipAddress, destinationPortRange } = propertiesOf(part);
  return JSON.stringify([access, priority, addressPrefix, nextHopType, ipAddress, destinationPortRange]);
}

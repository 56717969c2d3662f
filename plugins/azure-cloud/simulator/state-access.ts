import type { CloudSimulator } from "cloud-controller-host/sdk";

import { parseArmPath } from "../arm/resource-id.ts";
import type { JsonObject } from "../json.ts";
import { drafted, shownResource, storeResource } from "./http/resource-routes.ts";
import type { ResourceType } from "./resources/resource-rules.ts";
import { resourceType } from "./resources/resource-types.ts";
import { addInstance, type ScaleSetSeed, seedScaleSet } from "./seed.ts";
import type { SubscriptionLimits } from "./state/limits.ts";
import type { Instance, InstanceChange } from "./state/scale-set-instances.ts";
import { draftOf, type Resource } from "./state/store.ts";
import type { SubscriptionState } from "./state/subscription-state.ts";

/** Direct access to the simulated subscription. Ids may omit everything before `/providers`. */
export interface StateAccess extends Pick<CloudSimulator, "addInstances" | "removeInstance"> {
  /** A resource as ARM shows it. */
  get(id: string): Resource | undefined;
  /** Every resource, in order of creation. They are the state's own objects: a view of all of them is often taken. */
  resources(): readonly Resource[];
  /** Grows with every change of what `resources` and `instances` show. */
  revision(): number;
  /** Stores a resource as a PUT would, without a request. */
  put(id: string, body: JsonObject): Resource;
  delete(id: string): boolean;
  addResourceGroup(name: string): void;
  removeResourceGroup(name: string): void;
  addScaleSet(seed: ScaleSetSeed): Resource;
  /** Instances of any scale set, by its id or, in the seeded resource group, by its name. */
  addScaleSetInstances(scaleSet: string, count: number, change?: InstanceChange): readonly Instance[];
  /** The instances of a scale set, in order of creation. */
  instances(scaleSet: string): readonly Instance[];
  hasInstance(nodeName: string): boolean;
  changeInstance(nodeName: string, change: InstanceChange): void;
  /** Lists of resources show what `change` returns; reads of one resource are not affected. Without one, all again. */
  changeLists(change?: (resources: readonly Resource[]) => readonly Resource[]): void;
  /** Reads of one resource show what `change` returns. Without one, all again. */
  changeGets(change?: (resource: Resource) => Resource): void;
  /** Changes limits of the subscription. What exceeds a lower one stays. */
  setLimits(change: Partial<SubscriptionLimits>): void;
  /** Makes operations of the resources whose lower-case id the function accepts last for as long as it does. */
  prolongOperations(lasts: (id: string) => boolean): void;
  /** Lower-case ids of the resources with an operation in progress. */
  operations(): readonly string[];
  /** Makes reads show resources (not scale-set instances) as they were this long ago; 0: current. */
  setReadLag(ms: number): void;
  /** Omits the instance from lists, as paging does when the list changes between two pages. */
  hideFromLists(nodeName: string): void;
}

export function accessTo(state: SubscriptionState, resourceGroup: string): StateAccess {
  const scope = `/subscriptions/${state.subscription}/resourceGroups/${resourceGroup}`;
  const fullId = (id: string): string => (id.startsWith("/subscriptions/") ? id : `${scope}${id}`);
  const scaleSetId = (name: string): string =>
    name.includes("/") ? name : fullId(`/providers/Microsoft.Compute/virtualMachineScaleSets/${name}`);
  const addScaleSetInstances = (scaleSet: string, count: number, change?: InstanceChange): readonly Instance[] =>
    Array.from({ length: count }, () => addInstance(state, scaleSetId(scaleSet), change));
  return {
    // A copy, so that a caller cannot change the state.
    get(id) {
      const resource = state.store.get(fullId(id));
      return resource && structuredClone(shown(state, resource));
    },
    resources: () => state.store.all().map((resource) => shown(state, resource)),
    revision: () => state.revision(),
    put: (id, body) => putResource(state, fullId(id), body),
    delete: (id) => deleteResource(state, fullId(id)),
    addResourceGroup: (name) => state.store.addGroup(state.subscription, name),
    removeResourceGroup: (name) => state.store.removeGroup(state.subscription, name),
    addScaleSet: (seed) => seedScaleSet(state, resourceGroup, seed),
    addScaleSetInstances,
    addInstances: (count) =>
      Promise.resolve(
        addScaleSetInstances("vmss0", count).map(({ computerName, privateIP }) => ({
          nodeName: computerName.toLowerCase(),
          internalIP: privateIP,
        })),
      ),
    instances: (scaleSet) => [...state.instances(scaleSetId(scaleSet))],
    hasInstance: (nodeName) => [...state.allInstances()].some((instances) => instances.named(nodeName) !== undefined),
    changeInstance: (nodeName, change) => state.changeInstance(nodeName, change),
    changeLists(change = (resources) => resources) {
      state.changeList = change;
    },
    changeGets(change = (resource) => resource) {
      state.changeGet = change;
    },
    setLimits: (change) => void (state.limits = { ...state.limits, ...change }),
    prolongOperations: (lasts) => void (state.operations.lasts = lasts),
    operations: () => state.operations.underway,
    setReadLag: (ms) => state.store.setReadLag(ms),
    hideFromLists: (nodeName) => state.changeInstance(nodeName, { hidden: true }),
    removeInstance(nodeName) {
      for (const instances of state.allInstances()) instances.remove(instances.named(nodeName)?.instanceId ?? "");
      return Promise.resolve();
    },
  };
}

const typeAt = (id: string): ResourceType | undefined => {
  const path = parseArmPath(id);
  return resourceType(`${path?.provider ?? ""}/${path?.type ?? ""}`);
};

function shown(state: SubscriptionState, resource: Resource): Resource {
  const type = resourceType(resource.type);
  return type === undefined ? resource : shownResource(state, type, resource);
}

function putResource(state: SubscriptionState, id: string, body: JsonObject): Resource {
  const type = typeAt(id);
  const full = { location: state.location, ...body };
  if (type === undefined) return state.store.put(id, draftOf(full));
  return storeResource(state, type, id, drafted(state, type, id, full, { seeding: true }));
}

/** Deletes as ARM would, without its checks. */
function deleteResource(state: SubscriptionState, id: string): boolean {
  const resource = state.store.get(id);
  if (resource === undefined) return false;
  state.store.delete(id);
  typeAt(id)?.removed?.(resource, state);
  return true;
}

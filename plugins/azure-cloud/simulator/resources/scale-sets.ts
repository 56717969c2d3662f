import { objectAt, stringAt } from "../../json.ts";
import { checkPools } from "./interfaces.ts";
import { poolsOfInterfaces, touchLoadBalancers } from "./ip-configurations.ts";
import type { ResourceType } from "./resource-rules.ts";
import { modelInterfaces } from "./scale-set-views.ts";

export const manyLoadBalancers = "VMScaleSetCannotUseMultipleLoadBalancersOfSameType";

/**
 * A write of the model reaches the instances only if the upgrade policy is automatic; others keep the profile that they
 * were created with, or that was written to them.
 */
export const scaleSets: ResourceType = {
  type: "Microsoft.Compute/virtualMachineScaleSets",
  merges: true,
  prepare(draft, { id, state, seeding }) {
    if (!seeding) checkPools(state, poolsOfInterfaces(modelInterfaces(draft)), id, manyLoadBalancers);
    return draft;
  },
  stored(scaleSet, _previous, state) {
    if (stringAt(objectAt(scaleSet.properties, "upgradePolicy"), "mode") !== "Automatic") return;
    const instances = state.instances(scaleSet.id);
    const after = modelInterfaces(scaleSet);
    for (const { instanceId, networkInterfaceConfigurations: before } of instances) {
      instances.change(instanceId, { networkInterfaceConfigurations: after });
      touchLoadBalancers(state, poolsOfInterfaces(before), poolsOfInterfaces(after));
    }
  },
  removed(scaleSet, state) {
    const pools = [...state.instances(scaleSet.id)].flatMap(({ networkInterfaceConfigurations }) =>
      poolsOfInterfaces(networkInterfaceConfigurations),
    );
    state.instances(scaleSet.id).clear();
    touchLoadBalancers(state, pools, []);
  },
};

/**
 * Canonical controller names and the short names that operators may use for them. One name serves `--controllers`,
 * the log field, the metric label and the event source, so that what is seen in one place is found in the others.
 * Source: kubernetes/cloud-provider `names`; `node-ipam` is the Azure provider's.
 */
export const controllerNames = {
  cloudNode: "cloud-node-controller",
  cloudNodeLifecycle: "cloud-node-lifecycle-controller",
  serviceLB: "service-lb-controller",
  nodeRoute: "node-route-controller",
  nodeIPAM: "node-ipam",
} as const;

/** Every spelling that upstream's flags, its default migration config and its guide use, by canonical name. */
export const controllerAliases: Readonly<Record<string, readonly string[]>> = {
  [controllerNames.cloudNode]: ["cloud-node"],
  [controllerNames.cloudNodeLifecycle]: ["cloud-node-lifecycle"],
  [controllerNames.serviceLB]: ["service", "service-controller"],
  [controllerNames.nodeRoute]: ["route", "route-controller"],
  [controllerNames.nodeIPAM]: ["nodeipam", "node-ipam-controller"],
};

/** Lower-case words joined by hyphens, as upstream's naming test asks, in the length of a label's value. */
export const namePattern = /^(?=.{1,63}$)[a-z][a-z0-9]*(-[a-z0-9]+)*$/;

/** Throws a TypeError unless the name of a plugin is well-formed. */
export const assertName = (name: string): void => {
  if (!namePattern.test(name))
    throw new TypeError(
      `plugin name "${name.slice(0, 64)}" must be lower-case words joined by hyphens, like "cloud-node-controller", at most 63 characters`,
    );
};

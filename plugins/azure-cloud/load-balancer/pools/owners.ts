import { parseArmPath, siblingId } from "../../arm/resource-id.ts";

/** An instance of a uniform scale set, or a network interface that is a resource itself. */
export type ConfigurationOwner =
  | { readonly kind: "instance"; readonly id: string; readonly scaleSetId: string }
  | { readonly kind: "interface"; readonly id: string };

/** The owner of an IP configuration, by the configuration's id; undefined for an id of another kind. */
export function ownerOf(ipConfigurationId: string): ConfigurationOwner | undefined {
  const path = parseArmPath(ipConfigurationId);
  if (path === undefined) return undefined;
  const type = path.type.toLowerCase();
  const [first = "", second = ""] = path.names;
  if (type.startsWith("virtualmachinescalesets/virtualmachines/networkinterfaces")) {
    const scaleSetId = siblingId(path, "Microsoft.Compute/virtualMachineScaleSets", first);
    return { kind: "instance", id: `${scaleSetId}/virtualMachines/${second}`, scaleSetId };
  }
  if (type.startsWith("networkinterfaces"))
    return { kind: "interface", id: siblingId(path, "Microsoft.Network/networkInterfaces", first) };
  return undefined;
}

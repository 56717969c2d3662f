/** An ARM path taken apart. Names keep their case; comparisons of ids are case-insensitive everywhere in ARM. */
export interface ArmPath {
  readonly subscription: string;
  /** Undefined for what lives in the subscription itself. */
  readonly resourceGroup: string | undefined;
  /** `Microsoft.Compute`; undefined for the subscription or the resource group itself. */
  readonly provider: string | undefined;
  /** Resource type without its provider, `virtualMachineScaleSets/virtualMachines`; empty for a bare provider. */
  readonly type: string;
  /** One name a type segment; one fewer when the path is a collection. */
  readonly names: readonly string[];
  /** The path names a list of resources, not one. */
  readonly collection: boolean;
}

/** Reads an ARM path or resource id (leading and trailing slashes are free); undefined when it is not one. */
export function parseArmPath(path: string): ArmPath | undefined {
  const [root, subscription, ...rest] = path.split("/").filter((segment) => segment !== "");
  if (root?.toLowerCase() !== "subscriptions" || subscription === undefined) return undefined;
  const inGroup = rest[0]?.toLowerCase() === "resourcegroups";
  if (inGroup && rest.length === 1) return undefined;
  const resourceGroup = inGroup ? rest[1] : undefined;
  const [marker, provider, ...segments] = inGroup ? rest.slice(2) : rest;
  if (marker !== undefined && (marker.toLowerCase() !== "providers" || provider === undefined)) return undefined;
  return {
    subscription,
    resourceGroup,
    provider,
    type: segments.filter((_, index) => index % 2 === 0).join("/"),
    names: segments.filter((_, index) => index % 2 === 1),
    collection: segments.length % 2 === 1,
  };
}

/** The last name of an id: a resource's own name. */
export const lastSegment = (id: string): string => id.slice(id.lastIndexOf("/") + 1);

/** ARM compares names and ids without regard to case. */
export const sameName = (left: string, right: string): boolean =>
  left === right || (left.length === right.length && startsWithName(left, right));

/**
 * Whether the text begins with the name in any case. Compared from the end of the name, where names differ: ids of one
 * load balancer share a hundred characters, and a plan compares hundreds of thousands of them.
 */
export function startsWithName(text: string, name: string): boolean {
  if (text.length < name.length) return false;
  for (let index = name.length - 1; index >= 0; index -= 1) {
    const left = text.charCodeAt(index);
    const right = name.charCodeAt(index);
    if (left === right) continue;
    if (left > 127 || right > 127) return text.slice(0, name.length).toLowerCase() === name.toLowerCase();
    if (lowerCase(left) !== lowerCase(right)) return false;
  }
  return true;
}

const lowerCase = (code: number): number => (code >= 65 && code <= 90 ? code + 32 : code);

import { lookalikes } from "../resource-names.ts";

/** A parsed ARM path. Names keep their case; ARM compares ids case-insensitively. */
export interface ArmPath {
  readonly subscription: string;
  /** Undefined for a resource of the subscription itself. */
  readonly resourceGroup: string | undefined;
  /** `Microsoft.Compute`; undefined for the subscription or the resource group itself. */
  readonly provider: string | undefined;
  /** Resource type without its provider, `virtualMachineScaleSets/virtualMachines`; empty for a bare provider. */
  readonly type: string;
  /** One name per segment of the type; one fewer for a collection. */
  readonly names: readonly string[];
  /** The path is that of a collection. */
  readonly collection: boolean;
}

/** Parses an ARM path or resource id, with or without leading and trailing slashes; undefined if it is neither. */
export function parseArmPath(path: string): ArmPath | undefined {
  if (lookalikes.test(path)) return undefined;
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

/** The path of a URL as ids spell it: names are percent-encoded in URLs alone, where a resource group may have any letter. */
export function pathIn({ pathname }: URL): string {
  try {
    return decodeURI(pathname);
  } catch {
    return pathname;
  }
}

/** Id of a resource in the subscription and resource group of that path. */
export const siblingId = ({ subscription, resourceGroup = "" }: ArmPath, type: string, name: string): string =>
  `/subscriptions/${subscription}/resourceGroups/${resourceGroup}/providers/${type}/${name}`;

/** The resource group in an id, lower case; empty where there is none. */
export const groupOf = (id: string | undefined): string =>
  /\/resourceGroups\/([^/]+)/iu.exec(id ?? "")?.[1]?.toLowerCase() ?? "";

/**
 * The first id of a resource of these nested types in a text, such as the message of an error. A name may have dots, as that
 * of a cluster named after a domain, and does not end with one, as a sentence does.
 */
export function idIn(text: string, ...types: readonly string[]): string | undefined {
  const names = types.map((type) => `/${type}/[a-z0-9](?:[\\w.-]*\\w)?`).join("");
  return new RegExp(`/subscriptions/[^\\s'"]+${names}`, "iu").exec(text)?.[0];
}

/** The resource's own name, which is the last one of its id. */
export const lastSegment = (id: string): string => id.slice(id.lastIndexOf("/") + 1);

/** True if two names or ids are equal for ARM, which ignores their case. */
export const sameName = (left: string, right: string): boolean =>
  left === right || (left.length === right.length && startsWithName(left, right));

/**
 * True if the text begins with the name in any case. Compared from the end of the name, where names differ: ids of one
 * load balancer have a hundred characters in common, and a plan compares hundreds of thousands of them.
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

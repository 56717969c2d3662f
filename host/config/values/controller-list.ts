import type { ControllerPlugin } from "cloud-controller-host/sdk";

/** The names that an operator may use for a controller. */
export type ControllerName = Pick<ControllerPlugin, "name" | "aliases">;

/** An item of `--controllers`: the sign before it, and the name. */
export const partsOf = (item: string): readonly [sign: string, name: string] =>
  item.startsWith("-") ? ["-", item.slice(1)] : ["", item];

/** Replaces aliases in a `--controllers` list by canonical names; keeps the order, the `-` and unknown names. */
export function resolveControllers(list: readonly string[], known: readonly ControllerName[]): readonly string[] {
  const canonical = new Map(known.flatMap(({ name, aliases }) => aliases.map((alias) => [alias, name] as const)));
  return list.map((item) => {
    const [sign, name] = partsOf(item);
    return sign + (canonical.get(name) ?? name);
  });
}

/**
 * True if a `--controllers` list, aliases already resolved, enables the controller. The first item that names it
 * decides; without one, `*` enables what is on by default. upstream: `IsControllerEnabled`.
 */
export function isControllerEnabled(name: string, enabledByDefault: boolean, list: readonly string[]): boolean {
  const verdict = list.find((item) => item === name || item === `-${name}`);
  return verdict === undefined ? enabledByDefault && list.includes("*") : verdict === name;
}

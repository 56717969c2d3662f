import type { ControllerPlugin } from "cloud-controller-host/sdk";

/** The names by which operators may speak of a controller. */
export type ControllerName = Pick<ControllerPlugin, "name" | "aliases">;

/** An item of `--controllers`: the name, and whether a `-` stands before it. */
const partsOf = (item: string): readonly [sign: string, name: string] =>
  item.startsWith("-") ? ["-", item.slice(1)] : ["", item];

/** A `--controllers` list with canonical names in place of short ones; order and `-` are kept, unknown names too. */
export function resolveControllers(list: readonly string[], known: readonly ControllerName[]): readonly string[] {
  const canonical = new Map(known.flatMap(({ name, aliases }) => aliases.map((alias) => [alias, name] as const)));
  return list.map((item) => {
    const [sign, name] = partsOf(item);
    return sign + (canonical.get(name) ?? name);
  });
}

/** What is wrong with a `--controllers` list: names that no controller on offer has. */
export function controllerListProblems(list: readonly string[], known: readonly ControllerName[]): readonly string[] {
  const names = new Set(known.flatMap(({ name, aliases }) => [name, ...aliases]));
  const all = known.map(({ name }) => name).join(", ");
  return list
    .filter((item) => item !== "*")
    .map((item) => partsOf(item)[1])
    .filter((name) => !names.has(name))
    .map((name) => `--controllers: "${name}" is not in the list of known controllers; known are ${all}`);
}

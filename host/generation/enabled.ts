/**
 * upstream: `IsControllerEnabled`. Whether a `--controllers` list, its aliases already replaced, enables a controller.
 * The first item that names it decides (`name` on, `-name` off); without one, `*` enables what is on by default.
 */
export function isControllerEnabled(name: string, enabledByDefault: boolean, list: readonly string[]): boolean {
  const verdict = list.find((item) => item === name || item === `-${name}`);
  return verdict === undefined ? enabledByDefault && list.includes("*") : verdict === name;
}

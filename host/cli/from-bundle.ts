import { readBundle } from "../bundle/bundle.ts";
import { importForDevelopment } from "../config/help/commands.ts";
import type { HostInput } from "../run/process-parts.ts";
import { type Adjust, type Ended, readCommand, type Surroundings } from "./command.ts";

/**
 * The input of a host: from its flags or, with a path, for the cluster and the cloud of that bundle, which run in this
 * process until `ending` is disposed of.
 */
export async function readInput(
  path: string | undefined,
  flags: readonly string[],
  surroundings: Surroundings,
  ending: AsyncDisposableStack,
  adjust?: Adjust,
): Promise<HostInput | Ended> {
  if (path === undefined) return readCommand(flags, surroundings, adjust);
  const bundle = await readBundle(path);
  const { openReplay } = await importForDevelopment("--from", () => import("../sandbox/replay.ts"));
  const replay = ending.use(await openReplay(bundle));
  const input = await readCommand([...flags, ...replay.flags], surroundings, adjust);
  if ("status" in input) return input;
  await replay.start(input.plugins.clouds.find(({ name }) => name === bundle.cloudProvider));
  // The file did not exist when the flags were read.
  const { firstReading: _none, ...rest } = input;
  return rest;
}

import { type Cloud, CodedError, messageOf, type UnrequestedRemovals } from "cloud-controller-host/sdk";

import { bounded } from "../../async/bounded.ts";
import { within } from "../../async/timeout.ts";
import type { ProcessScope } from "../scope/scope.ts";
import type { GenerationSpec } from "../slot/generation.ts";
import { changedKeys, type CloudConfig } from "../triggers/cloud-config.ts";
import { limits } from "./plugin-parts.ts";

/** A reload would remove what no object of the cluster asks to remove. It can be confirmed. */
export class UnrequestedRemovalsError extends CodedError {
  readonly hash: string;

  constructor(hash: string, message: string) {
    super("RemovalHeld", message);
    this.hash = hash;
  }
}

/** Removals that are named in the reason of a refusal. */
const maxNamed = 10;

/** For one read of the confirmations. */
const readLimitMs = 10_000;

/** True once a person has confirmed these removals; false also while that cannot be read. */
export async function isConfirmed({ confirmations, clock, log }: ProcessScope, hash: string): Promise<boolean> {
  if (confirmations === undefined) return false;
  try {
    const answer = await within(clock, readLimitMs, confirmations.isConfirmed(hash));
    return answer.done && answer.value;
  } catch (error) {
    log.warn("Failed to read confirmations of removals; treating them as unconfirmed", { error });
    return false;
  }
}

/** True if both configs place resources in the same way, by the cloud's own table of keys. */
function samePlacement(scope: ProcessScope, { plugins, config }: GenerationSpec, former: CloudConfig): boolean {
  const plugin = plugins.clouds.find(({ name }) => name === scope.settings.cloudProvider);
  const placementOf = ({ document }: CloudConfig): string | undefined =>
    plugin?.placementOf?.(document, scope.environment);
  return placementOf(former) === placementOf(config);
}

/**
 * Throws if the config of a reload places resources elsewhere, so that the generation would remove what no Service asks
 * to remove, or if the cloud cannot tell within the limit of an init. A reload that changes no such key costs nothing.
 */
export async function checkRemovals(
  scope: ProcessScope,
  cloud: Cloud,
  {
    spec,
    former,
    signal,
  }: { readonly spec: GenerationSpec; readonly former: CloudConfig; readonly signal: AbortSignal },
): Promise<void> {
  if (cloud.unrequestedRemovals === undefined || samePlacement(scope, spec, former)) return;
  const name = `cloud "${scope.settings.cloudProvider}": check of removals`;
  // Also where the cloud does not look at confirmations: it would be asked, and refused, every few seconds.
  const ask = async (): Promise<UnrequestedRemovals | undefined> => {
    const removals = await cloud.unrequestedRemovals?.({ signal });
    return removals === undefined || (await isConfirmed(scope, removals.hash)) ? undefined : removals;
  };
  const found = await bounded(limits(scope, "create", name, signal), ask).catch((error: unknown) => {
    signal.throwIfAborted();
    const message = `the config places resources elsewhere, and what that would remove cannot be read: ${messageOf(error)}`;
    throw new CodedError("CloudFailed", message, { cause: error });
  });
  if (found === undefined) return;
  const { hash, removals } = found;
  const command = scope.confirmations?.command(hash);
  const how =
    command === undefined
      ? "restart the process with the new config if this is intended"
      : `if this is intended, confirm exactly this: ${command}`;
  const more = removals.length > maxNamed ? [`and ${removals.length - maxNamed} more`] : [];
  const list = [...removals.slice(0, maxNamed), ...more].join(", ");
  throw new UnrequestedRemovalsError(
    hash,
    `the config places resources elsewhere (changed keys: ${changedKeys(former, spec.config).join(", ")}), ` +
      `and would remove what no Service asks to remove; ${how}; removals: ${list}`,
  );
}

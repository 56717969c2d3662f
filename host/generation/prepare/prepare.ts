import { type Cloud, CodedError, type ControllerPlugin, messageOf } from "cloud-controller-host/sdk";

import { bounded } from "../../async/bounded.ts";
import type { RunReport } from "../report/run-report.ts";
import { GenerationCaches } from "../scope/caches.ts";
import { Fences } from "../scope/fences.ts";
import type { ProcessScope } from "../scope/scope.ts";
import { disposeWithin, Generation, type GenerationSpec } from "../slot/generation.ts";
import { changedKeys, type CloudConfig } from "../triggers/cloud-config.ts";
import { bind } from "./bind.ts";
import { checkRemovals } from "./check-removals.ts";
import { GenerationContexts } from "./contexts.ts";
import { ControllerSet } from "./controller-set.ts";
import { decorateCloud } from "./decorate-cloud.ts";
import { limits, PluginParts } from "./plugin-parts.ts";

export interface Preparation {
  readonly scope: ProcessScope;
  readonly report: RunReport;
  readonly number: number;
  readonly spec: GenerationSpec;
  /** The config that a reload replaces; undefined at a start, and where an earlier config runs again. */
  readonly former?: CloudConfig | undefined;
  /** Ends the preparation; everything made so far is undone. */
  readonly signal: AbortSignal;
  /** True if this controller is left out when it cannot be created; the failure of any other refuses the generation. */
  readonly mayLeaveOut: (controller: ControllerPlugin) => boolean;
  /** True if this controller is restarted when its run fails; the failure of any other ends the generation. */
  readonly mayRetry: (controller: ControllerPlugin) => boolean;
}

/**
 * Makes a generation that is ready to run and has written nothing: plugins bound, cloud created, controllers
 * initialized, informers synced. Whatever fails, all that was made for it is undone before this rejects.
 */
export async function prepare(preparation: Preparation): Promise<Generation> {
  const { scope, report, number, spec, signal } = preparation;
  signal.throwIfAborted();
  const failed = new AsyncDisposableStack();
  await using undo = new AsyncDisposableStack();
  const aborter = new AbortController();
  undo.defer(async () => {
    // Its resources were moved into the generation.
    if (failed.disposed) return;
    aborter.abort();
    await disposeWithin(scope, number, failed);
  });
  failed.defer(spec.plugins.retain());
  const bound = bind(scope, spec);
  const abort = (): void => aborter.abort(signal.reason);
  signal.addEventListener("abort", abort, { once: true });
  undo.defer(() => signal.removeEventListener("abort", abort));
  const fences = new Fences(scope.locks);
  failed.defer(() => fences.close());
  const metrics = scope.metrics.generation();
  failed.defer(() => metrics.end());
  const contexts = new GenerationContexts(scope, number, metrics);

  const { former } = preparation;
  const changed = former === undefined ? [] : changedKeys(former, spec.config);
  const { cloudProvider } = scope.settings;
  const ofCloud = new PluginParts(scope, aborter.signal, failed);
  const cloudParts = ofCloud.open(fences.cloud);
  const create = (): Promise<Cloud> => bound.cloud(contexts.cloud(cloudProvider, changed, cloudParts.resources));
  const cloudDisposal = failed.use(new AsyncDisposableStack());
  const cloud = cloudDisposal.use(await createCloud(scope, aborter.signal, create));
  const parts = new PluginParts(scope, aborter.signal, failed);
  const set = new ControllerSet({
    ...preparation,
    parts,
    fences,
    signal: aborter.signal,
    cloudFor: (fence) => decorateCloud(cloud, fence, metrics),
    contextFor: (plugin, resources) => contexts.controller(plugin, resources),
  });
  for (const each of bound.controllers) await set.add(each);
  await Promise.all([ofCloud.synced(`cloud "${cloudProvider}"`, cloudParts), set.synced()]);
  if (former !== undefined) await checkRemovals(scope, cloud, { spec, former, signal: aborter.signal });
  signal.throwIfAborted();
  if (former !== undefined) scope.configChanged?.(number, changed);
  const { controllers, skipped, leftOut } = set;
  const caches = new GenerationCaches(scope, () => [...ofCloud.shares(), ...parts.shares()]);
  const made = { cloud, cloudDisposal, controllers, skipped, leftOut, fences, caches, metrics, aborter };
  return new Generation({ scope, report, number, spec, ...made, resources: failed.move() });
}

async function createCloud(scope: ProcessScope, signal: AbortSignal, create: () => Promise<Cloud>): Promise<Cloud> {
  const name = scope.settings.cloudProvider;
  const late = (cloud: Cloud): Promise<void> => Promise.resolve(cloud[Symbol.asyncDispose]());
  try {
    return await bounded({ ...limits(scope, "create", `cloud "${name}": create`, signal), late }, create);
  } catch (error) {
    signal.throwIfAborted();
    throw new CodedError("CloudFailed", `cloud "${name}" cannot be created: ${messageOf(error)}`, { cause: error });
  }
}

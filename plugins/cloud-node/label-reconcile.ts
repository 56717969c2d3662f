import { isNotFound, keyOf, type Node } from "cloud-controller-host/sdk";

import { labelPairs } from "./modifiers.ts";
import type { NodeWrites } from "./node-writes.ts";

/** Stable labels that must be set so that each says what its beta counterpart says. The beta label is the truth. */
function labelsToReconcile(node: Node): Readonly<Record<string, string>> {
  const current = node.metadata?.labels ?? {};
  return Object.fromEntries(
    labelPairs.flatMap(({ beta, stable }) => {
      const value = current[beta];
      return value === undefined || current[stable] === value ? [] : [[stable, value] as const];
    }),
  );
}

/** Writes what differs, in one patch; where the cache or the API server says that nothing does, writes nothing. */
export async function reconcileLabels(
  { writes, signal }: { readonly writes: NodeWrites; readonly signal: AbortSignal },
  cached: Node,
): Promise<void> {
  if (Object.keys(labelsToReconcile(cached)).length === 0) return;
  const name = keyOf(cached);
  try {
    const changed = labelsToReconcile(await writes.read(name, "cached", signal));
    if (Object.keys(changed).length > 0) await writes.labels(name, changed);
  } catch (error) {
    if (!isNotFound(error)) throw error;
  }
}

import { isNotFound, isReplaced, keyOf, kinds, type KubeClient, labels, type Node } from "cloud-controller-host/sdk";

/** The labels of one fact about an instance: the beta name, which is the source of truth, and the stable name. */
export const labelPairs = [
  { fact: "instanceType", beta: labels.instanceTypeBeta, stable: labels.instanceType },
  { fact: "zone", beta: labels.zoneBeta, stable: labels.zone },
  { fact: "region", beta: labels.regionBeta, stable: labels.region },
] as const;

/** Stable labels that differ from their beta counterpart, with the value that they must have. */
function labelsToReconcile(node: Node): Readonly<Record<string, string>> {
  const current = node.metadata?.labels ?? {};
  return Object.fromEntries(
    labelPairs.flatMap(({ beta, stable }) => {
      const value = current[beta];
      return value === undefined || current[stable] === value ? [] : [[stable, value] as const];
    }),
  );
}

/**
 * Copies the beta labels to the stable ones in one patch; sends nothing when the API server's node agrees already. A node
 * that was recreated since refuses those of the former one, which may have been in another zone.
 */
export async function reconcileLabels(
  { client, signal }: { readonly client: Pick<KubeClient, "get" | "patch">; readonly signal: AbortSignal },
  cached: Node,
): Promise<void> {
  if (Object.keys(labelsToReconcile(cached)).length === 0) return;
  const name = { name: keyOf(cached) };
  try {
    // The watch cache of another API server may lack the change that the watch has shown, and nothing shows it again.
    const read = await client.get(kinds.Node, name, { signal });
    const changed = labelsToReconcile(read);
    if (Object.keys(changed).length === 0) return;
    const body = { metadata: { uid: read.metadata?.uid, labels: changed } };
    await client.patch(kinds.Node, name, "strategic", body, { response: "metadata" });
  } catch (error) {
    if (!isNotFound(error) && !isReplaced(error)) throw error;
  }
}

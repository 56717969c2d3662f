import { annotationOf, type Confirmations, type EventSubject, kinds, type KubeClient } from "cloud-controller-host/sdk";

/** Annotation of the Lease with the hashes of confirmed removals, separated by commas. */
const confirmationAnnotation = "cloud-controller-host/confirmed-removals";

/** Reads the confirmations of removals from the Lease of the leader election. */
export function leaseConfirmations(client: Pick<KubeClient, "get">, { metadata }: EventSubject): Confirmations {
  const { name = "", namespace = "" } = metadata ?? {};
  return {
    async isConfirmed(hash) {
      const lease = await client.get(kinds.Lease, { namespace, name });
      const hashes = annotationOf(lease, confirmationAnnotation)?.split(",") ?? [];
      return hashes.some((one) => one.trim() === hash);
    },
    command: (hash) =>
      `kubectl annotate lease --namespace=${namespace} ${name} --overwrite ${confirmationAnnotation}=${hash}`,
  };
}

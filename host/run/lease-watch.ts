import { kinds, type Lease } from "cloud-controller-host/sdk";

import type { Elector } from "../process/leader-election/elector.ts";
import type { ProcessParts } from "./process-parts.ts";

/** Deletion concerns only the leader, which creates the Lease again; a standby waits for the last record to expire. */
export function watchLease(
  { namespace, name }: { readonly namespace: string; readonly name: string },
  { informers }: { readonly informers: Pick<ProcessParts["informers"], "share"> },
  elector: Elector,
  released: () => void,
): Disposable {
  const show = (seen: Lease): void => {
    // The write that takes the lease is sent first.
    if (elector.nudge(seen)) setImmediate(released);
  };
  const share = informers.share();
  const lease = share.of(kinds.Lease, { namespace, fieldSelector: `metadata.name=${name}` });
  lease.handle({
    // The first list may show that it has been released meanwhile.
    added: show,
    updated: (_, seen) => show(seen),
    deleted: () => {
      if (elector.safelyHeld()) elector.nudge();
    },
  });
  return { [Symbol.dispose]: () => share.release() };
}

import type { History } from "../history.ts";
import { elsewhereHistories } from "./elsewhere.ts";
import { hostHistories } from "./hosts.ts";
import { loadBalancerHistories } from "./load-balancers.ts";
import { nodeHistories } from "./nodes.ts";
import { podHistories } from "./pods.ts";
import { readHistories } from "./reads.ts";
import { secondHistories } from "./second.ts";
import { serviceHistories } from "./services.ts";
import { sharedAddressHistories } from "./shared-addresses.ts";
import { virtualMachineHistories } from "./virtual-machines.ts";

/** Histories that show defects, by what happens in them: they are clean without one. */
export const keptHistories: Readonly<Record<string, History>> = {
  ...serviceHistories,
  ...nodeHistories,
  ...readHistories,
  ...loadBalancerHistories,
  ...hostHistories,
  ...sharedAddressHistories,
  ...virtualMachineHistories,
  ...elsewhereHistories,
  ...secondHistories,
  ...podHistories,
};

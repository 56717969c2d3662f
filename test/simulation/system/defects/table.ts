import type { Defects } from "./defect.ts";
import { generationDefects } from "./generations.ts";
import { leadershipDefects } from "./leadership.ts";
import { loadBalancerDefects } from "./load-balancers.ts";
import { nodeDefects } from "./nodes.ts";
import { planDefects } from "./plans.ts";
import { readDefects } from "./reads.ts";
import { secondDefects } from "./second.ts";
import { serviceDefects } from "./services.ts";
import { sharedAddressDefects } from "./shared-addresses.ts";
import { virtualMachineDefects } from "./virtual-machines.ts";

/** Defects that the product had once or might have. */
export const defects: Defects = {
  ...leadershipDefects,
  ...generationDefects,
  ...readDefects,
  ...serviceDefects,
  ...loadBalancerDefects,
  ...planDefects,
  ...nodeDefects,
  ...sharedAddressDefects,
  ...virtualMachineDefects,
  ...secondDefects,
};

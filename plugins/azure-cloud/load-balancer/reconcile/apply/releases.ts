import type { LoadBalancer } from "@azure/arm-network";

import type { Resources } from "../../../arm/writes/resources.ts";
import { isConflicting, OutdatedError } from "../../../arm/writes/write-errors.ts";
import type { Observed } from "../../model/model.ts";
import type { PlannerConfig } from "../../model/planner-config.ts";
import type { MembersWrite } from "../../pools/member-jobs.ts";
import { isShared } from "../../service/identity.ts";
import { loadBalancerOf } from "../held-resources.ts";
import { hasSameChildren, inList } from "./preconditions.ts";

interface ReleaseOptions {
  readonly network: { readonly loadBalancers: Pick<Resources<LoadBalancer>, "read"> };
  readonly config: PlannerConfig;
}

interface Refusal {
  readonly kind: "conflict" | "failed";
  readonly write: MembersWrite;
  readonly error: unknown;
}

/**
 * Releases of pools that must not be carried out, each with the reason. Members leave before their load balancer is
 * deleted, which rests on a read made for it. Where deployments share load balancers, the release rests on one as well:
 * Services of another deployment may use the pools by now.
 */
export async function refusedReleases(
  writes: readonly MembersWrite[],
  observed: Observed,
  { network, config }: ReleaseOptions,
): Promise<ReadonlyMap<MembersWrite, Refusal>> {
  const refused = new Map<MembersWrite, Refusal>();
  if (!isShared({ config, observed })) return refused;
  const check = async (write: MembersWrite): Promise<void> => {
    const id = loadBalancerOf(write.id);
    try {
      const current = await network.loadBalancers.read(id);
      if (current !== undefined && !hasSameChildren(current, inList(observed.loadBalancers, id)))
        throw new OutdatedError(`${id} has changed since it was read`);
    } catch (error) {
      refused.set(write, { kind: isConflicting(error) ? "conflict" : "failed", write, error });
    }
  };
  await Promise.all(writes.filter(({ kind }) => kind === "release-pools").map(check));
  return refused;
}

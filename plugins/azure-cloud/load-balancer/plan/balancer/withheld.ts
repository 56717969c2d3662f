import { sameId } from "../../model/ids.ts";
import type { ResourceDraft } from "../draft/draft.ts";
import { type Balancer, rulesOn, withoutFrontends, withoutProbes, withoutRules } from "../draft/edits.ts";

type BalancerDraft = ResourceDraft<Balancer>;

/**
 * ARM rejects a load balancer that has pools and no frontend: where it may not be deleted with its last frontend, that
 * one stays. upstream: `cleanOrphanedLoadBalancer` with preconfigured backend pools.
 */
export const isWithheld = ({ observed, current }: BalancerDraft): boolean =>
  (observed?.frontendIPConfigurations ?? []).length > 0 &&
  (current?.frontendIPConfigurations ?? []).length === 0 &&
  (current?.backendAddressPools ?? []).length > 0;

const baseOf = ({ name = "" }: { readonly name?: string }): string => name.split("-")[0]?.toLowerCase() ?? "";

/**
 * The load balancer with what it still has of its last Service only, as if its Services had gone one by one; without
 * `keepsRules`, only the frontends of these.
 */
export function remainder({ observed }: BalancerDraft, keepsRules: boolean): Balancer | undefined {
  const last = observed?.frontendIPConfigurations?.at(-1);
  if (observed === undefined || last === undefined) return observed;
  const isOther = (child: { readonly name?: string }): boolean => baseOf(child) !== baseOf(last);
  const kept = withoutFrontends(observed, isOther);
  const used = (kept.frontendIPConfigurations ?? []).flatMap(({ id = "" }) => rulesOn(kept, id));
  const owner = used.at(-1);
  const rules = used.filter((rule) => keepsRules && owner !== undefined && baseOf(rule) === baseOf(owner));
  const isProbed = (id: string | undefined): boolean => rules.some(({ probe }) => sameId(probe?.id, id));
  return withoutProbes(
    withoutRules(
      kept,
      (kept.loadBalancingRules ?? []).filter((rule) => !rules.includes(rule)),
    ),
    (kept.probes ?? []).filter(({ id }) => !isProbed(id)),
  );
}

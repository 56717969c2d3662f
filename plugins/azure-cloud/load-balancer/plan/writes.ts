import type { PrivateLinkService, Subnet } from "@azure/arm-network";

import { groupOf } from "../../arm/resource-id.ts";
import { childId, lowerId, sameId } from "../model/ids.ts";
import { isClusterPool, isInternalName } from "../model/names.ts";
import { type Stage, stages, type Write } from "../model/plan-model.ts";
import { isOfAnotherShard } from "../model/planner-config.ts";
import { isAwaited } from "./balancer/balancers.ts";
import type { PoolPlan } from "./balancer/members.ts";
import type { Draft, ResourceDraft } from "./draft/draft.ts";
import {
  type Balancer,
  baseOf,
  isAbandoned,
  rulesOn,
  withoutFrontends,
  withoutProbes,
  withoutRules,
} from "./draft/edits.ts";
import { reducedSubnet } from "./draft/frontends.ts";
import { isOfCluster } from "./public-ip/plan.ts";
import type { SecurityGroupDraft } from "./security-group/plan.ts";

/** Resources that are planned after the load balancers. */
export interface PlannedResources {
  readonly pools: readonly PoolPlan[];
  readonly securityGroup: SecurityGroupDraft | undefined;
  readonly links: readonly ResourceDraft<Readonly<PrivateLinkService>>[];
  readonly subnets: readonly ResourceDraft<Readonly<Subnet>>[];
}

type StageName = (typeof stages)[number];

/** Every write of the plan, in stages; stages without writes are left out. */
export function stagesOf(draft: Draft, resources: PlannedResources): readonly Stage[] {
  const abandoned = new Set([...draft.balancers.values()].filter((one) => isToBeDeleted(draft, one)));
  const writes: Readonly<Record<StageName, readonly Write[]>> = {
    "private-link-deletions": linkDeletions(draft),
    "public-ips": publicIPPuts(draft),
    "load-balancers": balancerPuts(draft, abandoned),
    members: [...memberWrites(resources.pools, abandoned), ...releases(draft, abandoned)],
    "security-group": securityGroupPut(resources.securityGroup),
    subnets: subnetPuts(draft, resources.subnets),
    "private-link-services": linkPuts(resources.links),
    "load-balancer-deletions": balancerDeletions(draft, abandoned),
    "public-ip-deletions": publicIPDeletions(draft, abandoned),
  };
  return stages.flatMap((name) => (writes[name].length === 0 ? [] : [{ name, writes: writes[name] }]));
}

const targetOf = <T>({ id, resourceGroup, name, services }: ResourceDraft<T>) => ({
  id,
  resourceGroup,
  name,
  services: [...services].toSorted(),
});

/** The target of a PUT of `current`, undefined where it is as ARM shows it and the last operation succeeded. */
function putOf<T>(one: ResourceDraft<T>, current: T | undefined) {
  if (current === undefined || (current === one.observed && !one.repeats)) return undefined;
  const target = { ...targetOf(one), body: current };
  return current === one.observed ? { ...target, repeats: true as const } : target;
}

function linkDeletions({ linkDeletions: deletions }: Draft): readonly Write[] {
  return [...deletions].map(([{ id = "", name = "", privateEndpointConnections = [] }, services]) => ({
    kind: "delete-private-link-service",
    id,
    name,
    resourceGroup: groupOf(id),
    services: [...services].toSorted(),
    endpointConnections: privateEndpointConnections.flatMap((one) => one.name ?? []),
  }));
}

function publicIPPuts({ publicIPs }: Draft): readonly Write[] {
  return [...publicIPs.values()].flatMap((one) => {
    const put = putOf(one, one.current);
    return put === undefined ? [] : [{ kind: "put-public-ip" as const, ...put }];
  });
}

/**
 * A load balancer is deleted with its last frontend, unless it contains anything that is not ours, another writer fills
 * its pools, or a Service waits for its frontend there. ARM allows no load balancer with pools and without a frontend: a
 * Service waits for a new one then.
 */
function isToBeDeleted(draft: Draft, one: ResourceDraft<Balancer>): boolean {
  const { internal, external } = draft.config.preConfiguredPools;
  if (draft.config.keepsEmpty && !draft.retired.has(one)) return false;
  if (one.observed === undefined || one.current === undefined || one.services.size === 0) return false;
  if (isInternalName(one.name) ? internal : external) return false;
  return (
    isAbandoned(one.current, (name) => isClusterPool(name, draft.config.clusterName)) &&
    (isWithheld(one) || !isAwaited(draft, one))
  );
}

type Abandoned = ReadonlySet<ResourceDraft<Balancer>>;

function balancerPuts({ balancers, config }: Draft, abandoned: Abandoned): readonly Write[] {
  return [...balancers.values()].flatMap((one) => {
    const put = one.services.size === 0 || abandoned.has(one) ? undefined : putOf(one, afterwards(one, config));
    return put === undefined
      ? []
      : [{ kind: "put-load-balancer" as const, ...put, body: withReducedSubnets(put.body) }];
  });
}

const afterwards = (one: ResourceDraft<Balancer>, { keepsEmpty }: Draft["config"]): Balancer | undefined =>
  isWithheld(one) ? remainder(one, !keepsEmpty) : one.current;

function withReducedSubnets(balancer: Balancer): Balancer {
  const frontends = balancer.frontendIPConfigurations ?? [];
  return {
    ...balancer,
    frontendIPConfigurations: frontends.map((frontend) =>
      frontend.subnet === undefined ? frontend : { ...frontend, subnet: reducedSubnet(frontend.subnet) },
    ),
  };
}

function memberWrites(pools: readonly PoolPlan[], abandoned: Abandoned): readonly Write[] {
  return pools.flatMap(({ pool, changes, release }): readonly Write[] => {
    const { balancer, name, family, services } = pool;
    const id = childId(balancer.id, "backendAddressPools", name);
    const { resourceGroup } = balancer;
    const target = { id, name, resourceGroup, services: [...services].toSorted() };
    if (abandoned.has(balancer)) return [];
    if (release) return [{ kind: "release-pools", ...target, poolIds: [id] }];
    if (changes === undefined || (changes.join.length === 0 && changes.leave.length === 0)) return [];
    return [{ kind: "update-members", ...target, loadBalancer: balancer.name, family, ...changes }];
  });
}

function releases({ config, observed }: Draft, abandoned: Abandoned): readonly Write[] {
  return [...abandoned].flatMap((one): readonly Write[] => {
    const pools = one.observed?.backendAddressPools ?? [];
    const poolIds = pools.map(({ name = "" }) => childId(one.id, "backendAddressPools", name));
    const hasMembers = poolIds.some((id) => (observed.poolMembers.get(id.toLowerCase())?.length ?? 0) > 0);
    const isNeeded = config.pools === "interfaces" || hasMembers;
    return poolIds.length > 0 && isNeeded ? [{ kind: "release-pools", ...targetOf(one), poolIds }] : [];
  });
}

/** Another shard may be adding a Service to its load balancer: that is emptied by a PUT, which its etag guards. */
const balancerDeletions = ({ config }: Draft, abandoned: Abandoned): readonly Write[] =>
  [...abandoned].map((one) => {
    const target = targetOf(one);
    if (one.current === undefined || !isOfAnotherShard(one.name, config))
      return { kind: "delete-load-balancer", ...target };
    const { backendAddressPools: _pools, ...emptied } = one.current;
    return { kind: "put-load-balancer", ...target, body: emptied };
  });

function securityGroupPut(one: PlannedResources["securityGroup"]): readonly Write[] {
  const put = one && putOf(one, one.current);
  if (put === undefined) return [];
  const closing = one?.closing ?? [];
  return [{ kind: "put-security-group", ...put, ...(closing.length > 0 && { closing }) }];
}

const subnetPuts = ({ config }: Draft, subnets: PlannedResources["subnets"]): readonly Write[] =>
  subnets.flatMap((one) =>
    one.current === undefined
      ? []
      : [
          {
            kind: "put-subnet" as const,
            ...targetOf(one),
            virtualNetwork: config.virtualNetwork.name,
            body: one.current,
          },
        ],
  );

const linkPuts = (links: PlannedResources["links"]): readonly Write[] =>
  links.flatMap((one) =>
    one.current === undefined
      ? []
      : [{ kind: "put-private-link-service" as const, ...targetOf(one), body: one.current }],
  );

/** A public IP used by a frontend that is not ours, or attached elsewhere, stays. */
function publicIPDeletions(draft: Draft, abandoned: Abandoned): readonly Write[] {
  const released = [...draft.publicIPs].filter(([, { current }]) => current === undefined);
  if (released.length === 0) return [];
  const used = new Set(
    [...draft.balancers.values()]
      .flatMap((one) => frontendsAfter(one, abandoned, draft))
      .flatMap(({ publicIPAddress }) => (publicIPAddress === undefined ? [] : lowerId(publicIPAddress))),
  );
  return released.flatMap(([id, one]) => {
    const user = one.observed?.ipConfiguration?.id;
    const isKept = used.has(id) || (user !== undefined && !isOfCluster(draft, user) && !isGone(draft, user));
    return isKept ? [] : [{ kind: "delete-public-ip" as const, ...targetOf(one) }];
  });
}

const frontendsAfter = (one: ResourceDraft<Balancer>, abandoned: Abandoned, { config }: Draft) =>
  (abandoned.has(one) ? one.current : afterwards(one, config))?.frontendIPConfigurations ?? [];

/** A reference to a load balancer of the cluster's resource group that does not exist any more. */
function isGone({ config, balancers }: Draft, user: string): boolean {
  const [, name] = /\/loadBalancers\/([^/]+)\/frontendIPConfigurations\//iu.exec(user) ?? [];
  return name !== undefined && groupOf(user) === config.loadBalancerResourceGroup && !balancers.has(name.toLowerCase());
}

type BalancerDraft = ResourceDraft<Balancer>;

/**
 * ARM rejects a load balancer that has pools and no frontend: where it may not be deleted with its last frontend, that
 * one stays. upstream: `cleanOrphanedLoadBalancer` with preconfigured backend pools.
 */
const isWithheld = ({ observed, current }: BalancerDraft): boolean =>
  (observed?.frontendIPConfigurations ?? []).length > 0 &&
  (current?.frontendIPConfigurations ?? []).length === 0 &&
  (current?.backendAddressPools ?? []).length > 0;

/**
 * The load balancer with what it still has of its last Service only, as if its Services had gone one by one; without
 * `keepsRules`, only the frontends of these.
 */
function remainder({ observed }: BalancerDraft, keepsRules: boolean): Balancer | undefined {
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

import type { PrivateLinkService } from "@azure/arm-network";

import { sameName } from "../../../arm/resource-id.ts";
import { sameId } from "../../model/ids.ts";
import { fullKey } from "../../service/annotation-rows.ts";
import { annotations } from "../../service/annotations.ts";
import type { Subject } from "../../service/subject.ts";
import { type Draft, reject } from "../draft/draft.ts";
import type { Frontend } from "../draft/frontends.ts";

type Link = Readonly<PrivateLinkService>;

export const clusterTag = "k8s-azure-cluster-name";
export const ownerTag = "k8s-azure-owner-service";

/** The private link service of a frontend. */
export const linkOf = (draft: Draft, frontendId: string | undefined): Link | undefined =>
  draft.observed.privateLinkServices.find(({ loadBalancerFrontendIpConfigurations }) =>
    loadBalancerFrontendIpConfigurations?.some(({ id }) => sameId(id, frontendId)),
  );

export const isOfThisCluster = ({ tags }: Link, { config }: Draft): boolean =>
  sameName(tags?.[clusterTag] ?? "", config.clusterName);

const approvedConnections = ({ privateEndpointConnections = [] }: Link): readonly string[] =>
  privateEndpointConnections.flatMap(({ name = "", privateLinkServiceConnectionState: state }) =>
    state?.status?.toLowerCase() === "approved" ? [name] : [],
  );

/** A private link service goes before its frontend; one that is not of this cluster keeps the frontend. */
export function deleteLinks(draft: Draft, { key, settings }: Subject, frontend: Frontend): void {
  const link = linkOf(draft, frontend.id);
  if (link === undefined) return;
  if (!isOfThisCluster(link, draft)) {
    const message = `frontend ${frontend.name} cannot be removed: private link service ${link.name} uses it and is not managed by this cluster`;
    reject(draft, key, "UnmanagedPrivateLinkService", message);
    return;
  }
  const connected = settings.get(annotations.plsDeleteProtection) ? approvedConnections(link) : [];
  if (connected.length > 0) {
    const message = `frontend ${frontend.name} cannot be removed: private link service ${link.name} is protected and has private endpoint connections: ${connected.slice(0, 5).join(", ")}; remove or reject them, or set annotation ${fullKey(annotations.plsDeleteProtection)} to false`;
    reject(draft, key, "PrivateLinkServiceInUse", message);
    return;
  }
  const services = draft.linkDeletions.get(link) ?? new Set();
  draft.linkDeletions.set(link, services.add(key));
}

import type { PublicIPAddress } from "@azure/arm-network";

import { sameName } from "../../../arm/resource-id.ts";
import type { PlannerConfig } from "../../model/planner-config.ts";
import { annotations } from "../../service/annotations.ts";
import type { Subject } from "../../service/subject.ts";
import { parseIPTags, sameIPTags } from "./ip-tags.ts";
import { servicesIn, withoutOwner } from "./owners.ts";
import { ownership } from "./ownership.ts";

type PublicIP = Readonly<PublicIPAddress>;

/** `keep` with the object as it shall be, or `delete`. */
type Release = { readonly keep: PublicIP } | "delete";

/**
 * Decides on a public IP of a Service that is deleted: the last owner deletes it, an earlier one leaves the tag. Source:
 * upstream `reconcilePublicIPs` and `shouldReleaseExistingOwnedPublicIP`.
 */
export function releaseFromDeleted(publicIP: PublicIP, subject: Subject, config: PlannerConfig): Release {
  const { owned, userAssigned } = ownership(publicIP, subject, config.clusterName);
  const tags = withoutOwner(publicIP.tags, subject.key);
  if (!owned || userAssigned || tags === publicIP.tags || tags === undefined) return { keep: publicIP };
  return servicesIn(tags).length === 0 ? "delete" : { keep: { ...publicIP, tags: { ...tags } } };
}

/**
 * Decides on a public IP of a Service that stays: it is deleted when it is the Service's alone and the Service has
 * another one or none now, or when its IP tags can only be changed by creating it again.
 */
export function isReleased(
  publicIP: PublicIP,
  subject: Subject,
  desired: string | undefined,
  config: PlannerConfig,
): boolean {
  const { owned, userAssigned } = ownership(publicIP, subject, config.clusterName);
  const [owner, ...others] = servicesIn(publicIP.tags);
  if (!owned || userAssigned || others.length > 0 || !sameName(owner ?? "", subject.key)) return false;
  return desired === undefined || !sameName(publicIP.name ?? "", desired) || hasOtherIPTags(publicIP, subject, config);
}

function hasOtherIPTags({ ipTags }: PublicIP, { settings }: Subject, { mutateIPTags }: PlannerConfig): boolean {
  const asked = settings.get(annotations.pipIPTags);
  return !mutateIPTags && asked !== undefined && !sameIPTags(parseIPTags(asked), ipTags);
}

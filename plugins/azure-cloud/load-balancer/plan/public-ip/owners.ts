import { sameName } from "../../../arm/resource-id.ts";
import type { ServiceKey } from "../../model/model.ts";
import { oncePer } from "../../model/once-per.ts";

/** Tags that name owners, in the spelling that is written. */
export const serviceTag = "k8s-azure-service";
export const clusterTag = "k8s-azure-cluster-name";
export const dnsTag = "k8s-azure-dns-label-service";

/** Spelling of older releases; still read. */
const legacy: Readonly<Record<string, string>> = {
  [serviceTag]: "service",
  [clusterTag]: "kubernetes-cluster-name",
  [dnsTag]: "kubernetes-dns-label-service",
};

/** True for a tag that names an owner. Without one in the present spelling, the older one is read. */
export const isOwnerTag = (key: string): boolean =>
  [serviceTag, clusterTag, dnsTag, legacy[dnsTag] ?? ""].some((tag) => sameName(tag, key));

export type Tags = Readonly<Record<string, string>>;

const readTag = (tags: Tags | undefined, key: string): string => tags?.[key] ?? tags?.[legacy[key] ?? ""] ?? "";

/** Services that own or share the public IP; empty for one that a user created. Source: upstream `parsePIPServiceTag`. */
export const servicesIn = (tags: Tags = untagged): readonly ServiceKey[] => ownersIn(tags);

const untagged: Tags = {};
const ownersIn = oncePer((tags: Tags): readonly ServiceKey[] =>
  readTag(tags, serviceTag)
    .split(",")
    .flatMap((name) => (name.trim() === "" ? [] : [name.trim()])),
);

export const clusterIn = (tags: Tags | undefined): string => readTag(tags, clusterTag);
/** The Service whose DNS label the public IP has. */
export const dnsOwnerIn = (tags: Tags | undefined): string => readTag(tags, dnsTag);

export const isListed = (services: readonly ServiceKey[], key: ServiceKey): boolean =>
  services.some((one) => sameName(one, key));

/** The tags with the Service among the owners; the same object when it is. Source: upstream `bindServicesToPIP`. */
export function withOwner(tags: Tags | undefined, key: ServiceKey): Tags {
  const services = servicesIn(tags);
  if (tags !== undefined && isListed(services, key)) return tags;
  return { ...tags, [serviceTag]: [...services, key].join(",") };
}

/** The tags without the Service; the same object when it is not there. Source: upstream `unbindServiceFromPIP`. */
export function withoutOwner(tags: Tags | undefined, key: ServiceKey): Tags | undefined {
  const services = servicesIn(tags);
  if (tags === undefined || !isListed(services, key)) return tags;
  const { [legacy[serviceTag] ?? ""]: _legacy, ...rest } = tags;
  const next: Record<string, string> = {
    ...rest,
    [serviceTag]: services.filter((one) => !sameName(one, key)).join(","),
  };
  if (sameName(dnsOwnerIn(tags), key)) {
    delete next[dnsTag];
    delete next[legacy[dnsTag] ?? ""];
  }
  return next;
}

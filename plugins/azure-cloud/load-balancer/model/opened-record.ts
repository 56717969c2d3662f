import { additionalAddressesOpen, findStatusCondition, type Service } from "cloud-controller-host/sdk";

import { canonicalAddress } from "./addresses.ts";
import { oncePer } from "./once-per.ts";

const { type, reason } = additionalAddressesOpen;

const recordIn = ({ status }: Service) => findStatusCondition(status?.conditions, type);

/** The addresses in the record of a Service, as they may be open for it; what is not an address is skipped. */
export const recordedAddresses = oncePer((service: Service): readonly string[] => {
  const texts = recordIn(service)?.message.split(",") ?? [];
  return [...new Set(texts.flatMap((text) => canonicalAddress(text.trim()) ?? []))];
});

const messageFor = (addresses: readonly string[]): string => addresses.toSorted().join(", ");

/** True if a Service has these addresses in its record, or none where there are none. */
export const hasRecord = (service: Service, addresses: readonly string[]): boolean =>
  messageFor(addresses) === (recordIn(service)?.message ?? "");

/** In a strategic merge patch. */
type ConditionPatch = Readonly<Record<"type" | "status" | "reason" | "message" | "lastTransitionTime", string>>;

/** The record of these addresses for a Service, which keeps the time since when it has any. */
export function recordFor(
  service: Service,
  addresses: readonly string[],
  at: string,
): ConditionPatch | { readonly type: string; readonly $patch: "delete" } {
  if (addresses.length === 0) return { type, $patch: "delete" };
  const { lastTransitionTime = at } = recordIn(service) ?? {};
  return { type, status: "True", reason, message: messageFor(addresses), lastTransitionTime };
}

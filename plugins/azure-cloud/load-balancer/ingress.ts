import type { Service } from "cloud-controller-host/sdk";

import { canonicalAddress } from "./addresses.ts";
import type { Draft } from "./draft.ts";
import { type Frontend, isPrimary } from "./frontends.ts";
import type { Subject } from "./subject.ts";

/** The address of a frontend after the plan, `undefined` while Azure has not chosen it. */
export function addressOf(draft: Draft, { publicIPAddress, privateIPAddress }: Frontend): string | undefined {
  if (publicIPAddress?.id === undefined) return privateIPAddress || undefined;
  return draft.publicIPs.get(publicIPAddress.id.toLowerCase())?.current?.ipAddress || undefined;
}

/** Addresses of a Service's frontends in the order of its families; `undefined` until all are known. */
export function addressesOf(draft: Draft, { key }: Subject): readonly string[] | undefined {
  if (draft.pending.has(key)) return undefined;
  const addresses = (draft.frontends.get(key) ?? []).map(({ frontend }) => addressOf(draft, frontend));
  const known = addresses.flatMap((address) => (address === undefined ? [] : [address]));
  return known.length === addresses.length && known.length > 0 ? known : undefined;
}

export const statusAddresses = ({ status }: Service): readonly string[] =>
  (status?.loadBalancer?.ingress ?? []).flatMap(({ ip }) => (ip === undefined ? [] : [canonicalAddress(ip) ?? ip]));

/** Addresses that a Service has had: those of its observed frontends and of its status. */
export function formerAddresses(draft: Draft, subject: Subject): readonly string[] {
  const addresses = new Set(statusAddresses(subject.service));
  for (const { frontendIPConfigurations = [] } of draft.observed.loadBalancers)
    for (const frontend of frontendIPConfigurations) {
      if (!isPrimary(frontend, subject)) continue;
      const publicIP = draft.publicIPs.get(frontend.publicIPAddress?.id?.toLowerCase() ?? "")?.observed;
      const address = frontend.privateIPAddress || publicIP?.ipAddress;
      if (address) addresses.add(address);
    }
  return [...addresses];
}

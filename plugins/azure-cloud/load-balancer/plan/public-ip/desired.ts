import type { PublicIPAddress } from "@azure/arm-network";

import { groupOf } from "../../../arm/resource-id.ts";
import { canonicalAddress, isPublicAddress } from "../../model/addresses.ts";
import { publicIPId } from "../../model/ids.ts";
import type { Family, PlanProblem } from "../../model/model.ts";
import { publicIPName } from "../../model/names.ts";
import { oncePer } from "../../model/once-per.ts";
import type { PlannerConfig } from "../../model/planner-config.ts";
import { quoted } from "../../service/readers.ts";
import { type Subject, wantedAddress, wantedPrefix, wantedPublicIP } from "../../service/subject.ts";

type PublicIP = Readonly<PublicIPAddress>;

/** The desired public IP of a frontend; `current` is `undefined` for one that must be created. */
export interface DesiredPublicIP {
  readonly id: string;
  readonly name: string;
  readonly group: string;
  readonly current: PublicIP | undefined;
}

/** Public IPs of every resource group that was read, by name and by address. */
export interface PublicIPIndex {
  named(group: string, name: string): PublicIP | undefined;
  addressed(group: string, address: string): PublicIP | undefined;
}

export const indexPublicIPs = oncePer((publicIPs: readonly PublicIP[]): PublicIPIndex => {
  const keyOf = (group: string, text: string): string => `${group}/${text}`.toLowerCase();
  const canonical = (address: string): string => canonicalAddress(address) ?? address;
  const byName = new Map(publicIPs.map((one) => [keyOf(groupOf(one.id), one.name ?? ""), one]));
  const indexAddresses = () =>
    new Map(
      publicIPs.flatMap((one) =>
        one.ipAddress === undefined ? [] : [[keyOf(groupOf(one.id), canonical(one.ipAddress)), one] as const],
      ),
    );
  let byAddress: ReadonlyMap<string, PublicIP> | undefined;
  return {
    named: (group, name) => byName.get(keyOf(group, name)),
    addressed(group, address) {
      byAddress ??= indexAddresses();
      return byAddress.get(keyOf(group, canonical(address)));
    },
  };
});

export type PublicIPChoice = DesiredPublicIP | { readonly problem: PlanProblem };

/**
 * Chooses by annotation, in this order: name, prefix, address, else the Service's own. Source: upstream
 * `determinePublicIPName`.
 */
export function desiredPublicIP(
  subject: Subject,
  family: Family,
  publicIPs: PublicIPIndex,
  config: PlannerConfig,
): PublicIPChoice {
  const group = subject.publicIPGroup;
  const named = wantedPublicIP(subject, family);
  const prefix = wantedPrefix(subject, family);
  const address = wantedAddress(subject, family);
  if (named !== "") {
    const current = publicIPs.named(group, named);
    const message = `PublicIP from annotation azure-pip-name(-IPv6)=${named} for service ${subject.key} doesn't exist in resource group ${group}`;
    return current === undefined ? notFound(message) : existing(current, group);
  }
  if (prefix === "" && address !== "") {
    if (!isPublicAddress(address)) return nonPublic(subject, address);
    const current = publicIPs.addressed(group, address);
    const message = `user supplied IP address ${address} was not found in resource group ${group}`;
    return current === undefined ? notFound(message) : existing(current, group);
  }
  const name = publicIPName(config.clusterName, subject, family, prefix);
  const current = publicIPs.named(group, name);
  return current === undefined
    ? { id: publicIPId(config, group, name), name, group, current: undefined }
    : existing(current, group);
}

/** The public IPs that a Service has chosen, as far as they exist. */
export const wantedPublicIPs = (
  subject: Subject,
  publicIPs: PublicIPIndex,
  config: PlannerConfig,
): readonly PublicIP[] =>
  subject.families.flatMap((family) => {
    const choice = desiredPublicIP(subject, family, publicIPs, config);
    return "problem" in choice || choice.current === undefined ? [] : [choice.current];
  });

const existing = (current: PublicIP, group: string): DesiredPublicIP => ({
  id: current.id ?? "",
  name: current.name ?? "",
  group,
  current,
});

const notFound = (message: string): PublicIPChoice => ({ problem: { code: "PublicIPNotFound", messages: [message] } });

const nonPublic = ({ key }: Subject, address: string): PublicIPChoice => ({
  problem: {
    code: "NonPublicAddress",
    messages: [`cannot use non-public LoadBalancer IP ${quoted(address)} for external Service ${key}`],
  },
});

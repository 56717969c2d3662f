import type { PublicIPAddress } from "@azure/arm-network";
import { keyOf, type Service } from "cloud-controller-host/sdk";

import { sameName } from "../../../arm/resource-id.ts";
import { lowerId, sameId } from "../../model/ids.ts";
import type { ServiceKey } from "../../model/model.ts";
import { oncePer } from "../../model/once-per.ts";
import type { PlannerConfig } from "../../model/planner-config.ts";
import { annotations } from "../../service/annotations.ts";
import { wantsLoadBalancer } from "../../service/identity.ts";
import { readSubject, type Subject } from "../../service/subject.ts";
import type { Draft } from "../draft/draft.ts";
import { indexPublicIPs, wantedPublicIPs } from "./desired.ts";
import { servicesIn } from "./owners.ts";

type PublicIP = Readonly<PublicIPAddress>;

/**
 * Other Services that use a public IP and may write the same fields of it as this one: those that its tags name or, as a
 * user's public IP has no such tags and only its DNS label is written, those with a DNS label.
 */
export function sharersOf(draft: Draft, subject: Subject, one: PublicIP): readonly Subject[] {
  const { services, publicIPs } = draft.observed;
  const owners = servicesIn(one.tags);
  if (owners.length === 0) {
    // Few Services have one: most plans need no list of them.
    if (labelOf(subject) === undefined) return [];
    const labeled = labeling(draft.config)(publicIPs)(services).get(lowerId(one)) ?? [];
    return labeled.filter(({ key }) => key !== subject.key);
  }
  return owners.flatMap((owner) => {
    const service = sameName(owner, subject.key) ? undefined : byKey(services).get(owner);
    const sharer = service && externalSubject(service, draft.config);
    return sharer !== undefined && wantedOf(draft.config, publicIPs, sharer).some(({ id }) => sameId(id, one.id))
      ? [sharer]
      : [];
  });
}

export const byKey = oncePer(
  (services: readonly Service[]): ReadonlyMap<ServiceKey, Service> =>
    new Map(services.map((service) => [keyOf(service), service])),
);

const labelOf = ({ settings }: Subject): string | undefined => settings.get(annotations.dnsLabel);

const wantedOf = (config: PlannerConfig, publicIPs: readonly PublicIP[], subject: Subject): readonly PublicIP[] =>
  wantedPublicIPs(subject, indexPublicIPs(publicIPs), config);

/** Undefined for a Service that has no external load balancer. */
function externalSubject(service: Service, config: PlannerConfig): Subject | undefined {
  if (!wantsLoadBalancer(service)) return undefined;
  const { subject } = readSubject(service, config);
  return subject.internal ? undefined : subject;
}

/** Services with a DNS label, by the lower-case ids of the public IPs that they want. */
const labeling = oncePer((config: PlannerConfig) =>
  oncePer((publicIPs: readonly PublicIP[]) =>
    oncePer((services: readonly Service[]): ReadonlyMap<string, readonly Subject[]> => {
      const users = new Map<string, Subject[]>();
      for (const service of services) {
        const subject = externalSubject(service, config);
        if (subject === undefined || labelOf(subject) === undefined) continue;
        for (const one of wantedOf(config, publicIPs, subject))
          users.getOrInsertComputed(lowerId(one), () => []).push(subject);
      }
      return users;
    }),
  ),
);

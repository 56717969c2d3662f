import type { LoadBalancingRule } from "@azure/arm-network";
import { keyOf, type Node, type Service, type ServicePort } from "cloud-controller-host/sdk";

import { oncePer } from "../../model/once-per.ts";
import { readSubject, type Subject } from "../../service/subject.ts";
import type { Draft } from "../draft/draft.ts";
import { baseOf, rulesOn } from "../draft/edits.ts";
import { addressesOf, addressOf, formerAddresses, statusAddresses } from "../draft/ingress.ts";
import { internalAddresses, isUnmanaged } from "../draft/nodes.ts";
import type { Holder } from "./edits.ts";

/** Addresses of the nodes behind a Service's pools after the plan. */
export type BackendAddresses = (subject: Subject) => readonly string[];

/** All Services of the cluster, as the security group is shared by them. */
export function holdersOf(draft: Draft, backendAddresses: BackendAddresses): readonly Holder[] {
  const holders = draft.services.map(({ subject, action }) => plannedHolder(draft, subject, action, backendAddresses));
  const others = othersOf(draft);
  if (others.length === 0) return holders;
  const ruled = ruledOn(draft, new Set(holders.flatMap(({ addresses, left }) => [...addresses, ...left])));
  return [...holders, ...others.map((one) => keptHolder(draft, readSubject(one, draft.config).subject, ruled))];
}

/** The Services of the cluster that are not planned. */
function othersOf({ services, observed }: Draft): readonly Service[] {
  const objects = new Set(services.map(({ subject }) => subject.service));
  const left = observed.services.filter((service) => !objects.has(service));
  if (left.length === 0) return left;
  const ensured = new Set(services.flatMap(({ subject, action }) => (action === "ensure" ? [subject.key] : [])));
  const planned = new Set(objects.values().map(identityOf));
  return left.filter((service) => !ensured.has(keyOf(service)) && !planned.has(identityOf(service)));
}

/** Another Service may have been created under the name of one that is deleted. */
const identityOf = (service: Service): string => `${keyOf(service)} ${service.metadata?.uid}`;

/** Addresses and ports of the load-balancing rules of a Service. */
interface Ruled {
  readonly addresses: string[];
  readonly ports: ServicePort[];
}

type RuledByBase = ReadonlyMap<string, Ruled>;

/** Only of frontends with one of these addresses: no planned Service uses the others. */
function ruledOn(draft: Draft, among: ReadonlySet<string>): RuledByBase {
  const ruled = new Map<string, Ruled>();
  for (const { current = {} } of draft.balancers.values())
    for (const frontend of current.frontendIPConfigurations ?? []) {
      const address = addressOf(draft, frontend);
      if (address !== undefined && among.has(address))
        for (const rule of rulesOn(current, frontend.id ?? "")) {
          const { addresses, ports } = ruled.getOrInsertComputed(baseOf(rule), () => ({ addresses: [], ports: [] }));
          addresses.push(address);
          ports.push(portOf(rule));
        }
    }
  return ruled;
}

/** The Service port that a rule is for. A rule of all ports has port 0, which no security rule has. */
const portOf = ({ protocol = "", frontendPort = 0, backendPort = 0 }: LoadBalancingRule): ServicePort => ({
  port: frontendPort,
  nodePort: backendPort,
  protocol: protocol.toUpperCase(),
});

function plannedHolder(
  draft: Draft,
  subject: Subject,
  action: "ensure" | "delete",
  backendAddresses: BackendAddresses,
): Holder {
  const addresses = action === "delete" ? formerAddresses(draft, subject) : addressesOf(draft, subject);
  if (addresses === undefined) return keptHolder(draft, subject);
  const behind = (): readonly string[] =>
    action === "delete" ? nodeAddresses(draft.observed.nodes) : backendAddresses(subject);
  const targets = subject.floatingIP ? addresses : behind();
  const additional = subject.additionalAddresses;
  const has = new Set([...addresses, ...additional]);
  const left = statusAddresses(subject.service).filter((one) => !has.has(one));
  return { subject, action, addresses: [...has], destinations: [...targets, ...additional], left };
}

export const nodeAddresses = oncePer((nodes: readonly Node[]): readonly string[] =>
  nodes.filter((node) => !isUnmanaged(node)).flatMap((node) => internalAddresses(node)),
);

/**
 * The status of a Service that was synced a moment ago may not be visible yet: its load-balancing rules have its
 * addresses, too. Those of a refused Service have the ports that stay open for it.
 */
function keptHolder(draft: Draft, wanted: Subject, behind?: RuledByBase): Holder {
  const used = (draft.frontends.get(wanted.key) ?? []).flatMap(({ frontend }) => addressOf(draft, frontend) ?? []);
  const ruled = behind?.get(wanted.base.toLowerCase());
  const subject = ruled === undefined ? wanted : { ...wanted, ports: [...wanted.ports, ...ruled.ports] };
  const addresses = [
    ...new Set([
      ...statusAddresses(subject.service),
      ...used,
      ...(ruled?.addresses ?? []),
      ...subject.additionalAddresses,
    ]),
  ];
  const destinations = subject.floatingIP ? addresses : nodeAddresses(draft.observed.nodes);
  return { subject, action: "keep", addresses, destinations, left: [] };
}

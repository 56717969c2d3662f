import { isDeepStrictEqual } from "node:util";

import { isBeingDeleted, keyOf, type Node, type Service } from "cloud-controller-host/sdk";

import { lastSegment } from "../../arm/resource-id.ts";
import type { Cause, ResourceChange } from "../../removal-guard/guard.ts";
import type { Item, Owner } from "../../removal-guard/rule.ts";
import { familyOf, sameAddress } from "../model/addresses.ts";
import { drainCause } from "../model/drain.ts";
import type { Observed, ServiceIntent, ServiceKey } from "../model/model.ts";
import { frontendName, isInternalName, publicIPName, withoutInternal } from "../model/names.ts";
import type { PlannerConfig } from "../model/planner-config.ts";
import { desiredRules } from "../plan/balancer/rules.ts";
import { internalAddresses, isControlPlane, isExcluded, nodeName } from "../plan/draft/nodes.ts";
import { portsOf, ruleProtocols } from "../plan/security-group/access.ts";
import { annotations } from "../service/annotations.ts";
import {
  readSubject,
  type Subject,
  wantedAddress,
  wantedAddresses,
  wantedPrefix,
  wantedPublicIP,
} from "../service/subject.ts";
import { familyOfName } from "./contents.ts";

export interface CausesInput {
  readonly batch: readonly ServiceIntent[];
  readonly observed: Observed;
  readonly config: PlannerConfig;
  /** The Service as the API server has it. */
  readonly current: (key: ServiceKey) => Service | undefined;
  /** The Service as it was when its load balancer was last as it wanted. */
  readonly settled: (key: ServiceKey) => Service | undefined;
  /** Names of nodes that join a pool with the same plan. */
  readonly joining: ReadonlySet<string>;
}

/**
 * Causes that can be seen in the objects themselves: a Service that is deleted, changed, or does not ask for the item; a
 * node that is excluded. What is only missing from a list is unconfirmed.
 */
export function causesOf(input: CausesInput): (item: Item, change: ResourceChange) => Cause {
  const intents = new Map(input.batch.map((intent) => [keyOf(intent.service), intent]));
  const nodes = new Map(input.observed.nodes.map((node) => [nodeName(node), node]));
  const byOwner: Readonly<Record<Owner["kind"], (name: string, item: Item, change: ResourceChange) => Cause>> = {
    Service: (name, item, change) => causeOfService(name, item, change, { ...input, intent: intents.get(name) }),
    Node: (name, item) => causeOfNode(nodes.get(name), item, input),
    endpoint: (name, item) => {
      const [key = "", node = ""] = name.split(" ");
      if (input.observed.endpointNodes.get(key)?.includes(node) !== true) return "unconfirmed";
      return causeOfNode(nodes.get(node), item, input);
    },
  };
  return (item, change) => {
    const causes = item.owners.map(({ kind, name }) => byOwner[kind](name, item, change));
    if (causes.includes("none")) return "none";
    return causes.includes("unconfirmed") ? "unconfirmed" : "known";
  };
}

function causeOfService(
  key: ServiceKey,
  item: Item,
  change: ResourceChange,
  input: CausesInput & { readonly intent: ServiceIntent | undefined },
): Cause {
  const { intent, config, current, settled } = input;
  const stored = current(key);
  const service = intent?.service;
  if (service !== undefined && intent?.action === "delete" && isBeingDeleted(service)) return "known";
  if (stored === undefined) return "unconfirmed";
  // Another one has the name now.
  if (service !== undefined && service.metadata?.uid !== stored.metadata?.uid) return "known";
  if (intent?.action === "delete" || isBeingDeleted(stored) || stored.spec?.type !== "LoadBalancer") return "known";
  const before = settled(key);
  if (before !== undefined && !isDeepStrictEqual(wishOf(before), wishOf(stored))) return "known";
  return wants(readSubject(stored, config).subject, item, change, input) ? "none" : "known";
}

const wishOf = ({ spec, metadata }: Service): unknown => [spec, metadata?.annotations, metadata?.labels];

/** Whether the Service still asks for an item of that name in such a place. */
function wants(
  subject: Subject,
  { kind, name }: Item,
  { id }: ResourceChange,
  { config, observed }: CausesInput,
): boolean {
  switch (kind) {
    case "frontends":
      return isPlaceOf(subject, id) && subject.families.some((family) => frontendName(subject, family) === name);
    case "rules":
    case "probes":
      return isPlaceOf(subject, id) && subject.families.some((family) => namesOf(subject, family, config).has(name));
    case "public IPs":
      return wantsPublicIP(subject, name, config);
    case "security rules":
      return opens(subject, name, observed);
    default:
      return true;
  }
}

/** A load balancer of its kind that none of its annotations rules out. */
function isPlaceOf(subject: Subject, id: string): boolean {
  const balancer = lastSegment(id);
  const chosen = subject.settings.get(annotations.configurations)?.filter((name) => name !== "") ?? [];
  const isChosen = chosen.length === 0 || chosen.some((name) => name.toLowerCase() === withoutInternal(balancer));
  return isInternalName(balancer) === subject.internal && isChosen;
}

/** Rules, and the probes that they use. */
function namesOf(subject: Subject, family: Subject["families"][number], config: PlannerConfig): ReadonlySet<string> {
  const { rules } = desiredRules(subject, family, { loadBalancer: "", frontend: "", pool: "" }, config);
  return new Set(rules.flatMap(({ name = "", probe }) => [name, ...(probe?.id ? [lastSegment(probe.id)] : [])]));
}

function wantsPublicIP(subject: Subject, name: string, { clusterName }: PlannerConfig): boolean {
  const family = familyOfName(name);
  if (subject.internal || wantedAddresses(subject).length > 0 || wantedPublicIP(subject, family) !== "") return false;
  return subject.families.some((one) => publicIPName(clusterName, subject, one, wantedPrefix(subject, one)) === name);
}

/** Whether it is open to that address, with protocol and port. */
function opens(subject: Subject, name: string, { publicIPs }: Observed): boolean {
  const [address = "", protocol = "", port = ""] = name.split(" ");
  if (subject.settings.get(annotations.disableSecurityRules) || !subject.floatingIP) return false;
  const publicIP = publicIPs.find(({ ipAddress }) => sameAddress(ipAddress, address));
  if (!mayHave(subject, address, publicIP)) return false;
  const known = ruleProtocols.find((one) => one.toLowerCase() === protocol);
  return known !== undefined && (portsOf(subject).get(known)?.includes(Number(port)) ?? false);
}

/** Whether the settings of the Service leave it such an address: public or private, of its families, and chosen. */
function mayHave(subject: Subject, address: string, publicIP: Observed["publicIPs"][number] | undefined): boolean {
  const family = familyOf(address);
  if (family === undefined || !subject.families.includes(family)) return false;
  if (subject.additionalAddresses.some((one) => sameAddress(one, address))) return true;
  const wanted = wantedAddress(subject, family);
  if (wanted !== "") return sameAddress(wanted, address);
  if ((publicIP === undefined) !== subject.internal) return false;
  const chosen = wantedPublicIP(subject, family);
  return chosen === "" || chosen.toLowerCase() === publicIP?.name?.toLowerCase();
}

/** A node that moves to another load balancer still gets traffic. */
function causeOfNode(node: Node | undefined, item: Item, { config, joining }: CausesInput): Cause {
  if (node === undefined) return "unconfirmed";
  const isOut = drainCause(node) !== undefined || isExcluded(node, config) || isControlPlane(node);
  const [address = ""] = item.name.split(" ");
  const hasAddress = item.kind === "members" || internalAddresses(node).includes(address);
  return isOut || !hasAddress || joining.has(nodeName(node)) ? "known" : "none";
}

import { isDeepStrictEqual } from "node:util";

import { type CloudContext, type Counter, type EventSubject, isObject } from "cloud-controller-host/sdk";

import { settingsOf } from "../../arm/settings.ts";
import { type JsonObject, objectsAt, stringAt } from "../../json.ts";
import type { Observed } from "../model/model.ts";
import { isServiceFrontend } from "../model/names.ts";
import { oncePer } from "../model/once-per.ts";
import { ownerTag } from "../plan/private-link/remove.ts";
import { serviceTag } from "../plan/public-ip/owners.ts";

/** A resource as the SDK has it. */
interface Version {
  readonly id?: string;
  readonly etag?: string;
}

interface Known {
  readonly resource: Version;
  /** Etags that it had before: a read with one of them lags behind. */
  readonly former: readonly string[];
  /** When it was last seen. */
  atMs: number;
}

type FindSubjects = (text: string) => readonly EventSubject[];

/** A type of resource in lower case, and what of its settings is ours. */
export interface OwnedType {
  readonly type: string;
  readonly partOf: (settings: JsonObject) => JsonObject;
}

const maxFormer = 8;
const hourMs = 3_600_000;

const isManagedRule = (name: string): boolean => name.startsWith("k8s-azure-lb");

/** The items of lists that are ours by their names. */
export const itemsNamed =
  (lists: Readonly<Record<string, (name: string) => boolean>>): OwnedType["partOf"] =>
  (settings) =>
    Object.fromEntries(
      Object.entries(lists).map(([list, isOurs]) => [
        list,
        objectsAt(settings, list).filter((item) => isOurs(stringAt(item, "name") ?? "")),
      ]),
    );

/** Settings of resources that have our tag. */
const whereTagged =
  (tag: string, isOurs: (key: string) => boolean): OwnedType["partOf"] =>
  (settings) =>
    isObject(settings["tags"]) && tag in settings["tags"]
      ? Object.fromEntries(Object.entries(settings).filter(([key]) => isOurs(key)))
      : {};

/** The rest of a private link service is with its users, who connect to it. */
const linkSettings: ReadonlySet<string> = new Set([
  "autoApproval",
  "enableProxyProtocol",
  "fqdns",
  "ipConfigurations",
  "loadBalancerFrontendIpConfigurations",
  "visibility",
]);

const balancers: OwnedType = {
  type: "loadbalancers",
  partOf: itemsNamed({
    frontendIPConfigurations: isServiceFrontend,
    loadBalancingRules: isServiceFrontend,
    probes: isServiceFrontend,
  }),
};
const securityGroups: OwnedType = {
  type: "networksecuritygroups",
  partOf: itemsNamed({ securityRules: isManagedRule }),
};
const addresses: OwnedType = { type: "publicipaddresses", partOf: whereTagged(serviceTag, () => true) };
const links: OwnedType = {
  type: "privatelinkservices",
  partOf: whereTagged(ownerTag, (key) => linkSettings.has(key)),
};

/** Our parts of a resource. Computed on demand: most versions follow a write of this process, and are never compared. */
const ownedIn = oncePer(({ type, partOf }: OwnedType) =>
  oncePer((resource: Version) => partOf(settingsOf({ ...resource }, `microsoft.network/${type}`))),
);

/**
 * Changes that another writer made to what is ours. They are found when a read shows a resource that differs from its
 * last version although this process has not written it since.
 */
export class Drifts {
  readonly #context: Pick<CloudContext, "clock" | "events" | "log" | "recordWrite">;
  readonly #counter: Counter<"resource_type" | "repaired">;
  readonly #known = new Map<string, Known>();
  /** Lower-case ids of resources with a write in flight, and of those that were written since they were seen. */
  readonly #busy = new Set<string>();
  readonly #written = new Set<string>();
  /** Drifts to repair, by id of the resource, with our parts before and after. */
  readonly #open = new Map<string, { readonly before: JsonObject; readonly after: JsonObject }>();
  readonly #reportedMs = new Map<string, number>();

  constructor(context: Pick<CloudContext, "clock" | "events" | "log" | "metrics" | "recordWrite">) {
    this.#context = context;
    this.#counter = context.metrics.counter({
      name: "cloudprovider_azure_drift_total",
      help: "Changes that another writer made to resources of Services, by type of resource; repaired when this process has restored them.",
      labels: ["resource_type", "repaired"],
    });
  }

  started(id: string): void {
    this.#busy.add(id.toLowerCase());
  }

  /** However the write has ended: it may have been applied. */
  ended(id: string): void {
    this.#busy.delete(id.toLowerCase());
    this.#written.add(id.toLowerCase());
  }

  /** `subjectsOf` finds the Services that own items with these names. */
  seen({ loadBalancers, securityGroup, publicIPs, privateLinkServices }: Observed, subjectsOf: FindSubjects): void {
    for (const one of loadBalancers) this.see(one, balancers, subjectsOf);
    for (const one of publicIPs) this.see(one, addresses, subjectsOf);
    for (const one of privateLinkServices) this.see(one, links, subjectsOf);
    if (securityGroup !== undefined) this.see(securityGroup, securityGroups, subjectsOf);
    this.#forgetOld();
  }

  see(resource: Version, owner: OwnedType, subjectsOf: FindSubjects): void {
    const { type } = owner;
    const id = (resource.id ?? "").toLowerCase();
    const known = this.#known.get(id);
    const { etag } = resource;
    const atMs = this.#context.clock.monotonic();
    if (known !== undefined) known.atMs = atMs;
    if (known?.resource.etag === etag || this.#busy.has(id) || (etag !== undefined && known?.former.includes(etag)))
      return;
    const last = known?.resource.etag;
    const former = [...(known?.former ?? []), ...(last === undefined ? [] : [last])].slice(-maxFormer);
    this.#known.set(id, { resource, former, atMs });
    const isOwn = this.#written.delete(id);
    const owned = ownedIn(owner);
    if (known !== undefined && !isOwn && !isDeepStrictEqual(owned(known.resource), owned(resource)))
      this.#report({ id: resource.id ?? "", type, before: owned(known.resource), after: owned(resource) }, subjectsOf);
    const open = this.#open.get(id);
    if (open === undefined || !isRestored(open.before, open.after, owned(resource))) return;
    this.#open.delete(id);
    this.#record(resource.id ?? "", type, { before: open.after, after: owned(resource), repaired: true });
  }

  /** Forgets resources that no read has shown for an hour: they are deleted. */
  #forgetOld(): void {
    const oldestMs = this.#context.clock.monotonic() - hourMs;
    for (const [id, { atMs }] of this.#known) if (atMs < oldestMs) this.#known.delete(id);
    for (const [id, atMs] of this.#reportedMs) if (atMs < oldestMs) this.#reportedMs.delete(id);
    for (const id of this.#open.keys()) if (!this.#known.has(id)) this.#open.delete(id);
    for (const id of this.#written) if (!this.#known.has(id)) this.#written.delete(id);
  }

  #report(
    {
      id,
      type,
      before,
      after,
    }: { readonly id: string; readonly type: string } & Record<"before" | "after", JsonObject>,
    subjectsOf: FindSubjects,
  ): void {
    const { clock, events, log } = this.#context;
    const earlier = this.#open.get(id.toLowerCase());
    this.#open.set(id.toLowerCase(), { before: earlier?.before ?? before, after });
    this.#record(id, type, { before, after, repaired: false });
    log.warn("Another writer has changed a resource of Services", { resource: id });
    const nowMs = clock.monotonic();
    if (nowMs - (this.#reportedMs.get(id.toLowerCase()) ?? Number.NEGATIVE_INFINITY) < hourMs) return;
    this.#reportedMs.set(id.toLowerCase(), nowMs);
    const [subject] = subjectsOf(JSON.stringify(changedItems(before, after)));
    if (subject === undefined) return;
    const message = `another writer has changed ${id}; /statusz/writes has the fields, with the operation drift`;
    events.event(subject, "Warning", "AzureResourceChanged", message);
  }

  #record(
    id: string,
    type: string,
    { before, after, repaired }: Record<"before" | "after", JsonObject> & { readonly repaired: boolean },
  ): void {
    this.#counter.inc({ resource_type: type, repaired: String(repaired) });
    this.#context.recordWrite?.({
      operation: "drift",
      resource: id,
      change: { before, after },
      repaired,
      milliseconds: 0,
    });
  }
}

/** The parts of a document, by list and name, or by key. */
function partsOf(document: JsonObject): ReadonlyMap<string, unknown> {
  return new Map(
    Object.entries(document).flatMap(([key, value]): readonly (readonly [string, unknown])[] =>
      Array.isArray(value) && value.every((item) => isObject(item) && "name" in item)
        ? value.map((item: JsonObject) => [`${key}/${stringAt(item, "name") ?? ""}`, item] as const)
        : [[key, value]],
    ),
  );
}

/** Names of the parts that differ, each with its former value; undefined for a new part. */
function changedItems(before: JsonObject, after: JsonObject): readonly (readonly [string, unknown])[] {
  const [was, now] = [partsOf(before), partsOf(after)];
  return [...new Set([...was.keys(), ...now.keys()])]
    .filter((key) => !isDeepStrictEqual(was.get(key), now.get(key)))
    .map((key) => [key, was.get(key)]);
}

/** True if all that was changed is again as it was. */
function isRestored(before: JsonObject, after: JsonObject, now: JsonObject): boolean {
  const current = partsOf(now);
  return changedItems(before, after).every(([key, value]) => isDeepStrictEqual(value, current.get(key)));
}

import { isDeepStrictEqual } from "node:util";

import { type CloudContext, type Counter, type EventSubject, isObject } from "cloud-controller-host/sdk";

import { settingsOf } from "../../arm/settings.ts";
import { type JsonObject, objectsAt, stringAt } from "../../json.ts";
import type { Observed } from "../model/model.ts";
import { isServiceFrontend } from "../model/names.ts";
import { serviceTag } from "../plan/public-ip/owners.ts";

/** A resource as the SDK has it. */
interface Version {
  readonly id?: string;
  readonly etag?: string;
}

interface Known {
  readonly etag: string | undefined;
  readonly owned: JsonObject;
  /** Etags that it had before: a read with one of them lags behind. */
  readonly former: readonly string[];
}

const maxFormer = 8;
const hourMs = 3_600_000;

const isManagedRule = (name: string): boolean => name.startsWith("k8s-azure-lb");

/** The lists of a type whose items are ours by their names. */
const lists: Readonly<Record<string, Readonly<Record<string, (name: string) => boolean>>>> = {
  loadbalancers: {
    frontendIPConfigurations: isServiceFrontend,
    loadBalancingRules: isServiceFrontend,
    probes: isServiceFrontend,
  },
  networksecuritygroups: { securityRules: isManagedRule },
};

/** What is ours of a resource, by list and name. A public IP with our tag is ours as a whole. */
function ownedPart(resource: Version, type: string): JsonObject {
  const settings = settingsOf({ ...resource }, `microsoft.network/${type}`);
  const named = lists[type];
  if (named === undefined) {
    const { tags } = settings;
    return isObject(tags) && serviceTag in tags ? settings : {};
  }
  return Object.fromEntries(
    Object.entries(named).map(([list, isOurs]) => [
      list,
      objectsAt(settings, list).filter((item) => isOurs(stringAt(item, "name") ?? "")),
    ]),
  );
}

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
  /** What is to be repaired: what was ours before. */
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
  seen(
    { loadBalancers, securityGroup, publicIPs }: Observed,
    subjectsOf: (text: string) => readonly EventSubject[],
  ): void {
    for (const one of loadBalancers) this.#see(one, "loadbalancers", subjectsOf);
    for (const one of publicIPs) this.#see(one, "publicipaddresses", subjectsOf);
    if (securityGroup !== undefined) this.#see(securityGroup, "networksecuritygroups", subjectsOf);
  }

  #see(resource: Version, type: string, subjectsOf: (text: string) => readonly EventSubject[]): void {
    const id = (resource.id ?? "").toLowerCase();
    const known = this.#known.get(id);
    const { etag } = resource;
    if (known?.etag === etag || this.#busy.has(id) || (etag !== undefined && known?.former.includes(etag))) return;
    const owned = ownedPart(resource, type);
    const former = [...(known?.former ?? []), ...(known?.etag === undefined ? [] : [known.etag])].slice(-maxFormer);
    this.#known.set(id, { etag, owned, former });
    const isOwn = this.#written.delete(id);
    if (known !== undefined && !isOwn && !isDeepStrictEqual(known.owned, owned))
      this.#report({ id: resource.id ?? "", type, before: known.owned, after: owned }, subjectsOf);
    const open = this.#open.get(id);
    if (open === undefined || !isRestored(open.before, open.after, owned)) return;
    this.#open.delete(id);
    this.#record(resource.id ?? "", type, { before: open.after, after: owned, repaired: true });
  }

  #report(
    {
      id,
      type,
      before,
      after,
    }: { readonly id: string; readonly type: string } & Record<"before" | "after", JsonObject>,
    subjectsOf: (text: string) => readonly EventSubject[],
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

function changedItems(before: JsonObject, after: JsonObject): readonly (readonly [string, unknown])[] {
  const now = partsOf(after);
  return [...partsOf(before)].filter(([key, value]) => !isDeepStrictEqual(value, now.get(key)));
}

/** Whether all that was changed is again as it was. */
function isRestored(before: JsonObject, after: JsonObject, now: JsonObject): boolean {
  const current = partsOf(now);
  return changedItems(before, after).every(([key, value]) => isDeepStrictEqual(value, current.get(key)));
}

import type { HttpClient, PipelineRequest, PipelineResponse } from "@azure/core-rest-pipeline";
import { isObject, type Planning } from "cloud-controller-host/sdk";

import { type JsonObject, objectAt, objectsAt, parseJson, stringAt } from "../../json.ts";
import { isUnprovisioned } from "../errors.ts";
import { isRead, targetOf } from "../pipeline/target.ts";
import { parseArmPath } from "../resource-id.ts";
import { settingsOf } from "../settings.ts";
import { bundledResource } from "./bundled.ts";
import { interruptionsOf } from "./interruptions.ts";
import { ChosenAddresses, replyTo } from "./reply.ts";

type CreateHeaders = (headers: Record<string, string>) => PipelineRequest["headers"];

/** A resource that a plan has written: undefined where it was deleted. */
interface Written {
  readonly id: string;
  readonly resource: JsonObject | undefined;
  /** As it is in Azure: a later step of the plan interrupts nothing that an earlier one has added. */
  readonly initial: JsonObject | undefined;
}

/** States of a resource that another write is changing, in lower case. */
const inFlight: ReadonlySet<string> = new Set(["creating", "deleting", "updating"]);

/** In ARM's words. */
const conditionNotMet = { code: "PreconditionFailed", message: "The condition set in the request is not satisfied." };

type Current = { readonly resource: JsonObject | undefined } | { readonly refusal: PipelineResponse };

/**
 * Transport of a plan: reads are sent, writes are recorded and answered as ARM would. Later reads show what was
 * recorded, so that the steps that build on each other are planned by the code that carries them out.
 */
export function planningClient(real: HttpClient, planning: Planning, createHeaders: CreateHeaders): HttpClient {
  return new PlanningClient(real, planning, createHeaders);
}

class PlanningClient implements HttpClient {
  readonly #real: HttpClient;
  readonly #planning: Planning;
  readonly #createHeaders: CreateHeaders;
  readonly #addresses: ChosenAddresses;
  /** By id in lower case. */
  readonly #written = new Map<string, Written>();
  #etags = 0;

  constructor(real: HttpClient, planning: Planning, createHeaders: CreateHeaders) {
    this.#real = real;
    this.#planning = planning;
    this.#createHeaders = createHeaders;
    this.#addresses = new ChosenAddresses((placeholder) => planning.unknown(placeholder));
  }

  async sendRequest(request: PipelineRequest): Promise<PipelineResponse> {
    const { path, collection } = targetOf(request.url);
    if (isRead(request.method)) return collection ? this.#list(request, path) : this.#get(request, path);
    if (request.method === "PUT") return this.#put(request, path);
    if (request.method === "DELETE") return this.#delete(request, path);
    // No write of ours has another method; one that is not understood must not be sent.
    return this.#reply(request, 400, {
      error: { code: "NotPlanned", message: `a plan cannot carry out ${request.method} ${path}` },
    });
  }

  async #get(request: PipelineRequest, path: string): Promise<PipelineResponse> {
    const written = this.#find(path);
    if (written === undefined) return this.#read(request);
    if (written.resource !== undefined) return this.#reply(request, 200, written.resource);
    return this.#reply(request, 404, {
      error: { code: "ResourceNotFound", message: `the plan has deleted ${path}` },
    });
  }

  async #read(request: PipelineRequest): Promise<PipelineResponse> {
    const response = await this.#real.sendRequest(request);
    if (response.status === 200) this.#report(parseJson(response.bodyAsText ?? ""));
    return response;
  }

  #report(resource: unknown): void {
    if (!isObject(resource) || typeof resource["id"] !== "string") return;
    const { id } = resource;
    this.#planning.read?.(id, bundledResource(id, resource));
    const state = stringAt(objectAt(resource, "properties"), "provisioningState") ?? "";
    if (inFlight.has(state.toLowerCase())) this.#planning.inFlight({ resource: id, title: titleOf(id), state });
  }

  /** Finds the resource written at this path, or the child of one written above it. */
  #find(path: string): Pick<Written, "id" | "resource"> | undefined {
    const own = this.#written.get(path.toLowerCase());
    if (own !== undefined) return own;
    const segments = path.split("/");
    const [list = "", name = ""] = segments.slice(-2);
    const parent = this.#written.get(segments.slice(0, -2).join("/").toLowerCase());
    const properties = objectAt(parent?.resource, "properties");
    // Instances are below their scale set and not a part of its document.
    if (!Array.isArray(properties?.[list])) return undefined;
    const child = objectsAt(properties, list).find(
      (each) => stringAt(each, "name")?.toLowerCase() === name.toLowerCase(),
    );
    return { id: path, resource: child };
  }

  async #list(request: PipelineRequest, path: string): Promise<PipelineResponse> {
    const response = await this.#real.sendRequest(request);
    const page = parseJson(response.bodyAsText ?? "");
    if (response.status !== 200 || !isObject(page) || !Array.isArray(page["value"])) return response;
    const shown = objectsAt(page, "value").flatMap((item) => {
      this.#report(item);
      const written = this.#written.get((stringAt(item, "id") ?? "").toLowerCase());
      if (written === undefined) return [item];
      return written.resource === undefined ? [] : [written.resource];
    });
    // What the list lacks comes with its last page.
    const ids = new Set(shown.map((item) => (stringAt(item, "id") ?? "").toLowerCase()));
    const isLast = stringAt(page, "nextLink") === undefined;
    const added = isLast ? this.#below(path).filter(({ id }) => !ids.has(id.toLowerCase())) : [];
    const value = [...shown, ...added.flatMap(({ resource }) => resource ?? [])];
    return this.#reply(request, 200, { ...page, value });
  }

  #below(collection: string): readonly Written[] {
    const prefix = `${collection.toLowerCase().replace(/\/+$/u, "")}/`;
    return [...this.#written].flatMap(([id, written]) =>
      id.startsWith(prefix) && !id.slice(prefix.length).includes("/") ? [written] : [],
    );
  }

  async #put(request: PipelineRequest, path: string): Promise<PipelineResponse> {
    const body = typeof request.body === "string" ? parseJson(request.body) : undefined;
    if (!isObject(body)) throw new TypeError(`PUT ${path}: only JSON objects can be planned`);
    const current = await this.#current(request, path);
    if ("refusal" in current) return current.refusal;
    const before = current.resource;
    const conflict = this.#conflict(request, before);
    if (conflict !== undefined) return conflict;
    const type = typeOf(path);
    this.#etags += 1;
    const etag = `W/"planned-${this.#etags}"`;
    const after = replyTo(body, { id: path, type, before, etag, addresses: this.#addresses });
    this.#record(path, type, before, after);
    return this.#reply(request, before === undefined ? 201 : 200, after);
  }

  async #delete(request: PipelineRequest, path: string): Promise<PipelineResponse> {
    const current = await this.#current(request, path);
    if ("refusal" in current) return current.refusal;
    const before = current.resource;
    const conflict = this.#conflict(request, before);
    if (conflict !== undefined) return conflict;
    this.#record(path, typeOf(path), before, undefined);
    return this.#reply(request, before === undefined ? 204 : 200, undefined);
  }

  /** A write that rests on a read from before another write is refused, as ARM does: it would undo that one. */
  #conflict(request: PipelineRequest, resource: JsonObject | undefined): PipelineResponse | undefined {
    const expected = request.headers.get("if-match");
    const isStale =
      (request.headers.get("if-none-match") === "*" && resource !== undefined) ||
      (expected !== undefined && expected !== "*" && expected !== stringAt(resource, "etag"));
    if (!isStale) return undefined;
    return this.#reply(request, 412, { error: conditionNotMet });
  }

  #record(path: string, type: string, before: JsonObject | undefined, after: JsonObject | undefined): void {
    const known = this.#written.get(path.toLowerCase());
    const initial = known === undefined ? before : known.initial;
    this.#written.set(path.toLowerCase(), { id: path, resource: after, initial });
    if (before === undefined && after === undefined) return;
    // A resource that failed is written again, with the settings that it has.
    const state = stringAt(objectAt(before, "properties"), "provisioningState");
    const repaired =
      after !== undefined && isUnprovisioned({ ...(state !== undefined && { provisioningState: state }) });
    this.#planning.record({
      resource: path,
      title: titleOf(path),
      before: before && { ...settingsOf(before, type), ...(repaired && { provisioningState: state }) },
      after: after && { ...settingsOf(after, type), ...(repaired && { provisioningState: "Succeeded" }) },
      interruptions: interruptionsOf(type, initial, after),
    });
  }

  /** The resource as it would be now: as the plan has written it, else as it is. A failed read answers the write. */
  async #current(request: PipelineRequest, path: string): Promise<Current> {
    const written = this.#find(path);
    if (written !== undefined) return { resource: written.resource };
    const headers = this.#createHeaders(request.headers.toJSON());
    for (const name of ["content-type", "content-length", "if-match", "if-none-match"]) headers.delete(name);
    const { body: _body, ...rest } = request;
    const url = withInstanceView(request.url, path);
    const response = await this.#read({ ...rest, url, method: "GET", headers });
    if (response.status === 404) return { resource: undefined };
    const resource = parseJson(response.bodyAsText ?? "");
    return response.status === 200 && isObject(resource) ? { resource } : { refusal: { ...response, request } };
  }

  #reply(request: PipelineRequest, status: number, body: JsonObject | undefined): PipelineResponse {
    const headers = this.#createHeaders({ "content-type": "application/json" });
    return { request, status, headers, bodyAsText: body === undefined ? "" : JSON.stringify(body) };
  }
}

/** Later reads of a VM may ask for its power state, which a plain read does not show. */
function withInstanceView(url: string, path: string): string {
  if (!typeOf(path).endsWith("/virtualmachines")) return url;
  const expanded = new URL(url);
  expanded.searchParams.set("$expand", "instanceView");
  return expanded.href;
}

/** `microsoft.network/loadbalancers`; empty for a path that is not a resource's. */
function typeOf(path: string): string {
  const parsed = parseArmPath(path);
  return parsed?.provider === undefined ? "" : `${parsed.provider}/${parsed.type}`.toLowerCase();
}

/** Types in words. */
const typeWords: Readonly<Record<string, string>> = {
  "microsoft.compute/virtualmachines": "VM",
  "microsoft.compute/virtualmachinescalesets": "scale set",
  "microsoft.compute/virtualmachinescalesets/virtualmachines": "scale set instance",
  "microsoft.network/loadbalancers": "load balancer",
  "microsoft.network/networkinterfaces": "network interface",
  "microsoft.network/networksecuritygroups": "security group",
  "microsoft.network/privatelinkservices": "private link service",
  "microsoft.network/publicipaddresses": "public IP",
  "microsoft.network/routetables": "route table",
  "microsoft.network/virtualnetworks/subnets": "subnet",
};

function titleOf(path: string): string {
  const parsed = parseArmPath(path);
  const word = typeWords[typeOf(path)] ?? parsed?.type ?? "";
  return `${word} ${parsed?.names.join("/") ?? path} in resource group ${parsed?.resourceGroup ?? ""}`;
}

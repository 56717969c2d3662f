import { defaultLoadBalancerName, keyOf, type Node, type Service } from "cloud-controller-host/sdk";

import type { FieldChange } from "./fields.ts";

/** Deleted objects that are still found: what a deletion causes is written later. */
const maxDeleted = 1_000;

/** Finds the Services and nodes behind a change by what identifies them in it: names, addresses, provider IDs. */
export class Reasons {
  readonly #byToken = new Map<string, readonly string[]>();
  readonly #tokens = new Map<string, readonly string[]>();
  /** Oldest first. */
  readonly #deleted = new Set<string>();

  constructor(services: Iterable<Service> = [], nodes: Iterable<Node> = []) {
    for (const service of services) this.addService(service);
    for (const node of nodes) this.addNode(node);
  }

  /** A Service as it is now. */
  addService(service: Service): void {
    const { loadBalancer } = service.status ?? {};
    const addresses = (loadBalancer?.ingress ?? []).flatMap(({ ip }) => ip ?? []);
    const key = keyOf(service);
    this.#add(`Service ${key}`, [
      key,
      ...addresses,
      ...(service.metadata?.uid ? [defaultLoadBalancerName(service)] : []),
    ]);
  }

  /** A node as it is now. */
  addNode(node: Node): void {
    const name = keyOf(node);
    const addresses = (node.status?.addresses ?? []).flatMap(({ type, address }) =>
      type === "InternalIP" ? [address] : [],
    );
    const instance = node.spec?.providerID?.replace(/^[a-z]+:\/\//u, "");
    this.#add(`Node ${name}`, [name, ...addresses, ...(node.spec?.podCIDRs ?? []), ...(instance ? [instance] : [])]);
  }

  /** An object like `Service default/web` that exists no more. It is still found for a while. */
  deleted(reason: string): void {
    this.#deleted.delete(reason);
    this.#deleted.add(reason);
    const [oldest] = this.#deleted;
    if (this.#deleted.size <= maxDeleted || oldest === undefined) return;
    this.#deleted.delete(oldest);
    this.#remove(oldest);
  }

  #add(reason: string, tokens: readonly string[]): void {
    this.#deleted.delete(reason);
    const keys = [...new Set(tokens.map((token) => token.toLowerCase()))];
    if (Bun.deepEquals(this.#tokens.get(reason), keys)) return;
    this.#remove(reason);
    this.#tokens.set(reason, keys);
    for (const key of keys) this.#byToken.set(key, [...(this.#byToken.get(key) ?? []), reason]);
  }

  #remove(reason: string): void {
    for (const key of this.#tokens.get(reason) ?? []) {
      const others = (this.#byToken.get(key) ?? []).filter((one) => one !== reason);
      if (others.length === 0) this.#byToken.delete(key);
      else this.#byToken.set(key, others);
    }
    this.#tokens.delete(reason);
  }

  /** In order. Empty where nothing in the change identifies a Service or a node. */
  of(resource: string, fields: readonly FieldChange[], more: readonly string[] = []): readonly string[] {
    const found = new Set<string>();
    const text = `${resource}\n${more.join("\n")}\n${JSON.stringify(fields)}`.toLowerCase();
    for (const token of new Set(text.match(/[^\s"',[\]{}=()]+/gu)))
      for (const part of partsOf(token)) for (const reason of this.#byToken.get(part) ?? []) found.add(reason);
    return [...found].toSorted();
  }
}

/** A token, and what names made from names begin with: `a0123…-TCP-80`, `default-web`. */
function partsOf(token: string): readonly string[] {
  const dash = token.indexOf("-");
  const trimmed = token.replace(/[.:]$/u, "");
  return [token, trimmed, ...(dash > 0 ? [token.slice(0, dash)] : [])];
}

import { defaultLoadBalancerName, keyOf, type Node, type Service } from "cloud-controller-host/sdk";

import type { FieldChange } from "./changes.ts";

/** Finds the Services and nodes behind a change by what identifies them in it: names, addresses, provider IDs. */
export class Reasons {
  readonly #byToken = new Map<string, Set<string>>();

  constructor(services: Iterable<Service>, nodes: Iterable<Node>) {
    for (const service of services) {
      const { loadBalancer } = service.status ?? {};
      const addresses = (loadBalancer?.ingress ?? []).flatMap(({ ip }) => ip ?? []);
      const key = keyOf(service);
      const tokens = [key, ...addresses, ...(service.metadata?.uid ? [defaultLoadBalancerName(service)] : [])];
      this.#add(`Service ${key}`, tokens);
    }
    for (const node of nodes) {
      const name = keyOf(node);
      const addresses = (node.status?.addresses ?? []).flatMap(({ type, address }) =>
        type === "InternalIP" ? [address] : [],
      );
      const instance = node.spec?.providerID?.replace(/^[a-z]+:\/\//u, "");
      const tokens = [name, ...addresses, ...(node.spec?.podCIDRs ?? []), ...(instance ? [instance] : [])];
      this.#add(`Node ${name}`, tokens);
    }
  }

  #add(reason: string, tokens: readonly string[]): void {
    for (const token of tokens) {
      const key = token.toLowerCase();
      this.#byToken.set(key, (this.#byToken.get(key) ?? new Set()).add(reason));
    }
  }

  /** In order. Empty where nothing in the change identifies a Service or a node. */
  of(resource: string, fields: readonly FieldChange[], more: readonly string[]): readonly string[] {
    const found = new Set<string>();
    const text = `${resource}\n${more.join("\n")}\n${JSON.stringify(fields)}`.toLowerCase();
    for (const [token] of text.matchAll(/[^\s"',[\]{}=()]+/gu))
      for (const part of partsOf(token)) for (const reason of this.#byToken.get(part) ?? []) found.add(reason);
    return [...found].toSorted();
  }
}

/** A token, and what names made from names begin with: `a0123…-TCP-80`, `default-web`. */
function partsOf(token: string): readonly string[] {
  const dash = token.indexOf("-");
  const trimmed = token.replace(/[.:]$/u, "");
  return [...new Set([token, trimmed, ...(dash > 0 ? [token.slice(0, dash)] : [])])];
}

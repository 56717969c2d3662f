import { type CIDR, keyOf, type Logger, type Node } from "cloud-controller-host/sdk";

import type { Allocations, Claim, Overlap } from "../cidrset/allocations.ts";
import type { IpamSettings } from "../settings.ts";
import type { IpamEvents } from "./events.ts";
import { type PodCidrProblem, podCidrTexts, readPodCidrs, uidOf } from "./pod-cidrs.ts";

interface RecordsParts {
  readonly settings: IpamSettings;
  readonly allocations: Allocations;
  readonly events: IpamEvents;
  readonly log: Logger;
}

/**
 * Records observed CIDRs in the allocations. Watch events may be outdated: they only add to a node's claim. A read of the
 * API server may also reduce it.
 */
export class NodeRecords {
  readonly #parts: RecordsParts;
  /** UIDs of nodes that were observed without CIDRs and to which we have assigned none, by name. */
  readonly #waiting = new Map<string, string>();
  /** All CIDRs ever sent for a node, by name: whenever one is observed there, it is ours. */
  readonly #sent = new Map<string, Set<string>>();
  /** The problems last reported for a node, so that they are reported once. */
  readonly #reported = new Map<string, string>();

  constructor(parts: RecordsParts) {
    this.#parts = parts;
  }

  /** Handles a watch event. */
  seen(node: Node): void {
    const { allocations, settings } = this.#parts;
    const name = keyOf(node);
    const claim = allocations.claimOf(name);
    if (podCidrTexts(node).length === 0) {
      if (!this.isSettled(node)) this.#waiting.set(name, uidOf(node));
      return;
    }
    const { cidrs, problems } = readPodCidrs(node, settings);
    if (this.#isOurs(name, cidrs)) this.#waiting.delete(name);
    if (claim === undefined || sameCidrs(known(claim), cidrs))
      this.#report(node, problems, allocations.observe(name, uidOf(node), cidrs));
    else if (!sameCidrs(claim.held, cidrs) || claim.uid !== uidOf(node))
      this.#report(node, problems, allocations.add(name, uidOf(node), cidrs));
  }

  /** Handles a read of the API server. True when the node waited for our CIDRs and has others now. */
  confirmed(node: Node): boolean {
    const { allocations, settings } = this.#parts;
    const name = keyOf(node);
    const { cidrs, problems } = readPodCidrs(node, settings);
    this.#report(node, problems, allocations.observe(name, uidOf(node), cidrs));
    const waited = this.#waiting.get(name) === uidOf(node);
    this.#waiting.delete(name);
    return waited && cidrs.length > 0 && !this.#isOurs(name, cidrs);
  }

  /** Remembers CIDRs that are about to be written. */
  sending(name: string, cidrs: readonly CIDR[]): void {
    this.#sent.getOrInsertComputed(name, () => new Set()).add(textOf(cidrs));
  }

  /** The node was deleted, or has no CIDRs. */
  released(name: string): void {
    this.#parts.allocations.release(name);
    this.#waiting.delete(name);
    this.#sent.delete(name);
    this.#reported.delete(name);
  }

  /** True when the claim is exactly what the node was observed to have. */
  isSettled(node: Node): boolean {
    const claim = this.#parts.allocations.claimOf(keyOf(node));
    return claim !== undefined && claim.unsure.length === 0 && claim.uid === uidOf(node);
  }

  /** True when the node waited for our CIDRs and has some now whose writer has not been determined yet. */
  isDoubtful(node: Node): boolean {
    return podCidrTexts(node).length > 0 && this.#waiting.get(keyOf(node)) === uidOf(node);
  }

  #isOurs(name: string, cidrs: readonly CIDR[]): boolean {
    return this.#sent.get(name)?.has(textOf(cidrs)) === true;
  }

  #report(node: Node, problems: readonly PodCidrProblem[], overlaps: readonly Overlap[]): void {
    const { events, log } = this.#parts;
    const all = [...problems, ...overlapProblems(overlaps)];
    const name = keyOf(node);
    const text = `${uidOf(node)} ${all.map(({ message }) => message).join(" ")}`;
    if (all.length === 0 || this.#reported.get(name) === text) return;
    this.#reported.set(name, text);
    for (const problem of all) {
      log.warn("Node has invalid pod CIDRs", { node: name, problem: problem.message });
      events.problem(node, problem);
    }
  }
}

const maxNamed = 3;

/** A single problem: a large CIDR may overlap with those of half the cluster. */
function overlapProblems(overlaps: readonly Overlap[]): readonly PodCidrProblem[] {
  if (overlaps.length === 0) return [];
  const named = overlaps.slice(0, maxNamed).map(({ cidr, other, node }) => {
    const whose = node === undefined ? `service range ${other.text}` : `${other.text} of node ${node}`;
    return `${cidr.text} overlaps ${whose}`;
  });
  const more = overlaps.length > maxNamed ? [`and ${overlaps.length - maxNamed} more`] : [];
  return [{ fault: "PodCIDRConflict", message: [...named, ...more].join(", ") }];
}

const known = ({ held, unsure }: Claim): readonly CIDR[] => [...held, ...unsure];

const textOf = (cidrs: readonly CIDR[]): string => cidrs.map(({ text }) => text).join(",");
const sameCidrs = (one: readonly CIDR[], other: readonly CIDR[]): boolean => textOf(one) === textOf(other);

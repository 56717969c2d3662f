import { keyOf, type Logger, type Node } from "cloud-controller-host/sdk";

import type { Claim, Occupancy, Overlap } from "../allocation/allocations.ts";
import type { Cidr } from "../cidrset/cidr.ts";
import type { IpamEvents } from "../events.ts";
import type { IpamSettings } from "../settings.ts";
import { type PodCidrProblem, podCidrTexts, readPodCidrs, uidOf } from "./pod-cidrs.ts";

interface RecordsParts {
  readonly settings: IpamSettings;
  readonly occupancy: Occupancy;
  readonly events: IpamEvents;
  readonly log: Logger;
}

/**
 * Takes what is seen of nodes into the occupancy. News from the watch may be old: they only ever add to what is kept
 * for a node. What an answer of the API server says may also take something away.
 */
export class NodeRecords {
  readonly #parts: RecordsParts;
  /** UIDs of nodes that were seen without CIDRs and have not been given any by us, by name. */
  readonly #waiting = new Map<string, string>();
  /** What was ever to be written to a node, by name: whenever it is seen there, it is ours. */
  readonly #sent = new Map<string, Set<string>>();
  /** What was last told of a node's CIDRs, so that it is told once. */
  readonly #told = new Map<string, string>();

  constructor(parts: RecordsParts) {
    this.#parts = parts;
  }

  /** News from the watch. */
  seen(node: Node): void {
    const { occupancy, settings } = this.#parts;
    const name = keyOf(node);
    const claim = occupancy.claimOf(name);
    if (podCidrTexts(node).length === 0) {
      if (!this.isSettled(node)) this.#waiting.set(name, uidOf(node));
      return;
    }
    const { cidrs, problems } = readPodCidrs(node, settings);
    if (this.#isOurs(name, cidrs)) this.#waiting.delete(name);
    if (claim === undefined || sameCidrs(known(claim), cidrs))
      this.#tell(node, problems, occupancy.settle(name, uidOf(node), cidrs));
    else if (!sameCidrs(claim.held, cidrs) || claim.uid !== uidOf(node))
      this.#tell(node, problems, occupancy.add(name, uidOf(node), cidrs));
  }

  /** An answer of the API server. True when somebody else has given CIDRs to a node that waited for ours. */
  confirmed(node: Node): boolean {
    const { occupancy, settings } = this.#parts;
    const name = keyOf(node);
    const { cidrs, problems } = readPodCidrs(node, settings);
    this.#tell(node, problems, occupancy.settle(name, uidOf(node), cidrs));
    const waited = this.#waiting.get(name) === uidOf(node);
    this.#waiting.delete(name);
    return waited && cidrs.length > 0 && !this.#isOurs(name, cidrs);
  }

  /** These are about to be written to the node. */
  sending(name: string, cidrs: readonly Cidr[]): void {
    this.#sent.getOrInsertComputed(name, () => new Set()).add(textOf(cidrs));
  }

  /** The node is gone, or has nothing: nothing is kept for it. */
  released(name: string): void {
    this.#parts.occupancy.release(name);
    this.#waiting.delete(name);
    this.#sent.delete(name);
    this.#told.delete(name);
  }

  /** Whether all that is kept for this node is what it was seen to have. */
  isSettled(node: Node): boolean {
    const claim = this.#parts.occupancy.claimOf(keyOf(node));
    return claim !== undefined && claim.unsure.length === 0 && claim.uid === uidOf(node);
  }

  /** A node that waited for ours has CIDRs now, and who gave them has not been found out yet. */
  isDoubtful(node: Node): boolean {
    return podCidrTexts(node).length > 0 && this.#waiting.get(keyOf(node)) === uidOf(node);
  }

  #isOurs(name: string, cidrs: readonly Cidr[]): boolean {
    return this.#sent.get(name)?.has(textOf(cidrs)) === true;
  }

  #tell(node: Node, problems: readonly PodCidrProblem[], overlaps: readonly Overlap[]): void {
    const { events, log } = this.#parts;
    const all = [...problems, ...overlapProblems(overlaps)];
    const name = keyOf(node);
    const text = `${uidOf(node)} ${all.map(({ message }) => message).join(" ")}`;
    if (all.length === 0 || this.#told.get(name) === text) return;
    this.#told.set(name, text);
    for (const problem of all) {
      log.warn("something is wrong with the pod CIDRs of a node", { node: name, problem: problem.message });
      events.problem(node, problem);
    }
  }
}

const mostNamed = 3;

/** One problem, however many there are: a large CIDR may overlap those of half the cluster. */
function overlapProblems(overlaps: readonly Overlap[]): readonly PodCidrProblem[] {
  if (overlaps.length === 0) return [];
  const named = overlaps.slice(0, mostNamed).map(({ cidr, other, node }) => {
    const whose = node === undefined ? `service range ${other.text}` : `${other.text} of node ${node}`;
    return `${cidr.text} overlaps ${whose}`;
  });
  const more = overlaps.length > mostNamed ? [`and ${overlaps.length - mostNamed} more`] : [];
  return [{ fault: "PodCIDRConflict", message: [...named, ...more].join(", ") }];
}

const known = ({ held, unsure }: Claim): readonly Cidr[] => [...held, ...unsure];

const textOf = (cidrs: readonly Cidr[]): string => cidrs.map(({ text }) => text).join(",");
const sameCidrs = (one: readonly Cidr[], other: readonly Cidr[]): boolean => textOf(one) === textOf(other);

import type { Family } from "../../model/model.ts";
import { frontendName } from "../../model/names.ts";
import type { Draft, PlannedService, ResourceDraft } from "../draft/draft.ts";
import { type Balancer, frontendsWith, namedFor, rulesOn } from "../draft/edits.ts";
import type { FrontendTargets } from "./add.ts";
import { isOwnRule } from "./remove.ts";

interface Placed extends PlannedService {
  readonly target: ResourceDraft<Balancer> | undefined;
  readonly frontends: FrontendTargets;
}

/** A Service whose frontend is to have another public IP. Ids are in lower case. */
interface Move<P> {
  readonly placed: P;
  /** Undefined where it has no frontend. */
  readonly from: string | undefined;
  readonly to: string;
}

/**
 * Services that want the public IP which another one leaves: ARM may refuse both changes in one write. After such a refusal
 * they keep what they have until the other one has left it. Of those that exchange theirs, the newest has to be without one
 * until then.
 */
export function withoutExchanges<P extends Placed>(draft: Draft, placements: readonly P[]): readonly P[] {
  return (["IPv4", "IPv6"] as const).reduce((all, family) => withoutExchangesOf(draft, all, family), placements);
}

function withoutExchangesOf<P extends Placed>(draft: Draft, placements: readonly P[], family: Family): readonly P[] {
  const isRefused = ({ failed, target }: P): boolean =>
    target !== undefined && failed?.has(target.id.toLowerCase()) === true;
  if (!placements.some(isRefused)) return placements;
  const moves = placements.flatMap((placed) => moveOf(placed, family) ?? []);
  const byAddress = new Map(moves.flatMap((move) => (move.from === undefined ? [] : [[move.from, move] as const])));
  const byPlacement = new Map(moves.map((move) => [move.placed, move]));
  return placements.map((placed) => {
    const move = byPlacement.get(placed);
    const { subject, target, frontends } = placed;
    if (move === undefined || target === undefined || !byAddress.has(move.to)) return placed;
    draft.pending.add(subject.key);
    target.services.add(subject.key);
    const kept = new Map(frontends);
    const ring = ringOf(move, byAddress);
    if (move.from === undefined || moves.findLast((one) => ring.includes(one)) === move) kept.delete(family);
    else kept.set(family, { kind: "public", publicIPId: move.from });
    return { ...placed, frontends: kept };
  });
}

/** Undefined for a Service that has the public IP, on its frontend or on that of another one. */
function moveOf<P extends Placed>(placed: P, family: Family): Move<P> | undefined {
  const { subject, target, frontends } = placed;
  const wanted = frontends.get(family);
  if (wanted?.kind !== "public" || target?.observed === undefined) return undefined;
  const { observed } = target;
  const isShared = frontendsWith(observed, wanted.publicIPId).some(({ id = "" }) =>
    rulesOn(observed, id).some(isOwnRule(subject)),
  );
  if (isShared) return undefined;
  const own = namedFor(observed.frontendIPConfigurations, subject.base).find(
    ({ name }) => name === frontendName(subject, family),
  );
  const from = own?.publicIPAddress?.id?.toLowerCase();
  const to = wanted.publicIPId.toLowerCase();
  return from === to ? undefined : { placed, from, to };
}

/** The Services whose addresses lead from this one to the next and back to it; none where they do not. */
function ringOf<P>(move: Move<P>, byAddress: ReadonlyMap<string, Move<P>>): readonly Move<P>[] {
  const ring = new Set([move]);
  let next = byAddress.get(move.to);
  while (next !== undefined && !ring.has(next)) {
    ring.add(next);
    next = byAddress.get(next.to);
  }
  return next === move ? [...ring] : [];
}

import { changes } from "../actions/reads.ts";
import { features, localEvery, stride } from "../actions/service-shapes.ts";
import { maxServices } from "../actions/services.ts";
import { sharedAddresses, sharedFeatures, sharedPorts } from "../actions/shared-shapes.ts";
import type { Action, History } from "../history.ts";
import type { leases } from "../pace.ts";
import type { FaultName } from "../weather.ts";

/** `Math.floor(pick / divisor) % modulus` is the value. */
type Digit = readonly [divisor: number, modulus: number, value: number];

/** The smallest pick that means all of it: what happens stays the same when a table has a new row. */
export function pickOf(...digits: readonly Digit[]): number {
  for (let pick = 0; pick < 1_000_000; pick += 1)
    if (digits.every(([divisor, modulus, value]) => Math.floor(pick / divisor) % modulus === value)) return pick;
  throw new Error(`no pick means ${JSON.stringify(digits)}`);
}

/** The row of a table that has a text. */
export function rowWith(table: readonly unknown[], text: string): Digit {
  const row = table.findIndex((each) => JSON.stringify(each).includes(text));
  if (row < 0) throw new Error(`no row has ${text}`);
  return [1, table.length, row];
}

/** The feature of a Service that has a text, alone or with another one; without a text, that of most. */
function featureWith(divisor: number, text: string, other?: string): readonly Digit[] {
  const [, modulus, row] = rowWith(features, text);
  if (other === undefined)
    return [
      [divisor, modulus, row],
      // Every other round of the numbers combines two.
      [divisor * modulus, 2, 0],
    ];
  const [, , second] = rowWith(features, other);
  const rounds = Array.from({ length: 2 * modulus }, (_, round) => round);
  const round = rounds.find((one) => one % 2 === 1 && (row * stride + one) % modulus === second);
  if (round === undefined) throw new Error(`no number has ${text} and ${other}`);
  return [
    [divisor, modulus, row],
    [divisor * modulus, 2 * modulus, round],
  ];
}

type Happening = Partial<Action> & Pick<Action, "kind">;

/** Creates Service number `index`. */
export const create = (index: number, shape = '"none"', other?: string): Happening => ({
  kind: "createService",
  pick: pickOf([1, maxServices, index], ...featureWith(maxServices, shape, other)),
});

/** Changes one of the Services that are there, in the order of their names. */
export const change = (index: number, of: number, shape = '"none"', other?: string): Happening => ({
  kind: "changeService",
  pick: pickOf([1, of, index], ...featureWith(7, shape, other)),
});

/** Changes Service number `index` where Services have Pods: it has the nodes of its own alone. */
export const changeLocal = (index: number, of: number, shape = '"none"'): Happening => ({
  kind: "changeService",
  pick: pickOf([1, of, index], [7, localEvery, (localEvery + 1 - index) % localEvery], ...featureWith(7, shape)),
});

/** What a number means where Services share addresses: an address, ports and the feature that has a text, by their names. */
function sharedDigits(divisor: number, address: string, ports: string, feature?: string): readonly Digit[] {
  const [addresses, lists] = [Object.keys(sharedAddresses), Object.keys(sharedPorts)];
  const [, modulus, row] = rowWith(sharedFeatures, feature ?? "");
  return [
    [divisor, addresses.length, addresses.indexOf(address)],
    [divisor * addresses.length, lists.length, lists.indexOf(ports)],
    [divisor * addresses.length * lists.length, 2, feature === undefined ? 0 : 1],
    ...(feature === undefined ? [] : [[divisor, modulus, row] as const]),
  ];
}

/** Creates Service number `index` where Services share addresses. */
export const createSharing = (index: number, address: string, ports: string): Happening => ({
  kind: "createService",
  pick: pickOf([1, maxServices, index], ...sharedDigits(maxServices, address, ports)),
});

/** Changes one where Services share addresses. */
export const share = (index: number, of: number, address: string, ports: string, feature?: string): Happening => ({
  kind: "changeService",
  pick: pickOf([1, of, index], ...sharedDigits(7, address, ports, feature)),
});

/** A user removes the finalizer of one, deletes it and creates it again. */
export const forceDelete = (index: number, of: number): Happening => ({
  kind: "forceDelete",
  pick: pickOf([1, of, index], ...featureWith(5, '"none"')),
});

/** Something changes while a read of a path is answered: a row of the table of changes, with the shape of a changed Service. */
export function duringRead(path: string, happening: (typeof changes)[number][1], shape?: string): Happening {
  const row = changes.findIndex(([where, what]) => where === path && what === happening);
  const ofService = shape === undefined ? [] : featureWith(7, shape);
  return { kind: "changeAtRead", pick: pickOf([1, changes.length, row], ...ofService) };
}

/** Requests of all hosts to a server fail in a way, for so many seconds. */
export const weather = (target: Action["target"], fault: FaultName, seconds: number): Happening => ({
  kind: "requests",
  target,
  fault,
  forMs: seconds * 1_000,
});

const usual: Action = { at: 0, kind: "reload", host: 0, pick: 0, forMs: 1_000, fault: "slow", target: "azure" };

interface Spans {
  /** Default: the flags' defaults. */
  readonly lease?: keyof typeof leases;
  readonly convergeMinutes?: number;
  /** At least: faults may last longer than the last of them needs to begin. */
  readonly eventfulMinutes?: number;
}

/** A short history of a small cluster, with what happens at each second. */
export function history(
  { convergeMinutes = 4, eventfulMinutes = 0, lease = "default", ...cluster }: Partial<Omit<History, "pace">> & Spans,
  ...happenings: readonly (readonly [seconds: number, what: Happening])[]
): History {
  const actions = happenings.map(([seconds, what]) => ({ ...usual, ...what, at: seconds * 1_000 }));
  const last = Math.max(0, ...actions.map(({ at }) => at));
  const eventfulMs = Math.max(last + 45_000, eventfulMinutes * 60_000);
  return {
    seed: 1,
    cluster: "plain",
    hosts: 1,
    nodes: 3,
    services: 2,
    operationPolls: 1,
    actions,
    ...cluster,
    pace: { lease, eventfulMs, silentMs: 2 * 60_000, convergeMs: convergeMinutes * 60_000 },
  };
}

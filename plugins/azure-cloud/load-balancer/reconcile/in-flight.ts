import type { Clock } from "cloud-controller-host/sdk";

import { sameName } from "../../arm/resource-id.ts";
import type { Observed, ServiceKey } from "../model/model.ts";
import type { Write } from "../model/plan-model.ts";
import { isMembersWrite } from "../pools/member-jobs.ts";
import { heldBy, movesNodes, subjectsOf } from "./held-resources.ts";

/** A write that is waited for. */
export interface Flight {
  /** Services that are not planned until it ends; empty for the late part of a write, which delays none. */
  readonly services: readonly ServiceKey[];
  /** Ids of the resources that ARM accepts no other write of until then. */
  readonly holds: readonly string[];
  readonly startedMs: number;
  readonly wave: Wave | undefined;
  /** Other nodes are behind a load balancer once it has ended. */
  readonly movesNodes?: boolean;
}

/** Public IPs that are written at about the same time. */
interface Wave {
  readonly services: Set<ServiceKey>;
  /** New ones join until then, and their load balancers and the security group wait for the rest. */
  untilMs: number;
  /** End and duration of the first write. */
  first: { readonly endMs: number; readonly tookMs: number } | undefined;
}

/** The flights of writes that start together, by write. */
type StartedWrites = ReadonlyMap<Write, { readonly flight: Flight }>;

/** Kinds of which one write serves many Services. */
const isMerged: ReadonlySet<Write["kind"]> = new Set(["put-load-balancer", "put-security-group"]);

/** Conflicts of one resource in a row before they are reported. */
const maxConflicts = 5;
const firstPauseMs = 50;
/** The next one of a wave is waited for a quarter of the time that its first write took, and this long at least … */
const minGraceMs = 250;
/** … and all of them for as long as the first write took, and this long at least. */
const longestGraceMs = 1_000;

/** Writes in flight: a resource in here has its one writer. */
export class InFlight {
  readonly #clock: Clock;
  readonly #flights = new Set<Flight>();
  /** By lower-case id: the conflicts so far, and when the resource may be written again. */
  readonly #conflicts = new Map<string, { readonly count: number; readonly untilMs: number }>();
  /** The latest one. */
  #wave: Wave | undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  get size(): number {
    return this.#flights.size;
  }

  /** A copy: what was in flight before an observation may be missing from it. */
  current(): readonly Flight[] {
    return [...this.#flights];
  }

  start(write: Write, observed: Observed): Flight {
    const wave = write.kind === "put-public-ip" ? this.#joinWave(write.services) : undefined;
    return this.add({
      services: write.services,
      holds: heldBy(write, observed),
      wave,
      movesNodes: movesNodes(write, observed),
    });
  }

  add(flight: Omit<Flight, "startedMs">): Flight {
    const started = { ...flight, startedMs: this.#clock.monotonic() };
    this.#flights.add(started);
    return started;
  }

  end(flight: Flight): void {
    this.#flights.delete(flight);
    const { wave } = flight;
    if (wave === undefined) return;
    const nowMs = this.#clock.monotonic();
    wave.first ??= { endMs: nowMs, tookMs: nowMs - flight.startedMs };
    const { endMs, tookMs } = wave.first;
    wave.untilMs = Math.min(nowMs + Math.max(minGraceMs, tookMs / 4), endMs + Math.max(longestGraceMs, tookMs));
  }

  #joinWave(services: readonly ServiceKey[]): Wave {
    const nowMs = this.#clock.monotonic();
    if (this.#wave === undefined || this.#wave.untilMs <= nowMs)
      this.#wave = { services: new Set(), untilMs: nowMs + minGraceMs, first: undefined };
    for (const key of services) this.#wave.services.add(key);
    return this.#wave;
  }

  /**
   * True if nothing is in flight that holds what the write is about, and none of it pauses after a conflict. `earlier`:
   * what was in flight before the observation, and may have ended since. `started`: writes that start together with it.
   * Those of members of one load balancer do not exclude each other: they are carried out as one, which writes an
   * instance once for all its pools.
   */
  isFree(write: Write, observed: Observed, earlier: readonly Flight[], started: StartedWrites = new Map()): boolean {
    if (this.#isPaused(write.id)) return false;
    const subjects = subjectsOf(write, observed);
    const isSubject = (id: string): boolean => subjects.some((one) => sameName(id, one));
    const others = new Set([...earlier, ...this.#flights]);
    if (isMembersWrite(write)) for (const [one, { flight }] of started) if (isMembersWrite(one)) others.delete(flight);
    return ![...others].some(({ holds }) => holds.some(isSubject));
  }

  #isPaused(id: string): boolean {
    return (this.#conflicts.get(id.toLowerCase())?.untilMs ?? 0) > this.#clock.monotonic();
  }

  /** Until the next resource may be written again after a conflict; infinite when none waits. */
  pauseMs(): number {
    const nowMs = this.#clock.monotonic();
    const pauses = [...this.#conflicts.values()].map(({ untilMs }) => untilMs - nowMs);
    return Math.min(Number.POSITIVE_INFINITY, ...pauses.filter((ms) => ms > 0));
  }

  /** False when it is one conflict too many. */
  conflicted(id: string): boolean {
    const count = (this.#conflicts.get(id.toLowerCase())?.count ?? 0) + 1;
    const pauseMs = count < 2 ? 0 : firstPauseMs * 2 ** count * (0.5 + Math.random());
    this.#conflicts.set(id.toLowerCase(), { count, untilMs: this.#clock.monotonic() + pauseMs });
    if (count < maxConflicts) return true;
    this.#conflicts.delete(id.toLowerCase());
    return false;
  }

  written(id: string): void {
    this.#conflicts.delete(id.toLowerCase());
  }

  /** Time left to wait for the rest of the waves. */
  graceMs(): number {
    const nowMs = this.#clock.monotonic();
    return Math.max(0, ...this.#waves().map(({ untilMs }) => untilMs - nowMs));
  }

  /** True for a write that serves many at once, as long as the rest of a wave of one of its Services is waited for. */
  isHeldBack({ kind, services }: Write): boolean {
    if (!isMerged.has(kind)) return false;
    const nowMs = this.#clock.monotonic();
    const open = this.#waves().filter(({ untilMs }) => untilMs > nowMs);
    return open.some((wave) => services.some((key) => wave.services.has(key)));
  }

  /** Waves with an ended write, and another one in flight. */
  #waves(): readonly Wave[] {
    const waves = new Set([...this.#flights].flatMap(({ wave }) => wave ?? []));
    return [...waves].filter(({ first }) => first !== undefined);
  }
}

import type { Service } from "cloud-controller-host/sdk";

import { isRefused } from "../../arm/writes/write-errors.ts";
import type { Observed, ServiceKey } from "../model/model.ts";
import type { Write } from "../model/plan-model.ts";
import { isMembersWrite } from "../pools/member-jobs.ts";
import type { GuardedRounds } from "../removals/guarded-round.ts";
import { type Applier, isResourceWrite, type WriteOutcome } from "./apply/apply.ts";
import type { Flight, InFlight } from "./in-flight.ts";
import type { Known } from "./observe/needed-reads.ts";
import type { Observer } from "./observe/observe.ts";
import type { Outcomes } from "./outcomes.ts";
import { createdPools } from "./rounds.ts";
import type { Ticker } from "./ticker.ts";
import type { Wanted } from "./wanted.ts";

export interface WriteStarterOptions {
  readonly applier: Pick<Applier, "start" | "members">;
  readonly observer: Pick<Observer, "wrote">;
  readonly rounds: Pick<GuardedRounds, "started" | "ended">;
  readonly wanted: ReadonlyMap<ServiceKey, Wanted>;
  readonly known: Known;
  readonly inFlight: InFlight;
  readonly outcomes: Pick<Outcomes, "take">;
  readonly ticker: Ticker;
}

interface Started {
  readonly flight: Flight;
  /** Services for which the write may create something, as they were then. */
  readonly ensured: readonly Service[];
}

/** Starts writes without waiting for them. The end of each leads to the next tick. */
export class WriteStarter {
  readonly #options: WriteStarterOptions;

  constructor(options: WriteStarterOptions) {
    this.#options = options;
  }

  /** Starts the writes that are free beside each other. `earlier`: in flight before the observation. */
  start(ready: readonly Write[], observed: Observed, earlier: readonly Flight[]): void {
    const { applier, inFlight } = this.#options;
    const started = new Map<Write, Started>();
    for (const write of ready)
      if (inFlight.isFree(write, observed, earlier, started)) {
        const begun = this.#begin(write, observed);
        if (begun !== undefined) started.set(write, begun);
      }
    const take = (outcome: WriteOutcome): Promise<void> => this.#take(outcome, started.get(outcome.write));
    const writes = [...started.keys()];
    for (const { promise } of applier.start(writes.filter(isResourceWrite), observed)) void promise.then(take);
    void applier.members(writes.filter(isMembersWrite), observed).then((outcomes) => outcomes.map(take));
  }

  /** Undefined when the resource was written too often for one of the Services, which fails: the others are planned again. */
  #begin(write: Write, observed: Observed): Started | undefined {
    const { inFlight, known, rounds, ticker, wanted } = this.#options;
    const entries = write.services.flatMap((key) => wanted.get(key) ?? []);
    // Counted for each of them.
    const isAllowed = !entries.map((entry) => entry.countStart(write)).includes(false);
    if (!isAllowed) {
      ticker.soon();
      return undefined;
    }
    for (const id of createdPools(write, observed)) known.createdPools.add(id);
    rounds.started(write);
    return { flight: inFlight.start(write, observed), ensured: entries.flatMap(({ ensured }) => ensured) };
  }

  async #take(outcome: WriteOutcome, started: Started | undefined): Promise<void> {
    const { inFlight, observer, outcomes, rounds, ticker } = this.#options;
    rounds.ended(outcome);
    if (!("error" in outcome && isRefused(outcome.error))) observer.wrote(outcome, started?.ensured ?? []);
    if (started !== undefined) await outcomes.take(started.flight, outcome);
    if (started?.flight.wave === undefined || inFlight.graceMs() === 0) ticker.soon();
    else void ticker.afterAll(() => inFlight.graceMs());
  }
}

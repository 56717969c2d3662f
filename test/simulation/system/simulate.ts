import { keyOf } from "cloud-controller-host/sdk";

import type { HostInput } from "../../../host/run/process-parts.ts";
import { defaultLimits } from "../../../plugins/azure-cloud/simulator/state/limits.ts";
import { startTheirs } from "./actions/elsewhere.ts";
import { joinNodes } from "./actions/nodes.ts";
import { perform } from "./actions/perform.ts";
import { startSecond } from "./actions/second.ts";
import { createService, createUsersIPs } from "./actions/services.ts";
import { allHosts, firstHosts } from "./deployments.ts";
import { type Action, type ActionKind, type History } from "./history.ts";
import type { SimulatedHost } from "./host-program.ts";
import { Conditions } from "./invariants/conditions.ts";
import { Departures } from "./invariants/departures.ts";
import { Elsewhere } from "./invariants/elsewhere.ts";
import { buildDifferences, builtIn, raze } from "./invariants/fresh-build.ts";
import { Leaders } from "./invariants/leaders.ts";
import { watchNodes } from "./invariants/nodes.ts";
import { problemsOf } from "./invariants/problems.ts";
import { isRefused, refusedIn } from "./invariants/refusals.ts";
import { Removals } from "./invariants/removals.ts";
import { Continuity } from "./invariants/services.ts";
import { Storms } from "./invariants/storms.ts";
import type { InvariantName, Violation } from "./invariants/table.ts";
import { isDirect } from "./invariants/wishes.ts";
import { fullPace, type Pace } from "./pace.ts";
import type { HostRequest, WorldObserver } from "./requests.ts";
import { World } from "./world.ts";

export interface Outcome {
  readonly violations: readonly Violation[];
  /** Of the trace: the same for the same history. */
  readonly hash: string;
  readonly trace: readonly string[];
  readonly requests: number;
  readonly writes: number;
  readonly virtualMs: number;
  /** How often each kind of action has happened. */
  readonly happened: Readonly<Partial<Record<ActionKind, number>>>;
}

const minuteMs = 60_000;
/** Longest time from the end of the faults until all is well: a key that failed often waits up to 1,000 s. */
const convergeMs = 45 * minuteMs;
/** All must be well in so many looks, a minute apart. */
const stableLooks = 3;
/** A fresh process that leads has synced and reconciled everything by then. */
const freshMs = 2 * minuteMs;
/** One history in so many ends with a build from nothing. */
const buildEvery = 3;
/** Long enough for the lease of a killed process, and for six writes in a row whose operations take 50 s each. */
const buildMs = 10 * minuteMs;
const lookMs = 15_000;

const isFailure = (status = 0): boolean => (status >= 400 || status === 0) && status !== 404;

/** Runs a history to its end, or to its first violation. */
export async function simulate(program: HostInput, history: History): Promise<Outcome> {
  await using world = await World.open(program, history);
  return await new Run(world, history).run();
}

class Run {
  readonly #world: World;
  readonly #history: History;
  readonly #pace: Pace;
  readonly #violations: Violation[] = [];
  readonly #departures: Departures;
  readonly #continuity: Continuity;
  readonly #removals: Removals;
  readonly #leaders: Leaders;
  readonly #elsewhere: Elsewhere;
  readonly #storms: Storms;
  readonly #conditions: Conditions;
  readonly #happened: Partial<Record<ActionKind, number>> = {};
  /** Everything is gone, and is built again. */
  #isRazed = false;
  #writes = 0;
  /** The revision of the last check. */
  #checked: string | undefined;

  constructor(world: World, history: History) {
    this.#world = world;
    this.#history = history;
    this.#pace = history.pace ?? fullPace;
    this.#departures = new Departures(world);
    this.#continuity = new Continuity(world, this.#departures, this.#violate);
    this.#removals = new Removals(world, this.#departures, this.#violate);
    this.#elsewhere = new Elsewhere(world, this.#violate);
    this.#storms = new Storms(world, this.#violate);
    this.#conditions = new Conditions(world);
    this.#leaders = new Leaders(world, this.#violate);
    watchNodes(world, this.#violate);
    world.reads.changed = () => this.#accept();
    world.observer = { ...this.#observer, sent: (request) => this.#sent(request) };
  }

  async run(): Promise<Outcome> {
    const world = this.#world;
    const { nodes, services, actions } = this.#history;
    const hosts = allHosts(this.#history);
    createUsersIPs(world);
    startTheirs(world);
    for (let index = 0; index < nodes; index += 1) joinNodes(world, { pick: 0, forMs: 0 });
    for (let index = 0; index < services; index += 1) createService(world, { pick: index });
    startSecond(world);
    for (const host of hosts) world.startHost(host);
    for (const action of actions) if (hosts.includes(action.host)) world.after(action.at, () => this.#perform(action));
    world.after(lookMs, () => this.#look());
    world.after(minuteMs, () => this.#lookForFailures());
    await this.#until(this.#pace.eventfulMs);
    if (this.#holds()) await this.#end();
    const { trace } = world;
    return {
      violations: this.#violations,
      hash: trace.hash,
      trace: trace.lines,
      requests: this.#storms.requests,
      writes: this.#writes,
      virtualMs: world.now,
      happened: this.#happened,
    };
  }

  #perform(action: Action): void {
    if (!perform(this.#world, action)) return;
    this.#happened[action.kind] = (this.#happened[action.kind] ?? 0) + 1;
    this.#accept();
  }

  /** Takes things as they are after a change from outside. */
  #accept(): void {
    this.#checked = undefined;
    this.#removals.accept(this.#world.view());
    if (this.#world.meddled) this.#continuity.forget();
  }

  /** What is as it was the last time has nothing new to show. */
  #check(): void {
    const revision = `${this.#world.revision} ${this.#continuity.settledReturns}`;
    if (revision === this.#checked) return;
    this.#checked = revision;
    const view = this.#world.view();
    this.#continuity.check(view);
    this.#removals.check(view);
    this.#elsewhere.check(view);
  }

  readonly #violate = (invariant: InvariantName, detail: string): void => {
    this.#violations.push({ invariant, text: `${(this.#world.now / 1000).toFixed(3)} s: ${detail}` });
    this.#world.note("BROKEN", `${invariant}: ${detail}`);
  };

  readonly #observer: Omit<WorldObserver, "sent"> = {
    lost: (host, exchange) => {
      this.#conditions.lost(exchange);
      this.#lost(host);
    },
    done: (...done) => this.#done(...done),
  };

  readonly #holds = (): boolean => this.#violations.length === 0;

  #until(time: number): Promise<void> {
    return this.#world.runtime.timeline.runUntil(time, this.#holds);
  }

  #sent(request: HostRequest): void {
    this.#storms.sent(request.exchange.path);
    if (request.isWrite) this.#writes += 1;
    this.#leaders.sent(request);
    this.#departures.sent(request);
  }

  #lost(host: SimulatedHost): void {
    this.#leaders.failed(host);
  }

  /** Azure changes with a write, and as its operation ends. */
  #done({ host, target, isWrite, exchange }: HostRequest, text: string, status: number | undefined): void {
    if (isFailure(status)) this.#lost(host);
    this.#conditions.done(exchange, isFailure(status));
    if (target !== "azure") return;
    if (isWrite || (exchange.path.includes("/operations/") && !text.includes("InProgress"))) this.#check();
  }

  #look(): void {
    if (!this.#isRazed) this.#check();
    for (const error of this.#world.runtime.unhandled.splice(0)) this.#violate("no unhandled error", error);
    this.#world.after(lookMs, () => this.#look());
  }

  #lookForFailures(): void {
    if (this.#isRazed) return;
    this.#leaders.check();
    this.#world.after(minuteMs, () => this.#lookForFailures());
  }

  /** The faults end. */
  async #end(): Promise<void> {
    const world = this.#world;
    world.note("world", "is calm from now on");
    world.weather.clear();
    world.watches.clear();
    world.reads.clear();
    world.azure.clearFailures();
    world.azure.setLimits(defaultLimits);
    world.azure.setReadLag(0);
    world.api.watches.resume();
    for (const host of world.hosts) host.process.resume();
    // What a person has removed comes back with a sync of every Service.
    world.writeConfig(world.meddled ? { tags: "calm=true" } : {});
    await this.#converge();
    if (this.#holds()) await this.#stayWithoutWrites("then silent", this.#pace.silentMs);
    if (!this.#holds()) return;
    const first = firstHosts(this.#history);
    world.note("world", first.length > 1 ? "is handed to fresh processes" : "is handed to a fresh process");
    world.restarts = false;
    for (const host of world.hosts) host.kill();
    for (const host of first) world.startHost(host);
    const { durationMs, retryPeriodMs } = world.lease;
    await this.#stayWithoutWrites("plans nothing", durationMs + 3 * retryPeriodMs + freshMs);
    if (this.#holds() && !this.#leaders.areComplete)
      this.#violate("eventually stable", "the fresh process does not lead");
    if (this.#holds() && this.#history.seed % buildEvery === 0) await this.#buildAgain();
  }

  /** Compares what the history has left with what a process builds from nothing. */
  async #buildAgain(): Promise<void> {
    const world = this.#world;
    const { balancers, sharesAddresses } = world.cluster;
    // Some Services keep what they had; which of several load balancers or Services has something depends on their order.
    const isOwn = world.abandoned.length > 0 || Object.keys(balancers).length > 1 || sharesAddresses;
    if (isOwn || world.services().some((service) => isRefused(world, service) || isDirect(service))) return;
    const before = builtIn(world);
    for (const host of world.hosts) host.kill();
    world.note("world", "is built again from nothing");
    this.#isRazed = true;
    raze(world);
    world.observer = undefined;
    for (const host of firstHosts(this.#history)) world.startHost(host);
    const until = world.now + buildMs;
    let differences: readonly string[] = ["nothing"];
    while (differences.length > 0 && world.now < until && this.#holds()) {
      await this.#until(world.now + minuteMs);
      differences = buildDifferences(before, builtIn(world));
    }
    if (this.#holds() && differences.length > 0) this.#violate("equal to a fresh build", differences.join("; "));
  }

  async #converge(): Promise<void> {
    const { now, operations, heldUntil } = this.#world;
    const until = Math.max(now, operations.lastEnd, heldUntil) + (this.#pace.convergeMs ?? convergeMs);
    let looks = 0;
    while (looks < stableLooks && this.#world.now < until) {
      await this.#until(this.#world.now + minuteMs);
      if (!this.#holds()) return;
      const isPaused = this.#world.hosts.some(({ process }) => process.state === "paused");
      const isBusy = isPaused || this.#world.now < operations.lastEnd || this.#conditions.areDue;
      looks = !isBusy && problemsOf(this.#world).length === 0 && this.#leaders.areComplete ? looks + 1 : 0;
    }
    if (looks === stableLooks) return;
    const problems = problemsOf(this.#world).map(({ text }) => text);
    if (!this.#leaders.areComplete) problems.push("no host leads");
    this.#violate("eventually stable", problems.join("; "));
  }

  /** A Service that is refused is tried again now and then, and its condition shows when. */
  #isRetry({ exchange }: HostRequest): boolean {
    return refusedIn(this.#world).some((service) =>
      exchange.path.startsWith(`/api/v1/namespaces/${keyOf(service).replace("/", "/services/")}/status`),
    );
  }

  async #stayWithoutWrites(invariant: InvariantName, ms: number): Promise<void> {
    const world = this.#world;
    // A process that starts finds what no other has known of, such as the public IP of a former Service of a name.
    const mayWrite = invariant === "plans nothing" && world.forgiven.length > 0;
    world.observer = {
      ...this.#observer,
      sent: (request) => {
        this.#sent(request);
        if (request.isWrite && !mayWrite && !this.#isRetry(request))
          this.#violate(
            invariant,
            `host${request.host.index} sends ${request.exchange.method} ${request.exchange.path}`,
          );
      },
    };
    const before = this.#storms.counted;
    await this.#until(world.now + ms);
    if (this.#holds()) this.#storms.rested(this.#storms.counted - before, ms);
  }
}

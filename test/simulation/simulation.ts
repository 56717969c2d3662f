import { phaseRules } from "../host/generation/phase-rules.ts";
import { intruder, SimulatedApiServer } from "./api-server.ts";
import { configText, Disk } from "./disk.ts";
import { type Action, faultyMs, type Schedule } from "./schedule.ts";
import { SimHost } from "./sim-host.ts";
import { randomOf, Timeline } from "./timeline.ts";

export interface SimulationResult {
  /** Empty: every invariant held. */
  readonly violations: readonly string[];
  readonly steps: number;
  /** Virtual milliseconds. */
  readonly duration: number;
  /** The last lines of every log. */
  readonly log: readonly string[];
}

/** From the end of the faults until exactly one host must run the newest good config and plugin. */
const convergeMs = 120_000;
/** A stop ends within the drain, disposal and release limits, and what their sleeps add. */
const stopLimitMs = 60_000;
const restartMs = 1_500;
/** A write in two halves: shorter than the time in which content settles, and then longer. */
const tornMs = 200;
const wholeMs = 700;
const tornWrites = 6;
const otherObjects = 4;
/** Between two writes of other clients. */
const [quietMs, busyMs] = [1_000, 50];

/** Runs a schedule. The real jitter of leader election comes from `Math.random`, which is the seed's meanwhile. */
export async function simulate(schedule: Schedule): Promise<SimulationResult> {
  const real = Math.random;
  const random = randomOf(schedule.seed ^ 0x5f5f5f5f);
  Math.random = random;
  try {
    return await new Simulation(schedule, random).run();
  } finally {
    Math.random = real;
  }
}

class Simulation {
  readonly #schedule: Schedule;
  readonly #timeline: Timeline;
  readonly #api: SimulatedApiServer;
  readonly #disks: readonly Disk[];
  /** The newest process of each host. */
  readonly #hosts: SimHost[] = [];
  readonly #ended: SimHost[] = [];
  readonly #violations: string[] = [];
  #versions = 0;

  constructor(schedule: Schedule, random: () => number) {
    this.#schedule = schedule;
    this.#timeline = new Timeline(random);
    this.#api = new SimulatedApiServer(this.#timeline);
    this.#disks = Array.from({ length: schedule.hosts }, () => new Disk());
  }

  async run(): Promise<SimulationResult> {
    for (const index of this.#disks.keys()) this.#start(index);
    for (const action of this.#schedule.actions)
      if (!("host" in action) || action.host < this.#schedule.hosts)
        this.#timeline.after(action.at, () => this.#perform(action));
    this.#touch();
    const holds = (): boolean => this.#check();
    await this.#timeline.runUntil(faultyMs + 15_000, holds);
    if (this.#violations.length === 0) await this.#converge(holds);
    const all = [...this.#ended, ...this.#hosts];
    const violations = [...this.#violations];
    const log = violations.length === 0 ? [] : all.flatMap(({ lines }) => [...lines]);
    for (const host of all) host.discard();
    return { violations, steps: this.#timeline.steps, duration: this.#timeline.now, log };
  }

  /** Watches of a busy cluster bring something all the time, as they do where many nodes report their status. */
  get #isBusy(): boolean {
    return this.#schedule.seed % 3 === 0;
  }

  /** Other clients write ConfigMaps all the time. */
  #touch(): void {
    const random = this.#timeline.random();
    this.#api.store.touch(`other-${Math.floor(random * otherObjects)}`);
    this.#timeline.after((this.#isBusy ? busyMs : quietMs) * (1 + random), () => this.#touch());
  }

  #start(index: number): void {
    const disk = this.#disks[index];
    if (disk === undefined) return;
    const previous = this.#hosts[index];
    if (previous !== undefined) this.#ended.push(previous);
    this.#hosts[index] = new SimHost({
      index,
      timeline: this.#timeline,
      api: this.#api,
      disk,
      violation: (text) => void this.#violations.push(`${this.#timeline.now.toFixed(0)} ms: ${text}`),
    });
  }

  #startWithLease(index: number): void {
    const someoneLives = this.#hosts.some(({ isAlive }) => isAlive);
    if (this.#api.lease === undefined && someoneLives)
      this.#timeline.after(restartMs, () => this.#startWithLease(index));
    else this.#start(index);
  }

  /** Whatever ends is started again, as the kubelet does. */
  #restartDead(): void {
    for (const [index, host] of this.#hosts.entries()) {
      if (host.isAlive || this.#restarting.has(host)) continue;
      this.#restarting.add(host);
      this.#timeline.after(restartMs, () => this.#startWithLease(index));
    }
  }

  readonly #restarting = new Set<SimHost>();

  #perform(action: Action): void {
    const host = "host" in action ? this.#hosts[action.host] : undefined;
    const disk = "host" in action ? this.#disks[action.host] : undefined;
    switch (action.kind) {
      case "config": {
        const text = configText(++this.#versions, action.fault);
        if (action.torn) this.#writeTorn(disk, text, tornWrites);
        else disk?.writeConfig(text);
        if (action.torn) this.#timeline.after(tornMs / 2, () => host?.hangUp());
        return;
      }
      case "plugin":
        return disk?.writePlugin(`${++this.#versions} ${action.fault}`);
      case "removeConfig": {
        disk?.writeConfig("");
        // A half that stays for long would be a whole file to every reader.
        this.#timeline.after(action.forMs, () => disk?.config === "" && disk.writeConfig(disk.whole));
        return;
      }
      case "hangUp":
        return host?.hangUp();
      case "stop":
        return host?.stop();
      case "kill":
        return host?.time.kill();
      case "loseWatches":
        return host && this.#api.loseWatches(host.time);
      case "overtake":
        return host && this.#overtake(host, action.forMs);
      case "pause":
        host?.time.pause();
        this.#timeline.after(action.forMs, () => host?.time.resume());
        return;
      case "requests":
        return void this.#api.faults.push({
          host: action.host,
          fault: action.fault,
          until: this.#timeline.now + action.forMs,
        });
      case "deleteLease":
        return this.#deleteLease();
      case "stealLease":
        return this.#api.store.editLease((lease) => ({
          ...(lease ?? { metadata: { namespace: "kube-system", name: "cloud-controller-manager" } }),
          spec: { ...lease?.spec, holderIdentity: intruder, leaseDurationSeconds: 12 },
        }));
      case "editLease":
        return this.#api.store.editLease(
          (lease) => lease && { ...lease, metadata: { ...lease.metadata, labels: { edited: "yes" } } },
        );
    }
  }

  /**
   * The leader stops while a standby waits for a list that was sent before, or for the next event of a lost watch, or
   * while its watch brings what is long past.
   */
  #overtake(standby: SimHost, forMs: number): void {
    const { time, index } = standby;
    const kind = this.#timeline.random();
    if (kind < 1 / 3) this.#api.slowWatches(time);
    else {
      if (kind < 2 / 3) this.#api.loseWatches(time);
      else this.#api.expireWatches(time);
      this.#api.faults.push({ host: index, fault: "lateReply", until: this.#timeline.now + forMs });
    }
    this.#timeline.after(forMs * this.#timeline.random(), () => this.#hosts.find(({ leads }) => leads)?.stop());
  }

  /** Writes a config again and again, each time in two halves, of which the first is valid alone. */
  #writeTorn(disk: Disk | undefined, text: string, times: number): void {
    if (times === 0) return;
    disk?.writeConfig(text.slice(0, text.indexOf("\n") + 1));
    this.#timeline.after(tornMs, () => {
      disk?.writeConfig(text);
      this.#timeline.after(wholeMs, () => this.#writeTorn(disk, text, times - 1));
    });
  }

  /**
   * Known limit, as in client-go: a candidate that has never observed the Lease creates it at once, though it may have
   * been deleted under a leader a moment ago. So a Lease is deleted only while every process has observed it, and
   * processes start only once it is there again.
   */
  #deleteLease(): void {
    if (this.#hosts.some((host) => host.time.state === "dead" || !host.hasObserved)) return;
    this.#api.store.editLease(() => undefined);
  }

  #check(): boolean {
    this.#restartDead();
    const writers = this.#hosts.filter(({ mayWrite }) => mayWrite);
    if (writers.length > 1) this.#violate(`hosts ${writers.map(({ index }) => index).join(" and ")} may write`);
    for (const { index, supervisor } of writers)
      if (phaseRules[supervisor.phase].mayWrite === "nothing")
        this.#violate(`host ${index} may write while ${supervisor.phase}`);
    for (const host of this.#hosts) host.checkRefusals();
    for (const host of this.#hosts)
      if (host.isAlive && host.stoppedAt !== undefined && this.#timeline.now - host.stoppedAt > stopLimitMs)
        this.#violate(`host ${host.index} has not ended ${stopLimitMs / 1000} s after it was stopped`);
    return this.#violations.length === 0;
  }

  #violate(text: string): void {
    this.#violations.push(`${this.#timeline.now.toFixed(0)} ms: ${text}`);
  }

  /** No more faults, and one last good config and plugin everywhere. */
  async #converge(holds: () => boolean): Promise<void> {
    this.#api.faults = [];
    for (const host of this.#hosts) host.time.resume();
    const config = configText(++this.#versions, "none");
    const plugin = `${++this.#versions} none`;
    for (const disk of this.#disks) {
      disk.writeConfig(config);
      disk.writePlugin(plugin);
    }
    const until = this.#timeline.now + convergeMs;
    let quiet = 0;
    while (quiet < 3 && this.#timeline.now < until) {
      await this.#timeline.runUntil(this.#timeline.now + 1_000, holds);
      if (!holds()) return;
      quiet = this.#isConverged(plugin) ? quiet + 1 : 0;
    }
    if (quiet < 3) {
      const states = this.#hosts.map(({ index, isAlive, leads, supervisor }) => {
        const { phase, controllers } = supervisor.status;
        return `host ${index}: ${isAlive ? phase : "dead"}, leads ${leads}, ${controllers.join(" ")}`;
      });
      this.#violate(`not exactly one host runs the newest config and plugin: ${states.join("; ")}`);
    }
    for (const host of this.#hosts) this.#checkReports(host);
  }

  #isConverged(plugin: string): boolean {
    const leaders = this.#hosts.filter(({ leads }) => leads);
    const [leader] = leaders;
    if (leaders.length !== 1 || leader === undefined) return false;
    const { running, lastRefusal, refusedPlugins, controllers } = leader.supervisor.status;
    const isNewest = leader.supervisor.status.pluginHash === plugin && controllers.length === 2;
    return running && isNewest && lastRefusal === undefined && refusedPlugins.length === 0;
  }

  /** Every reload that began has one outcome, and every one of them is reported. */
  #checkReports(host: SimHost): void {
    const outcomes = [
      "Reload completed",
      "Reload completed; the new generation stands by",
      "Reload refused; the running generation continues",
      "Reload skipped: config and plugins are unchanged",
      "Reload restarted: a newer change arrived",
      "Reload superseded",
      "disableCloudProvider is true: controllers are stopped until a config without it arrives",
    ];
    const begun = host.count("Reload started");
    const reported = outcomes.reduce((sum, message) => sum + host.count(message), 0);
    // The first config may be a disabled one, which no reload has begun for.
    if (begun > reported) this.#violate(`host ${host.index}: ${begun} reloads began and ${reported} were reported`);
  }
}

import { expect, test } from "bun:test";

import { eventually } from "cloud-controller-host/sdk/testing";

import { serveCloud, type ServedCloud } from "../kit/cloud-server.ts";
import { controllersFlags } from "../kit/controllers-host.ts";
import { HostProcess } from "../kit/host-process.ts";
import { HostLab } from "../kit/host-under-test.ts";
import { describeOnReal, type Platform, writesAmong } from "../kit/platform.ts";
import { Random } from "../kit/random.ts";
import { isThorough } from "../kit/thorough.ts";
import { Day } from "./day.ts";
import { foreignRoute, whatIsWrong } from "./wanted.ts";
import { watchLaws, type Witness } from "./witness.ts";

/** For a machine that is three times slower than the one on which a row takes a minute and a half. */
const longestMs = 400_000;

/** One test per row; with those of the night they make at least 50 kills. */
const rows: readonly { readonly seed: number; readonly kills: number; readonly standby: boolean }[] = [
  { seed: 20_261_001, kills: 18, standby: false },
  // Two hosts, of which one leads: the other takes over when the lease of the killed one has run out.
  { seed: 20_261_003, kills: 10, standby: true },
  ...(isThorough
    ? [
        { seed: 20_261_002, kills: 18, standby: false },
        { seed: 20_261_004, kills: 16, standby: true },
      ]
    : []),
];

const alone: readonly string[] = ["--leader-elect=false"];
const elected: readonly string[] = [
  "--leader-elect-lease-duration=2s",
  "--leader-elect-renew-deadline=1500ms",
  "--leader-elect-retry-period=300ms",
];

interface World {
  readonly platform: Platform;
  readonly cloud: ServedCloud;
  readonly witness: Witness;
  readonly day: Day;
  readonly flags: readonly string[];
}

test("runs at least twenty kills, and fifty at night", () => {
  expect(rows.reduce((sum, { kills }) => sum + kills, 0)).toBeGreaterThanOrEqual(isThorough ? 50 : 20);
});

describeOnReal("a day on which the process is killed again and again", (platform, cluster) => {
  const lab = new HostLab(platform);

  async function openWorld(random: Random, election: readonly string[]): Promise<World> {
    const cloud = lab.use(
      await serveCloud({ delay: () => ({ beforeMs: random.between(0, 120), afterMs: random.between(0, 120) }) }),
    );
    cloud.memory.routes.set(foreignRoute.name, foreignRoute);
    const witness = lab.use(await watchLaws(await cluster.kubeconfig("witness", ["system:masters"]), cloud));
    const flags = await controllersFlags(platform(), cloud, {
      flags: [...election, "--cloud-node-lifecycle-controller-max-missing-percent=100"],
    });
    return { platform: platform(), cloud, witness, flags, day: new Day({ ...platform(), cloud, witness, random }) };
  }

  /** Kills hosts during the day; resolves with the number of hosts killed during a cloud call. */
  async function killAll({ cloud, flags }: World, random: Random, kills: number, hosts: number): Promise<number> {
    const running: HostProcess[] = [];
    let hitAtWork = 0;
    for (let kill = 0; kill < kills; kill++) {
      while (running.length < hosts) running.push(lab.run({ flags }));
      const victim = await chooseVictim(running, random);
      // One in five is killed while it starts, the others some time after their first cloud call.
      const calls = cloud.memory.calls.length;
      if (random.chance(0.8))
        await eventually("the cloud is asked", () => cloud.memory.calls.length > calls, 15_000).catch(() => undefined);
      await Bun.sleep(random.between(0, 1_000));
      if (cloud.underWay > 0) hitAtWork++;
      victim.signal("SIGKILL");
      await victim.ended();
      running.splice(running.indexOf(victim), 1);
    }
    return hitAtWork;
  }

  for (const { seed, kills, standby } of rows)
    test(
      `${kills} times (seed ${seed}${standby ? ", with a second host standing by" : ""}): nothing is leaked or duplicated`,
      async () => {
        const world = await openWorld(new Random(seed + 1), standby ? elected : alone);
        const { cloud, witness, day } = world;
        const over = new AbortController();
        const random = new Random(seed);
        const living = live(day, random, over.signal);
        const hitAtWork = await killAll(world, new Random(seed + 2), kills, standby ? 2 : 1).finally(() =>
          over.abort(),
        );
        await living;

        const last = lab.run({ flags: world.flags });
        await last.eventually("cluster and cloud are as they should be", async () => {
          const wrong = await whatIsWrong(world.platform.admin, cloud);
          if (wrong.length > 0) throw new Error(wrong.join("\n"));
          return true;
        });
        await restsAsItIs(world);
        expect(witness.breaches).toEqual([]);
        expect(madeTooOften(world)).toEqual([]);
        // Killed hosts that were idle would show nothing.
        expect(hitAtWork).toBeGreaterThan(kills / 3);
        expect(day.acts).toBeGreaterThan(kills);
      },
      longestMs,
    );
});

async function live(day: Day, random: Random, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    await day.act();
    await Bun.sleep(random.between(20, 150));
  }
}

/** At least four times in five the leader, if there is one. */
async function chooseVictim(hosts: readonly HostProcess[], random: Random): Promise<HostProcess> {
  const leads = await Promise.all(
    hosts.map((host) =>
      host.status().then(
        ({ leading }) => leading,
        () => false,
      ),
    ),
  );
  const leader = hosts.find((_, index) => leads[index]);
  const victim = random.chance(0.8) ? (leader ?? random.pick(hosts)) : random.pick(hosts);
  if (victim === undefined) throw new Error("no host to kill");
  return victim;
}

/** Once all is as it should be, further passes write nothing. */
async function restsAsItIs({ platform, cloud }: World): Promise<void> {
  const mark = await platform.mark();
  const changes = cloud.changes.length;
  const passes = cloud.memory.callsOf("listRoutes").length;
  await eventually("five more passes", () => cloud.memory.callsOf("listRoutes").length > passes + 5, 30_000);
  expect(writesAmong(await platform.requests(mark))).toEqual([]);
  expect(cloud.changes.slice(changes)).toEqual([]);
}

/** Load balancers and routes that were created more often than there were reasons to create them. */
function madeTooOften({ cloud, day }: World): readonly string[] {
  const reasons = new Map<string, number>([
    ...[...day.balancersWanted].map(([name, times]) => [`balancer made default/${name}`, times] as const),
    ...[...day.joined].map(([name, times]) => [`route made ${name}`, times] as const),
  ]);
  const made = cloud.changes.map(({ what, target }) => `${what} ${target.split(" ")[0]}`);
  const counts = Map.groupBy(
    made.filter((text) => text.includes(" made ")),
    (text) => text,
  );
  return [...counts].flatMap(([what, times]) => {
    const reasonable = reasons.get(what) ?? 0;
    return times.length > reasonable ? [`${what}: ${times.length} times, for ${reasonable} reasons`] : [];
  });
}

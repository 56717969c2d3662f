import { join } from "node:path";

import { controllerNames, kinds, type KubeClient } from "cloud-controller-host/sdk";

import { simulateAzure } from "../kit/azure.ts";
import { HostProcess } from "../kit/host-process.ts";
import { hostUser, rolesOf } from "../kit/host-roles.ts";
import { type Bench, type Figure, percentile } from "./report.ts";
import { engineSettings, mainOf, numberOf, realCluster } from "./world.ts";

/** How long no replica runs controllers when a leader is stopped cleanly and another host stands by. */
export const handoverBench: Bench = {
  about: "stop the leader cleanly, again and again, and measure until the other host runs controllers",
  options: { times: "20", main: "host/main.ts" },
  async run(options) {
    await using stack = new AsyncDisposableStack();
    const cluster = await realCluster(stack, { audited: false });
    const azure = stack.use(await simulateAzure());
    await cluster.grant(hostUser, await rolesOf([controllerNames.cloudNode]));
    const flags = [
      `--kubeconfig=${await cluster.kubeconfig(hostUser)}`,
      `--cloud-config=${azure.config}`,
      `--plugin-dir=${await clockPlugin(azure.folder)}`,
      "--controllers=marker-controller",
    ];
    const environment = await engineSettings();
    const main = await mainOf(stack, options["main"] ?? "");
    let leader = stack.use(new HostProcess({ flags, environment, main }));
    await leader.until("the first leads", ({ running }) => running);
    const handovers: Handover[] = [];
    for (let round = 0; round < numberOf(options, "times"); round++) {
      const standby = stack.use(new HostProcess({ flags, environment, main }));
      await standby.until("the next stands by", ({ generation, running }) => generation === 1 && !running);
      // Long enough for its watch of the Lease to stand, as it has in any real rollout.
      await Bun.sleep(500);
      leader.signal("SIGTERM");
      await standby.until("the next leads", ({ running }) => running);
      await leader.ended();
      const begins = await standby.eventually("its log tells when", () => timeOf(standby, "marker begins"));
      const acquired = timeOf(standby, "Successfully acquired lease") ?? begins;
      const ends = timeOf(leader, "marker ends") ?? begins;
      const released = timeOf(leader, "Leadership ended") ?? ends;
      handovers.push({
        gap: begins - ends,
        release: released - ends,
        acquire: acquired - released,
        start: begins - acquired,
      });
      leader = standby;
    }
    await leader.stop();
    return [...figuresOf(handovers), await leaseWrite(cluster.admin)];
  },
};

/** Times of one hand-over in milliseconds; the last three add up to the first. */
interface Handover {
  /** During which no controller ran. */
  readonly gap: number;
  /** From the end of the controllers to the reply to the write that releases the lease. */
  readonly release: number;
  /** From there until the standby has it. Negative where the standby was faster than that reply. */
  readonly acquire: number;
  /** From there until its controllers run. */
  readonly start: number;
}

function figuresOf(handovers: readonly Handover[]): readonly Figure[] {
  const of = (phase: keyof Handover): number[] => handovers.map((handover) => handover[phase]);
  const slowest = handovers.toSorted((one, other) => other.gap - one.gap)[0];
  return [
    { name: "handovers", value: handovers.length },
    {
      name: "p50Ms",
      value: percentile(of("gap"), 0.5),
      unit: "ms during which no controller ran",
      aim: "at most 30 ms",
    },
    { name: "p99Ms", value: percentile(of("gap"), 0.99), unit: "ms", aim: "at most 39 ms" },
    { name: "maxMs", value: Math.max(...of("gap")), unit: "ms" },
    { name: "releaseP50Ms", value: percentile(of("release"), 0.5), unit: "ms until the lease is released" },
    { name: "acquireP50Ms", value: percentile(of("acquire"), 0.5), unit: "ms from there until it is acquired" },
    { name: "startP50Ms", value: percentile(of("start"), 0.5), unit: "ms from there until controllers run" },
    {
      name: "slowest",
      value: slowest === undefined ? "" : `${slowest.release} + ${slowest.acquire} + ${slowest.start}`,
      unit: "ms: release, acquire, start",
    },
  ];
}

/** The floor of a hand-over: it is two such writes in a row, one of the leader and one of the standby. */
async function leaseWrite(admin: KubeClient): Promise<Figure> {
  let lease = await admin.create(kinds.Lease, { metadata: { name: "floor", namespace: "default" }, spec: {} });
  const times: number[] = [];
  for (let round = 0; round < 20; round++) {
    const began = performance.now();
    lease = await admin.replace(kinds.Lease, { ...lease, spec: { holderIdentity: String(round) } });
    times.push(performance.now() - began);
  }
  return {
    name: "leaseWriteP50Ms",
    value: percentile(times, 0.5),
    unit: "ms that one write of a Lease takes, of the two in a hand-over",
  };
}

/** A controller that logs when its run begins and ends. */
async function clockPlugin(folder: string): Promise<string> {
  const directory = join(folder, "plugins");
  await Bun.write(
    join(directory, "marker", "plugin.ts"),
    `import { defineController } from "cloud-controller-host/sdk";
     export default defineController({
       name: "marker-controller",
       construct: () => (context) => ({
         async run(signal) {
           context.log.info("marker begins");
           if (!signal.aborted) await new Promise((resolve) => signal.addEventListener("abort", resolve));
           context.log.info("marker ends");
         },
       }),
     });`,
  );
  return directory;
}

/** When a host last logged it, in milliseconds since midnight. */
function timeOf(host: HostProcess, what: string): number | undefined {
  const [, hours, minutes, seconds] = / (\d\d):(\d\d):(\d\d\.\d{3})/.exec(host.lines(what).at(-1) ?? "") ?? [];
  return seconds === undefined ? undefined : ((Number(hours) * 60 + Number(minutes)) * 60 + Number(seconds)) * 1000;
}

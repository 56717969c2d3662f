import { join } from "node:path";

import { controllerNames } from "cloud-controller-host/sdk";

import { simulateAzure } from "../kit/azure.ts";
import { HostProcess } from "../kit/host-process.ts";
import { rolesOf } from "../kit/host-under-test.ts";
import { hostUser } from "../kit/platform.ts";
import { type Bench, type Figure, percentile } from "./report.ts";
import { numberOf, realCluster } from "./world.ts";

/** How long nobody runs controllers when a leader is stopped cleanly and another host stands by. */
export const handoverBench: Bench = {
  about: "stop the leader cleanly, again and again, and measure until the other host runs controllers",
  options: { times: "20" },
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
    let leader = stack.use(new HostProcess({ flags }));
    await leader.until("the first leads", ({ running }) => running);
    const gaps: number[] = [];
    for (let round = 0; round < numberOf(options, "times"); round++) {
      const standby = stack.use(new HostProcess({ flags }));
      await standby.until("the next stands by", ({ generation, running }) => generation === 1 && !running);
      // Long enough for its watch of the Lease to stand, as it has in any real rollout.
      await Bun.sleep(500);
      leader.signal("SIGTERM");
      await standby.until("the next leads", ({ running }) => running);
      await leader.ended();
      const begins = await standby.eventually("its log tells when", () => markOf(standby, "begins"));
      const ends = markOf(leader, "ends") ?? begins;
      gaps.push(begins - ends);
      leader = standby;
    }
    await leader.stop();
    return figuresOf(gaps);
  },
};

const figuresOf = (gaps: readonly number[]): readonly Figure[] => [
  { name: "handovers", value: gaps.length },
  { name: "p50Ms", value: percentile(gaps, 0.5), unit: "ms during which no controller ran" },
  { name: "p99Ms", value: percentile(gaps, 0.99), unit: "ms", aim: "at most 50 ms" },
  { name: "maxMs", value: Math.max(...gaps), unit: "ms" },
];

/** A controller that tells, in milliseconds since 1970, when its run begins and ends. */
async function clockPlugin(folder: string): Promise<string> {
  const directory = join(folder, "plugins");
  await Bun.write(
    join(directory, "marker", "plugin.ts"),
    `import { defineController } from "cloud-controller-host/sdk";
     export default defineController({
       name: "marker-controller",
       construct: () => (context) => ({
         async run(signal) {
           context.log.info("marker begins=" + Date.now());
           if (!signal.aborted) await new Promise((resolve) => signal.addEventListener("abort", resolve));
           context.log.info("marker ends=" + Date.now());
         },
       }),
     });`,
  );
  return directory;
}

function markOf(host: HostProcess, mark: "begins" | "ends"): number | undefined {
  const found = /=(\d+)/.exec(
    host
      .lines(`marker ${mark}=`)
      .at(-1)
      ?.replace(/^.*marker/, "") ?? "",
  );
  return found === null ? undefined : Number(found[1]);
}

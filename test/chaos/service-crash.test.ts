import { expect, setDefaultTimeout, test } from "bun:test";

import { controllerNames, kinds, type Service, taints } from "cloud-controller-host/sdk";

import type { HoldStage } from "../../plugins/azure-cloud/simulator/faults.ts";
import type { AzureSimulator } from "../../plugins/azure-cloud/simulator/simulator.ts";
import { joinNodes } from "../kit/azure.ts";
import type { HostProcess } from "../kit/host-process.ts";
import { rolesOf } from "../kit/host-roles.ts";
import { HostLab } from "../kit/host-under-test.ts";
import { describeOnReal, type Platform, writesAmong } from "../kit/platform.ts";
import { Random } from "../kit/random.ts";
import { addressesOf, balancedService, deleteService, patchService } from "../kit/services.ts";
import { AzureView } from "../scenario/service-features.ts";

/** For a machine that is several times slower than the one on which a seed takes ten seconds. */
setDefaultTimeout(180_000);

const kills = 5;
const names = Array.from({ length: 6 }, (_, index) => `web-${index}`);

describeOnReal("a process that is killed between two writes for Services", (platform) => {
  const lab = new HostLab(platform);

  for (const seed of [20_261_121])
    test(`leaks and duplicates nothing, and the next start writes nothing (seed ${seed})`, async () => {
      const random = new Random(seed);
      const azure = await lab.azure();
      const { simulator } = azure;
      // Longer than the pause between two looks at what has been written.
      simulator.setLatency(20);
      await joinNodes(platform().admin, azure, 2, ({ spec, ...node }) => ({
        ...node,
        spec: { ...spec, taints: (spec?.taints ?? []).filter(({ key }) => key !== taints.uninitialized) },
      }));
      const view = new AzureView(simulator);
      const before = view.footprint();
      const kubeconfig = await platform().kubeconfig(await rolesOf([controllerNames.serviceLB]));
      const start = (): HostProcess =>
        lab.run({
          flags: [
            `--kubeconfig=${kubeconfig}`,
            `--cloud-config=${azure.config}`,
            `--controllers=${controllerNames.serviceLB}`,
            "--leader-elect=false",
            "--kube-api-qps=-1",
          ],
        });
      const wanted = new Set<string>();
      let interrupted = 0;

      for (let kill = 0; kill < kills; kill++) {
        await change(platform(), random, wanted);
        simulator.clearLog();
        const victim = start();
        const writes = random.between(0, 3);
        const isResting = (): boolean => victim.lines(" Services, ").length > 0;
        await victim.eventually("it has written so much", () => armWrites(simulator).length >= writes || isResting());
        const stage: HoldStage = random.chance(0.5) ? "request" : "response";
        const holds = ["PUT", "DELETE"].map((method) => simulator.hold({ method }, stage));
        const isHeld = (): boolean => holds.some(({ waiting }) => waiting() > 0);
        await victim.eventually("it writes, or rests", () => isHeld() || isResting());
        if (isHeld()) interrupted += 1;
        victim.signal("SIGKILL");
        await victim.ended();
        for (const hold of holds) hold.release();
        while (simulator.underway() > 0) await Bun.sleep(1);
      }
      expect(interrupted).toBeGreaterThanOrEqual(2);

      const last = start();
      const services = await last.eventually("each wanted Service has an address, and the others are gone", () =>
        settled(platform(), wanted),
      );
      expect(new Set(services.flatMap(addressesOf)).size).toBe(wanted.size);
      expect(view.items("frontendIPConfigurations").size).toBe(wanted.size);
      expect(publicIPsOf(simulator.resources())).toHaveLength(wanted.size);
      expect(await last.stop()).toBe(0);

      simulator.clearLog();
      const mark = await platform().mark();
      const next = start();
      await next.eventually(
        "every Service is verified",
        () => next.lines(`"Verified ${wanted.size} Services`).length > 0,
      );
      expect(next.lines(`"Verified ${wanted.size} Services, 0 writes"`)).toHaveLength(1);
      expect(armWrites(simulator)).toEqual([]);
      expect(writesAmong(await platform().requests(mark))).toEqual([]);

      for (const name of wanted) await deleteService(platform().admin, name);
      await next.eventually("all are gone", async () => (await balanced(platform())).length === 0);
      expect(view.footprint()).toEqual(before);
    });
});

const balanced = async ({ admin }: Platform): Promise<readonly Service[]> =>
  (await admin.list(kinds.Service, { namespace: "default" })).filter(({ spec }) => spec?.type === "LoadBalancer");

/** Creates, changes and deletes Services. */
async function change(platform: Platform, random: Random, wanted: Set<string>): Promise<void> {
  const present = new Set((await balanced(platform)).map(({ metadata }) => metadata?.name));
  for (const name of names) {
    const luck = random.next();
    if (!present.has(name)) {
      if (luck > 0.6) continue;
      await platform.admin.create(kinds.Service, balancedService(name));
      wanted.add(name);
    } else if (wanted.has(name) && luck < 0.25) {
      await deleteService(platform.admin, name);
      wanted.delete(name);
    } else if (wanted.has(name) && luck < 0.45)
      await patchService(platform.admin, name, {
        spec: { ports: [{ port: random.between(1, 9_999), protocol: "TCP" }] },
      });
  }
}

async function settled(platform: Platform, wanted: ReadonlySet<string>): Promise<readonly Service[] | undefined> {
  const services = await balanced(platform);
  const isSettled = services.every((one) => addressesOf(one).length === 1 && wanted.has(one.metadata?.name ?? ""));
  return isSettled && services.length === wanted.size ? services : undefined;
}

const armWrites = ({ log }: AzureSimulator): readonly string[] =>
  log.flatMap(({ method, path }) => (method !== "GET" && path.startsWith("/subs") ? [`${method} ${path}`] : []));

const publicIPsOf = (resources: readonly { readonly type: string }[]) =>
  resources.filter(({ type }) => type.toLowerCase() === "microsoft.network/publicipaddresses");

import { expect, setDefaultTimeout, test } from "bun:test";

import { controllerNames, forEachConcurrently, kinds, type Node } from "cloud-controller-host/sdk";

import { freshNode } from "../../host/sandbox/kubelet.ts";
import { serveCloud } from "../kit/cloud-server.ts";
import { startControllers } from "../kit/controllers-host.ts";
import { HostLab } from "../kit/host-under-test.ts";
import { nodeName } from "../kit/kubelet.ts";
import { describeOnReal, writesAmong } from "../kit/platform.ts";

setDefaultTimeout(180_000);

const many = 240;

describeOnReal("pod CIDRs", (platform) => {
  const lab = new HostLab(platform);

  const register = (from: number, count: number): Promise<void> =>
    forEachConcurrently(
      { workers: 16 },
      Array.from({ length: count }, (_, index) => nodeName(from + index)),
      async (name) => void (await platform().admin.create(kinds.Node, freshNode(name, new Date()))),
    );

  const given = async (): Promise<readonly string[]> => {
    const nodes: readonly Node[] = await platform().admin.list(kinds.Node);
    return nodes.flatMap(({ spec }) => spec?.podCIDRs ?? []);
  };

  test(`are given to ${many} nodes at once, none twice, in one write each, with reloads in the midst`, async () => {
    const cloud = lab.use(await serveCloud());
    // What is there before: a node with a CIDR of its own, and the Services' range inside the cluster's.
    await platform().admin.create(kinds.Node, {
      ...freshNode("old", new Date()),
      spec: { podCIDRs: ["10.244.7.0/24"] },
    });
    const host = await startControllers(lab, platform(), cloud, {
      controllers: [controllerNames.nodeIPAM],
      flags: ["--cluster-cidr=10.244.0.0/14", "--service-cluster-ip-range=10.244.16.0/20"],
    });
    await host.until("it runs", ({ running }) => running);
    const mark = await platform().mark();
    const coming = register(1, many);
    for (const reload of [1, 2, 3]) {
      await host.eventually("some are under way", async () => (await given()).length > reload * 50);
      await cloud.touchConfig();
      await host.until("the next generation runs", ({ generation, running }) => generation === reload + 1 && running);
    }
    await coming;
    const cidrs = await host.eventually("all have one", async () => {
      const found = await given();
      return found.length === many + 1 && found;
    });

    expect(new Set(cidrs).size).toBe(many + 1);
    expect(cidrs.filter((cidr) => !/^10\.24[4-7]\.\d+\.0\/24$/.test(cidr))).toEqual([]);
    expect(cidrs.filter((cidr) => /^10\.244\.(1[6-9]|2\d|3[01])\./.test(cidr))).toEqual([]);
    const written = writesAmong(await platform().requests(mark)).map(
      ({ verb, resource, name }) => `${verb} ${resource} ${name}`,
    );
    expect(written.toSorted()).toEqual(
      Array.from({ length: many }, (_, index) => `patch nodes ${nodeName(index + 1)}`).toSorted(),
    );
  });
});

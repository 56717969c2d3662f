import { expect, setDefaultTimeout, test } from "bun:test";

import { SandboxLab } from "../sandbox-lab.ts";

setDefaultTimeout(120_000);

const name = "cloudcontrollermanager.config.k8s.io";

test("/configz shows the external v1alpha1 form and the running generation, never null", async () => {
  await using lab = await SandboxLab.open();
  const host = lab.start({ flags: ["--enable-dynamic-reloading", "--concurrent-node-syncs=3", "--cluster-name=c1"] });
  const shown = async (): Promise<Record<string, Record<string, unknown>>> => {
    const response = await host.get("/configz");
    expect(response.headers.get("content-type")).toBe("application/json");
    return JSON.parse(await response.text());
  };
  await host.until("it runs", ({ running }) => running);
  const first = await shown();
  expect(Object.keys(first)).toEqual([name, "cloud-controller-host"]);
  expect(first[name]).toMatchObject({
    kind: "CloudControllerManagerConfiguration",
    apiVersion: `${name}/v1alpha1`,
    Generic: {
      Controllers: ["cloud-node-controller"],
      MinResyncPeriod: "12h0m0s",
      LeaderElection: { leaderElect: true },
    },
    KubeCloudShared: { CloudProvider: { Name: "azure", CloudConfigFile: lab.azure.config }, ClusterName: "c1" },
    NodeController: { ConcurrentNodeSyncs: 3, ConcurrentNodeStatusUpdates: 3 },
    NodeStatusUpdateFrequency: "5m0s",
  });
  expect(first["cloud-controller-host"]).toMatchObject({ generation: 1 });

  await lab.changeConfig();
  await host.until("the next one runs", ({ generation, running }) => generation === 2 && running);
  const second = await shown();
  expect(second[name]).toEqual(first[name] ?? {});
  expect(second["cloud-controller-host"]).toMatchObject({ generation: 2 });
});

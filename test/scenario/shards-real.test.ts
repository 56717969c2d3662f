import { expect, setDefaultTimeout, test } from "bun:test";
import { appendFile } from "node:fs/promises";

import { controllerNames, kinds, type Permission, type Service } from "cloud-controller-host/sdk";
import { eventually } from "cloud-controller-host/sdk/testing";

import { defaultOptions } from "../../host/config/flags/options.ts";
import { optionsOfShard } from "../../host/config/validate/shard.ts";
import { hostPermissions } from "../../host/run/permissions.ts";
import type { HostProcess } from "../kit/host-process.ts";
import { rolesOf } from "../kit/host-roles.ts";
import { HostLab, shortLease } from "../kit/host-under-test.ts";
import { describeOnBoth } from "../kit/platform.ts";

setDefaultTimeout(180_000);

const place = { namespace: "default", name: "web" };
const limitMs = 60_000;

/** What shards of that name may do, and no more. */
const permissionsOf = (shard: string): readonly Permission[] =>
  hostPermissions(
    optionsOfShard({ ...defaultOptions, cloudConfig: "a file", shard, serviceSelector: `shard=${shard}` }),
  );

describeOnBoth("shards", (platform) => {
  const lab = new HostLab(platform);

  async function start(shard: string, selector: string): Promise<HostProcess> {
    const { config } = await lab.azure();
    const roles = [...(await rolesOf([controllerNames.serviceLB])), ...["a", "b", "c"].flatMap(permissionsOf)];
    const kubeconfig = await platform().kubeconfig(roles);
    return lab.run({
      flags: [
        ...shortLease,
        `--kubeconfig=${kubeconfig}`,
        `--cloud-config=${config}`,
        `--shard=${shard}`,
        `--service-selector=${selector}`,
      ],
    });
  }
  const stored = (): Promise<Service> => platform().admin.get(kinds.Service, place);
  const isServedBy = async (lease: string): Promise<boolean> => {
    const { metadata, status } = await stored();
    const mark = metadata?.annotations?.["cloud-controller-host/served-by"];
    return mark === lease && status?.loadBalancer?.ingress?.length === 1;
  };

  test("serve each Service once, hand it over by its label, and do not lead where they overlap, with the roles that rbac prints", async () => {
    const { config, simulator } = await lab.azure();
    await appendFile(config, "loadBalancerBackendPoolConfigurationType: nodeIP\n");
    const a = await start("a", "shard=a");
    const b = await start("b", "shard in (b)");
    for (const host of [a, b]) await host.until("it leads", ({ leading, running }) => leading && running);
    const c = await start("c", "shard in (c,a)");
    await c.eventually("it reports the overlap", () => c.lines("Not leading: another shard").length > 0);
    expect((await c.status()).leading).toBe(false);

    const labels = { shard: "a" };
    await platform().admin.create(kinds.Service, {
      metadata: { ...place, labels },
      spec: { type: "LoadBalancer", ports: [{ port: 80, protocol: "TCP" }] },
    });
    await eventually("shard a serves it", () => isServedBy("cloud-controller-manager-a"), limitMs);
    const address = (await stored()).status?.loadBalancer?.ingress?.[0]?.ip;
    await platform().admin.patch(kinds.Service, place, "merge", { metadata: { labels: { shard: "b" } } });
    await eventually("shard b serves it", () => isServedBy("cloud-controller-manager-b"), limitMs);
    await eventually(
      "it is in the load balancer of shard b",
      () =>
        JSON.stringify(simulator.get("/providers/Microsoft.Network/loadBalancers/kubernetes-b") ?? "").includes(
          "TCP-80",
        ),
      limitMs,
    );
    expect((await stored()).status?.loadBalancer?.ingress?.[0]?.ip).toBe(address ?? "");

    await platform().admin.delete(kinds.Service, place);
    await eventually(
      "it is gone",
      async () =>
        (await platform().admin.list(kinds.Service, { namespace: "default" })).every(
          ({ metadata }) => metadata?.name !== "web",
        ),
      limitMs,
    );
    expect(
      simulator.requests().filter((one) => one.startsWith("DELETE ") && one.includes("publicIPAddresses")),
    ).toHaveLength(1);
    expect(await a.stop()).toBe(0);
    await c.until("the third leads", ({ leading }) => leading);
    for (const host of [b, c]) expect(host.lines("forbidden")).toEqual([]);
  });
});

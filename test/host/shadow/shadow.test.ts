import { describe, expect, setDefaultTimeout, test } from "bun:test";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";

import { kinds, labels } from "cloud-controller-host/sdk";
import { eventually } from "cloud-controller-host/sdk/testing";

import type { RunningHost } from "../../../host/host.ts";
import type { ShadowStatus } from "../../../host/run/status.ts";
import { joinNodes } from "../../kit/azure.ts";
import { Random } from "../../kit/random.ts";
import { addressesOf, balancedService, deleteService, findService, patchService } from "../../kit/services.ts";
import { isThorough } from "../../kit/thorough.ts";
import { SandboxLab } from "../sandbox-lab.ts";

setDefaultTimeout(240_000);

const controllers = "--controllers=cloud-node-controller,service-lb-controller";
const shadowUser = "shadow";

interface ShadowHost {
  readonly host: RunningHost;
  readonly log: readonly string[];
  status(): ShadowStatus;
}

/** In rounds of twenty; the second round is the first that changes and deletes Services. */
const changesInAll = isThorough ? 100 : 40;

/** A host that only compares, as a user of its own. */
async function shadowIn(lab: SandboxLab, settle: string, flags: readonly string[] = []): Promise<ShadowHost> {
  const kubeconfig = join(lab.azure.folder, "shadow.kubeconfig");
  await writeFile(kubeconfig, lab.api.kubeconfig(shadowUser));
  const own = ["--shadow", `--shadow-settle=${settle}`, controllers, `--kubeconfig=${kubeconfig}`, ...flags];
  const { host, log } = await lab.host(own);
  return {
    host,
    log,
    status() {
      const { shadow } = host.status;
      if (shadow === undefined) throw new Error("the host is not a shadow");
      return shadow;
    },
  };
}

const compared = (shadow: ShadowHost, plans: number): Promise<unknown> =>
  eventually("plans have been compared", () => shadow.status().plans >= plans, 60_000);

const served = (lab: SandboxLab, name: string): Promise<unknown> =>
  eventually(
    "the Service has an address",
    async () => addressesOf(await findService(lab.admin, name))[0] !== undefined,
    60_000,
  );

/** What a user may do to the Services and nodes of a lab; each has a name that no other change of the round has. */
function changesOf(lab: SandboxLab, nodes: readonly string[]) {
  const random = new Random(21);
  const services = Array.from({ length: 16 }, (_, index) => `s${index}`);
  const present = new Set<string>();
  const port = (): number => random.between(1, 60_000);
  const changeService = async (name: string): Promise<void> => {
    if (!present.has(name)) {
      present.add(name);
      await lab.admin.create(kinds.Service, balancedService(name, { ports: [{ port: port(), protocol: "TCP" }] }));
    } else if (random.chance(0.3)) {
      present.delete(name);
      await deleteService(lab.admin, name);
    } else if (random.chance(0.5)) {
      await patchService(lab.admin, name, { spec: { ports: [{ port: port(), protocol: "TCP" }] } });
    } else {
      const key = "service.beta.kubernetes.io/azure-load-balancer-tcp-idle-timeout";
      await patchService(lab.admin, name, { metadata: { annotations: { [key]: String(random.between(4, 30)) } } });
    }
  };
  const changeNode = async (name: string): Promise<void> => {
    const node = await lab.admin.get(kinds.Node, { name });
    const isOut = labels.excludeFromLoadBalancers in (node.metadata?.labels ?? {});
    const metadata = { labels: { [labels.excludeFromLoadBalancers]: isOut ? null : "" } };
    await lab.admin.patch(kinds.Node, { name }, "merge", { metadata });
  };
  return {
    /** Twenty changes. */
    async round(): Promise<void> {
      for (const name of services) await changeService(name);
      for (const name of nodes) await changeNode(name);
    },
  };
}

// Each waits for its host, on a cluster of its own.
describe.concurrent("a host with --shadow", () => {
  test(`agrees with a host that runs the same code, after each of ${changesInAll} random changes`, async () => {
    await using lab = await SandboxLab.open();
    const nodes = await joinNodes(lab.admin, lab.azure, 4);
    await lab.host([controllers]);
    await eventually(
      "the nodes are initialized",
      async () => (await lab.admin.list(kinds.Node)).every(({ spec }) => spec?.taints === undefined),
      60_000,
    );
    const shadow = await shadowIn(lab, "8s");
    await compared(shadow, 1);
    const changes = changesOf(lab, nodes);
    await eventually("all that went before is compared", () => shadow.status().changesPending === 0, 60_000);
    const before = shadow.status().changesAgreed;
    for (let done = 20; done <= changesInAll; done += 20) {
      await changes.round();
      await eventually("the changes are seen", () => shadow.status().changesPending >= 20, 10_000);
      await eventually("the changes are compared", () => shadow.status().changesPending === 0, 60_000);
      const { changesAgreed, changesDiffered, differences } = shadow.status();
      expect({ changesDiffered, differences }).toEqual({ changesDiffered: 0, differences: [] });
      // A slow deletion may be seen as two changes.
      expect(changesAgreed - before).toBeGreaterThanOrEqual(done);
    }
    expect(shadow.status().comparedWith).toBe(lab.lease()?.holderIdentity ?? "");
    const sent = lab.api.requests.list().filter(({ username }) => username === shadowUser);
    expect(sent.length).toBeGreaterThan(5);
    expect(sent.filter(({ method }) => method !== "GET")).toEqual([]);
    expect(sent.filter(({ resource, verb }) => resource === "leases" && verb !== "get")).toEqual([]);
    // Watches stay open between plans.
    expect(sent.filter(({ resource, verb }) => resource === "services" && verb === "list").length).toBeLessThanOrEqual(
      1,
    );
  });

  test("finds, names and counts once what another manager does differently", async () => {
    await using lab = await SandboxLab.open();
    await joinNodes(lab.admin, lab.azure, 1);
    const { host } = await lab.host([controllers]);
    await lab.admin.create(kinds.Service, balancedService("web"));
    await served(lab, "web");
    const config = join(lab.azure.folder, "other.json");
    await writeFile(config, lab.azure.simulator.configWith({ disableOutboundSNAT: true }));
    const shadow = await shadowIn(lab, "2s", [`--cloud-config=${config}`]);
    await eventually("the difference is found", () => shadow.status().differences.length === 1, 60_000);
    await compared(shadow, shadow.status().plans + 2);
    const [difference] = shadow.status().differences;
    expect(difference?.title).toBe("load balancer kubernetes in resource group rg0");
    expect(difference?.reasons).toEqual(["Service default/web"]);
    expect(difference?.fields).toEqual([
      expect.objectContaining({
        path: expect.stringMatching(/^loadBalancingRules\[.*\]\.disableOutboundSnat$/u),
        after: true,
      }),
    ]);

    const { changesAgreed, changesDiffered } = shadow.status();
    await patchService(lab.admin, "web", { spec: { ports: [{ port: 81, protocol: "TCP" }] } });
    await eventually("the change is compared", () => shadow.status().changesDiffered > changesDiffered, 60_000);
    expect(shadow.status()).toMatchObject({ changesAgreed, changesDiffered: changesDiffered + 1 });
    expect(shadow.status().differences).toHaveLength(1);
    expect(shadow.log.filter((line) => line.includes("Found a difference from the other manager"))).toHaveLength(1);
    host.stop();
    await host.finished;
  });

  test("writes nothing and takes no lease, also where no manager runs, and reads another version's lease", async () => {
    await using lab = await SandboxLab.open();
    await joinNodes(lab.admin, lab.azure, 1);
    await lab.admin.create(kinds.Service, balancedService("web"));
    const lease = await lab.admin.create(kinds.Lease, {
      apiVersion: "coordination.k8s.io/v1",
      kind: "Lease",
      metadata: { name: "cloud-controller-manager", namespace: "kube-system", annotations: { version: "v99" } },
      spec: { holderIdentity: "other-manager", leaseDurationSeconds: 1, renewTime: "2020-01-01T00:00:00.000000Z" },
    });
    lab.azure.simulator.clearLog();
    const shadow = await shadowIn(lab, "1s");
    await compared(shadow, 3);
    const { differences, comparedWith } = shadow.status();
    expect(differences.map(({ action, title }) => `${action} ${title}`)).toContain(
      "create load balancer kubernetes in resource group rg0",
    );
    expect(comparedWith).toBe("other-manager");
    shadow.host.stop();
    expect(await shadow.host.finished).toBe(0);
    const writes = lab.azure.simulator.requests().filter((line) => !/^GET |\/oauth2\/token/u.test(line));
    expect(writes).toEqual([]);
    const sent = lab.api.requests.list().filter(({ username }) => username === shadowUser);
    expect(sent.filter(({ method }) => method !== "GET")).toEqual([]);
    const { metadata } = await lab.admin.get(kinds.Lease, {
      namespace: "kube-system",
      name: "cloud-controller-manager",
    });
    expect(metadata?.resourceVersion).toBe(lease.metadata?.resourceVersion ?? "");
  });

  test("compares again after tokens have expired and ARM has throttled, and reports what it could not compare", async () => {
    await using lab = await SandboxLab.open();
    await joinNodes(lab.admin, lab.azure, 1);
    await lab.host([controllers]);
    await lab.admin.create(kinds.Service, balancedService("web"));
    await served(lab, "web");
    const shadow = await shadowIn(lab, "3s");
    await compared(shadow, 1);
    await eventually("all that went before is compared", () => shadow.status().changesPending === 0, 60_000);
    lab.azure.simulator.revokeTokens();
    const { changesAgreed } = shadow.status();
    await patchService(lab.admin, "web", { spec: { ports: [{ port: 81, protocol: "TCP" }] } });
    await eventually("the change is compared", () => shadow.status().changesAgreed > changesAgreed, 60_000);
    const agreed = shadow.status().changesAgreed;

    // The host has this list in its cache: it does its work, and only the shadow cannot judge.
    const denied = { status: 403, code: "AuthorizationFailed", times: 1_000 };
    lab.azure.simulator.failNext({ method: "GET", path: "/privateLinkServices" }, denied);
    await lab.admin.create(kinds.Service, balancedService("api"));
    await served(lab, "api");
    await eventually("the plan could not judge", () => shadow.status().notCompared.length > 0, 60_000);
    expect(shadow.status()).toMatchObject({ changesAgreed: agreed, changesDiffered: 0, differences: [] });
    lab.azure.simulator.clearFailures();
    lab.azure.simulator.failNext(
      { method: "GET", path: "/loadBalancers" },
      { status: 429, code: "Throttled", times: 1 },
    );
    await eventually("the change is compared later", () => shadow.status().changesAgreed > agreed, 90_000);
    expect(shadow.status()).toMatchObject({ changesDiffered: 0, differences: [], notCompared: [] });
  });

  test("finds no difference in a change that it has missed while its watches were interrupted", async () => {
    await using lab = await SandboxLab.open();
    await joinNodes(lab.admin, lab.azure, 1);
    await lab.host([controllers]);
    await lab.admin.create(kinds.Service, balancedService("web"));
    await served(lab, "web");
    const shadow = await shadowIn(lab, "1s");
    await compared(shadow, 1);
    await eventually("all that went before is compared", () => shadow.status().changesPending === 0, 60_000);
    const { changesAgreed } = shadow.status();
    const gone = lab.api.faults.add({
      match: { username: shadowUser, resource: /^(?:nodes|services)$/u },
      effect: "disconnect",
      times: Number.POSITIVE_INFINITY,
    });
    lab.api.watches.drop("abort");
    await patchService(lab.admin, "web", { spec: { ports: [{ port: 81, protocol: "TCP" }] } });
    // More than the time after which a plan is made without a change.
    await Bun.sleep(15_000);
    expect(shadow.status()).toMatchObject({ changesAgreed, changesDiffered: 0, differences: [] });
    gone.remove();
    await eventually("the change is compared", () => shadow.status().changesAgreed > changesAgreed, 90_000);
    expect(shadow.status()).toMatchObject({ changesDiffered: 0, differences: [], notCompared: [] });
    expect(shadow.log.filter((line) => line.includes("Found a difference"))).toEqual([]);
  });
});

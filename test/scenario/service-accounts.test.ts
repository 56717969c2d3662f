import { describe, expect, setDefaultTimeout, test } from "bun:test";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";

import { controllerNames, isUninitialized, kinds, type KubeClient, type Node } from "cloud-controller-host/sdk";

import { ownPluginDirectory } from "../../host/cli/command.ts";
import { defaultOptions } from "../../host/config/flags/options.ts";
import { loadPlugins } from "../../host/generation/plugins/load.ts";
import { createClient } from "../../host/kube/connection/client.ts";
import { createTransport } from "../../host/kube/connection/transport.ts";
import { hostPermissions, serviceAccountGrants } from "../../host/run/permissions.ts";
import { SandboxApiServer } from "../../sdk/testing/api-server/index.ts";
import { writeVerbs } from "../envtest/audit.ts";
import { describeOnRealApiServer } from "../envtest/shared.ts";
import { joinNodes, simulateAzure, type SimulatedAzure } from "../kit/azure.ts";
import { HostProcess } from "../kit/host-process.ts";
import { hostUser } from "../kit/host-roles.ts";

setDefaultTimeout(120_000);

const options = {
  ...defaultOptions,
  cloudConfig: "a file",
  controllers: [controllerNames.cloudNode],
  useServiceAccountCredentials: true,
};
const account = "system:serviceaccount:kube-system:node-controller";

async function initializes(admin: KubeClient, azure: SimulatedAzure, kubeconfig: string): Promise<HostProcess> {
  const [name = ""] = await joinNodes(admin, azure, 1);
  const host = new HostProcess({
    flags: [
      `--kubeconfig=${kubeconfig}`,
      `--cloud-config=${azure.config}`,
      `--controllers=${controllerNames.cloudNode}`,
      "--use-service-account-credentials",
    ],
  });
  await host.eventually("the node is initialized", async () => {
    const node: Node = await admin.get(kinds.Node, { name });
    return !isUninitialized(node) && (node.status?.addresses?.length ?? 0) > 1;
  });
  return host;
}

describe("--use-service-account-credentials, on the sandbox", () => {
  test("makes each controller write as its own service account", async () => {
    await using api = await SandboxApiServer.start();
    await using azure = await simulateAzure();
    const kubeconfig = join(azure.folder, "kubeconfig");
    await writeFile(kubeconfig, api.kubeconfig(hostUser));
    const credentials = { tls: { ca: api.ca }, headers: { Authorization: `Bearer ${api.tokens.of("admin")}` } };
    const server = { url: api.url, proxy: undefined, credentials: async () => credentials };
    using transport = disposable(createTransport(server, { userAgent: "test", qps: -1 }));
    await using host = await initializes(createClient(transport), azure, kubeconfig);

    const writes = api.requests
      .list()
      .filter(({ verb, username }) => writeVerbs.some((write) => write === verb) && username !== "admin");
    const byWho = (user: string) =>
      new Set(writes.filter(({ username }) => username === user).map(({ resource }) => resource));
    expect(byWho(account)).toEqual(new Set(["nodes"]));
    expect(byWho(hostUser)).toEqual(new Set(["serviceaccounts", "leases", "events"]));
    expect(api.requests.list({ resource: "nodes", username: account })[0]?.userAgent).toMatch(
      /^cloud-controller-manager\/\S+ \(\w+\/\w+\)\/system:serviceaccount:kube-system:node-controller$/,
    );
    expect(await host.stop()).toBe(0);
  });
});

describeOnRealApiServer("--use-service-account-credentials, on a real API server", (cluster) => {
  test("works with the roles declared by the host and its controllers", async () => {
    const loaded = await loadPlugins([ownPluginDirectory]);
    if (!loaded.ok) throw new Error(loaded.problems.join("; "));
    const grants = serviceAccountGrants(options, loaded.plugins);
    expect(grants.map(({ name }) => name)).toEqual(["azure-cloud-provider", "node-controller"]);
    await cluster.grant(hostUser, hostPermissions(options, [], grants));
    for (const { name, permissions } of grants)
      await cluster.grant(`system:serviceaccount:kube-system:${name}`, permissions);
    const kubeconfig = await cluster.kubeconfig(hostUser);
    await using azure = await simulateAzure();
    const since = await cluster.audit.mark();
    await using host = await initializes(cluster.admin, azure, kubeconfig);

    const requested = async (user: string): Promise<readonly string[]> => {
      const requests = await cluster.audit.requests({ user, since, verbs: writeVerbs });
      return [...new Set(requests.map(({ verb, resource }) => `${verb} ${resource}`))].toSorted();
    };
    expect(await requested(account)).toEqual(["patch nodes", "patch nodes/status"]);
    expect(await requested(hostUser)).toContain("create serviceaccounts/token");
    expect((await requested(hostUser)).filter((request) => request.endsWith("nodes"))).toEqual([]);
    const refused = (await cluster.audit.requests({ since })).filter(({ code = 0 }) => code === 401 || code === 403);
    expect(refused).toEqual([]);
    expect(await host.stop()).toBe(0);
  });
});

const disposable = <T extends { close(): void }>(resource: T): T & Disposable =>
  Object.assign(resource, { [Symbol.dispose]: () => resource.close() });

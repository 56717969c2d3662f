import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import type { Permission } from "cloud-controller-host/sdk";

import { printRoles } from "../../host/cli/rbac.ts";
import { describeOnRealApiServer } from "../envtest/shared.ts";
import { simulateAzure } from "../kit/azure.ts";
import { HostProcess } from "../kit/host-process.ts";

setDefaultTimeout(120_000);

const source = (permissions: readonly Permission[]): string => `
  import { defineController, kinds } from "cloud-controller-host/sdk";
  export default defineController({
    name: "visitor-controller",
    initContext: { clientName: "visitors" },
    permissions: ${JSON.stringify(permissions)},
    construct: () => (context) => {
      const queue = context.workqueue("visits", { limits: [{ type: "exponential", baseMs: 100, maxMs: 500 }] });
      queue.add("visit");
      const sync = async (name) => {
        await context.client.create(kinds.ConfigMap, { metadata: { namespace: "default", name } });
        context.log.info("Visited");
      };
      return { run: (signal) => queue.process({ workers: 1, signal, sync }) };
    },
  });`;
const needed: Permission = { apiGroup: "", resources: ["configmaps"], verbs: ["create"] };

let folder = "";
beforeAll(async () => void (folder = await mkdtemp(join(tmpdir(), "plugin-permissions-"))));
afterAll(() => rm(folder, { recursive: true, force: true }));

describeOnRealApiServer("a third-party plugin with the roles that `rbac` prints", (cluster) => {
  const hostAccount = "system:serviceaccount:kube-system:cloud-controller-host";
  const modes = [
    { mode: "as the host's user", user: hostAccount, flags: [] },
    {
      mode: "as its own service account",
      user: "system:serviceaccount:kube-system:visitors",
      flags: ["--use-service-account-credentials"],
    },
  ];
  for (const { mode, user, flags } of modes)
    test(`writes ${mode} with its own user agent, after a 403 that names the missing permission and the command`, async () => {
      await cluster.cleanSlate();
      await using azure = await simulateAzure();
      const directory = join(folder, mode.replaceAll(/\W/gu, "-"));
      await mkdir(join(directory, "visitor"), { recursive: true });
      const started = [
        `--cloud-config=${azure.config}`,
        `--plugin-dir=${directory}`,
        "--controllers=visitor-controller",
        ...flags,
      ];
      const deployer = await cluster.kubeconfig("deployer", ["system:masters"]);
      let roles = "";
      const declare = async (permissions: readonly Permission[]): Promise<void> => {
        await writeFile(join(directory, "visitor/plugin.ts"), source(permissions));
        roles = await printRoles(started);
        await cluster.kubectl(deployer, ["apply", "-f", "-"], roles);
      };
      // The chart's tests install roles of the same names on the same API server.
      await using cleanup = new AsyncDisposableStack();
      cleanup.defer(
        async () => void (await cluster.kubectl(deployer, ["delete", "--ignore-not-found", "-f", "-"], roles)),
      );

      await declare([]);
      const since = await cluster.audit.mark();
      await using host = new HostProcess({
        flags: [`--kubeconfig=${await cluster.kubeconfig(hostAccount)}`, ...started],
      });
      const denial = `configmaps is forbidden: User "${user}" cannot create resource "configmaps" in API group "" in the namespace "default"`;
      const line = await host.eventually("the denial is logged", () =>
        host.lines("cannot create resource").find((text) => text.includes("visitor-controller")),
      );
      expect(line.replaceAll("\\", "")).toContain(denial);
      expect(line).toContain("grant it with a role: `cloud-controller-host rbac` prints those of the enabled plugins");
      expect(host.lines("Visited")).toEqual([]);

      await declare([needed]);
      await host.eventually("the role is enough", () => host.lines("Visited").length === 1);
      expect(await host.stop()).toBe(0);
      const creates = (await cluster.audit.requests({ since, verbs: ["create"] })).filter(
        ({ resource }) => resource === "configmaps",
      );
      expect([...new Set(creates.map((request) => request.user))]).toEqual([user]);
      expect([creates.at(0)?.code, creates.at(-1)?.code]).toEqual([403, 201]);
      expect(creates.filter(({ userAgent }) => !userAgent.split("/").slice(1).join("/").includes("visitors"))).toEqual(
        [],
      );
    });
});

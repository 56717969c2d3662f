import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { chmod, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { kinds } from "cloud-controller-host/sdk";
import { eventually } from "cloud-controller-host/sdk/testing";

import { findAssets } from "../envtest/assets.ts";
import type { Cluster } from "../envtest/cluster.ts";
import { describeOnRealApiServer } from "../envtest/shared.ts";
import { joinNodes, simulateAzure } from "../kit/azure.ts";
import { HostProcess } from "../kit/host-process.ts";
import { addressesOf, balancedService, findService } from "../kit/services.ts";
import { describeWithHelm } from "./helm.ts";
import { describeDeployment } from "./stage.ts";

setDefaultTimeout(120_000);

const repository = join(import.meta.dir, "..", "..");
const page = (path: string): Promise<string> => Bun.file(join(repository, "deploy", path)).text();

/** The folder where the commands are typed. It has `deploy/` and `host/` of the repository, and programs that come first. */
let folder = "";
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "readme-test-"));
  for (const name of ["deploy", "host"]) await symlink(join(repository, name), join(folder, name));
});
afterAll(() => rm(folder, { recursive: true }));

async function program(name: string, ...lines: readonly string[]): Promise<void> {
  await writeFile(join(folder, name), ["#!/bin/sh", ...lines, ""].join("\n"));
  await chmod(join(folder, name), 0o755);
}

/** Answers commands that would wait for a Deployment controller or a kubelet: this cluster has neither. */
const unanswered = `case " $* " in *" rollout status "*|*" port-forward "*) exit 0;; esac`;

async function kubectl(): Promise<void> {
  const assets = await findAssets(process.env);
  if (!assets.found) throw new Error(assets.reason);
  await program("kubectl", unanswered, `exec ${join(assets.directory, "kubectl")} "$@"`);
}

/** Types commands as an administrator of the cluster; resolves with what they print, and rejects where one fails. */
async function type(commands: string, cluster: Cluster, directory = "."): Promise<string> {
  const child = Bun.spawn(["sh", "-euc", commands], {
    cwd: join(folder, directory),
    env: {
      PATH: `${folder}:${process.env["PATH"]}`,
      HOME: folder,
      KUBECONFIG: await cluster.kubeconfig("reader", ["system:masters"]),
      NS: "kube-system",
    },
    stdin: "ignore",
    stdout: "pipe",
    stderr: "pipe",
  });
  const [stdout, stderr, code] = await Promise.all([child.stdout.text(), child.stderr.text(), child.exited]);
  if (code !== 0) throw new Error(`${commands}: ${stdout}${stderr}`);
  return stdout;
}

describeDeployment("the commands in deploy/README.md and OPERATE.md", (stage) => {
  test("work as printed: from the image and the Secret to /statusz", async () => {
    const { cluster, helm } = stage();
    await kubectl();
    // A container engine is missing here, and the image has been assembled without one.
    await program("podman", "exit 0");
    await program("helm", `exec ${helm.path} "$@"`);
    await program("bun", `exec ${process.execPath} "$@"`);
    const pages = `${await page("README.md")}\n${await page("OPERATE.md")}`;
    const blocks = [...pages.matchAll(/^```sh\n(.*?)^```$/gms)].map(([, block = ""]) => block);
    const installing = blocks.findIndex((block) => block.includes("helm upgrade"));
    // The Pod has Azure's certificate authority where its volume is, this machine where the simulator wrote it.
    const { caFile: resourceManagerCAFile } = stage().azure;
    await writeFile(join(folder, "azure.yaml"), stage().configText({ resourceManagerCAFile }));
    const checked = await type(blocks[0] ?? "", cluster);
    expect(checked).toContain("--cloud-config=azure.yaml: valid");
    expect(checked).toMatch(/^allowed {2}Microsoft\.Network\/loadBalancers\/write /mu);
    await writeFile(join(folder, "azure.yaml"), stage().configText());
    for (const block of blocks.slice(1, installing + 1)) await type(block, cluster);

    const pod = await stage().start(await stage().install({}));
    await stage().initialized(await stage().join(1));
    const output: string[] = [];
    try {
      for (const block of blocks.slice(installing + 1))
        output.push(await type(block.replaceAll("10258", String(pod.container.port)), cluster));
    } finally {
      await type("kubectl delete clusterrole,clusterrolebinding host-status --ignore-not-found", cluster);
    }
    const all = output.join("\n");
    expect(all).toContain(pod.container.name);
    expect(all).toContain("azure:///subscriptions/sub0");
    expect(all).toContain("kind: ClusterRole");
    expect(all).toContain("LeaderElection");
    expect(all).toContain('"leading":true');
  });
});

/** True for a request that reads. */
const isRead = ({ verb }: { readonly verb: string }): boolean => ["get", "list", "watch"].includes(verb);

describeOnRealApiServer("the commands in deploy/migration/README.md", (cluster) => {
  test("plan in both directions with read permissions alone: beside ours, and beside another holder of the Lease", async () => {
    await cluster.cleanSlate();
    await kubectl();
    await program("cloud-controller-host", `exec ${process.execPath} host/main.ts "$@"`);
    await using azure = await simulateAzure();
    const [name = ""] = await joinNodes(cluster.admin, azure, 1);
    await cluster.admin.create(kinds.Service, balancedService("web"));
    const decisions = ["--controllers=*,-node-ipam", "--configure-cloud-routes=false"];
    const flags = [`--cloud-config=${azure.config}`, ...decisions];
    const kubeconfig = await cluster.kubeconfig("host", ["system:masters"]);
    await using host = new HostProcess({ flags: [`--kubeconfig=${kubeconfig}`, ...flags] });
    await eventually(
      "the Service and the node are served",
      async () => {
        const node = await cluster.admin.get(kinds.Node, { name });
        return addressesOf(await findService(cluster.admin, "web")).length > 0 && node.spec?.providerID !== undefined;
      },
      60_000,
    );
    const blocks = [...(await page("migration/README.md")).matchAll(/^```sh\n(.*?)^```$/gms)];
    const [[, planning = ""] = []] = blocks.filter(([, block = ""]) => block.includes("cloud-controller-host plan"));
    const [, cleaning = ""] =
      /`(cloud-controller-host rbac [^`]*delete -f -)`/u.exec(await page("migration/README.md")) ?? [];
    const plan = (): Promise<string> => type(`FLAGS="${flags.join(" ")}"\nset -f\n${planning}`, cluster);
    const lease = { namespace: "kube-system", name: "cloud-controller-manager" };
    const mark = await cluster.audit.mark();
    expect(await plan()).toEndWith("\nNo changes.\n");
    await host.stop();
    const spec = { holderIdentity: "go-provider", leaseDurationSeconds: 3600 };
    await cluster.admin.patch(kinds.Lease, lease, "merge", { spec });
    const writes = azure.simulator.requests().filter((line) => line.startsWith("PUT ")).length;
    expect(await plan()).toEndWith("\nNo changes.\n");
    expect((await cluster.admin.get(kinds.Lease, lease)).spec?.holderIdentity).toBe("go-provider");
    expect(azure.simulator.requests().filter((line) => line.startsWith("PUT "))).toHaveLength(writes);
    const user = "system:serviceaccount:kube-system:cloud-controller-host-plan";
    const requests = await cluster.audit.requests({ user, since: mark });
    expect(requests.length).toBeGreaterThan(4);
    expect(requests.filter((request) => !isRead(request) || request.code === 403)).toEqual([]);
    await type(`FLAGS="${flags.join(" ")}"\nset -f\n${cleaning}`, cluster);
  });

  test("are valid for kubectl, and the roles match their description", async () => {
    await kubectl();
    // The plans before left the first one.
    await type("kubectl -n $NS delete lease cloud-controller-manager --ignore-not-found", cluster);
    for (const name of ["cloud-controller-manager", "cloud-provider-extraction-migration"])
      await cluster.admin.create(kinds.Lease, { metadata: { name, namespace: "kube-system" }, spec: {} });
    const inline = [...(await page("migration/README.md")).matchAll(/`(kubectl [^`<]+)`/g)];
    const commands = new Set(inline.map(([, command = ""]) => command));
    const output = new Map<string, string>();
    for (const command of commands) output.set(command, await type(command, cluster, "deploy/migration"));
    const [requested = ""] = [...commands].filter((command) => command.includes("auth can-i"));
    expect(output.get(requested)?.trim()).toBe("yes");
  });
});

describeWithHelm("deploy/migration/README.md", (helm) => {
  describeOnRealApiServer("the shadow of the migration page", (cluster) => {
    test("is installed, asked and removed with the commands as printed, and runs with the chart's role", async () => {
      await kubectl();
      await program("helm", `exec ${helm().path} "$@"`);
      await using azure = await simulateAzure();
      const text = await page("migration/README.md");
      const blocks = [...text.matchAll(/^```sh\n(.*?)^```$/gms)].map(([, block = ""]) => block);
      const commands =
        blocks
          .find((block) => block.includes("helm install shadow"))
          ?.trim()
          .split("\n") ?? [];
      const [install = "", forward = "", ask = ""] = commands;
      const [, remove = ""] = /`(helm [^`]*uninstall shadow)`/u.exec(text) ?? [];
      await writeFile(join(folder, "values.yaml"), "image: { repository: registry.test/host }\n");
      await cluster.admin.create(kinds.ServiceAccount, { metadata: { name: "host-status", namespace: "kube-system" } });
      await type(install, cluster);
      try {
        const name = "shadow-cloud-controller-host";
        const args = await type(`kubectl -n $NS get deployment ${name} -o jsonpath='{..containers[0].args}'`, cluster);
        expect(args).toContain('"--shadow"');
        const account = await cluster.kubeconfig(`system:serviceaccount:kube-system:${name}`);
        const flags = [`--kubeconfig=${account}`, `--cloud-config=${azure.config}`, "--configure-cloud-routes=false"];
        await using host = new HostProcess({ flags: [...flags, "--shadow"] });
        await host.until("the shadow serves", () => true);
        await type(forward, cluster);
        const shown = await eventually(
          "the shadow has compared",
          async () => {
            const answer = await type(ask.replaceAll("10258", String(host.port)), cluster);
            return answer.includes("changesAgreed") ? answer : undefined;
          },
          60_000,
        );
        expect(JSON.parse(shown)).toMatchObject({ differences: [] });
        expect(host.stderr).not.toContain("forbidden");
      } finally {
        await type(remove, cluster);
      }
      expect(await type("kubectl -n $NS get deployments -o name", cluster)).not.toContain("shadow");
    });
  });
});

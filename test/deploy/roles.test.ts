import { expect, test } from "bun:test";
import { join } from "node:path";

import { controllerNames } from "cloud-controller-host/sdk";

import { readCommand } from "../../host/cli/command.ts";
import { grantsOf } from "../../host/cli/grants.ts";
import { describeOnRealApiServer } from "../envtest/shared.ts";
import { declaredIn, grantedBy } from "./grants.ts";
import { manifestsOf, namespace, release, theOne } from "./helm.ts";
import { describeDeployment } from "./stage.ts";

const main = join(import.meta.dir, "../../host/main.ts");

async function print(
  flags: readonly string[],
): Promise<{ readonly status: number; readonly out: string; readonly err: string }> {
  const child = Bun.spawn([process.execPath, "--no-install", main, "rbac", ...flags], {
    stdin: "ignore",
    stdout: "pipe",
    stderr: "pipe",
  });
  const [out, err, status] = await Promise.all([child.stdout.text(), child.stderr.text(), child.exited]);
  return { status, out, err };
}

const flags = ["--enable-dynamic-reloading", `--controllers=${controllerNames.cloudNode}`];

test("`rbac` prints the roles that a host with these flags requests", async () => {
  const surroundings = { environment: {}, stdout: () => undefined, stderr: () => undefined, width: 100 };
  const input = await readCommand(flags, surroundings);
  if ("status" in input) throw new Error("the flags are refused");
  const { out } = await print(flags);
  expect(grantedBy(manifestsOf(out), release)).toEqual(declaredIn(grantsOf(input)));
  expect(out).toContain("azure-cloud-provider");
  expect(out).not.toContain("service-lb-controller");
});

test("`rbac` rejects flags like the host does", async () => {
  const { status, out, err } = await print(["--controllers=cloud-nodes"]);
  expect([status, out]).toEqual([1, ""]);
  expect(err).toContain('--controllers: "cloud-nodes" is not in the list of known controllers');
});

describeOnRealApiServer("a real API server", (cluster) => {
  test("accepts what `rbac` prints, strictly validated", async () => {
    const kubeconfig = await cluster.kubeconfig("deployer", ["system:masters"]);
    const { out } = await print(flags);
    const created = await cluster.kubectl(
      kubeconfig,
      ["create", "--dry-run=server", "--validate=strict", "-f", "-"],
      out,
    );
    expect(created.trim().split("\n")).toHaveLength(4);
  });
});

describeDeployment("a Pod with the roles that `rbac` prints", (stage) => {
  test("is denied nothing when each of its controllers uses its own service account", async () => {
    await stage().configure();
    const extraArgs = ["--use-service-account-credentials"];
    const manifests = await stage().install({ rbac: { create: false }, extraArgs });
    const { spec } = JSON.parse(JSON.stringify(theOne(manifests, "Deployment"))).spec.template;
    const { out } = await print(spec.containers[0].args);
    await stage().apply(out);
    const since = await stage().cluster.audit.mark();
    const pod = await stage().start(manifests);
    await stage().initialized(await stage().join(1));
    await pod.container.stop(pod.graceSeconds);

    const requests = await stage().cluster.audit.requests({ since });
    const accounts = requests.filter(({ user }) => user.startsWith(`system:serviceaccount:${namespace}:`));
    expect(accounts.filter(({ code }) => code === 401 || code === 403)).toEqual([]);
    const patches = accounts.filter(({ verb, resource }) => verb === "patch" && resource === "nodes");
    expect(new Set(patches.map(({ user }) => user))).toContain(`system:serviceaccount:${namespace}:node-controller`);
  });
});

import { afterAll, beforeAll, expect, test } from "bun:test";
import { join } from "node:path";

import { kinds } from "cloud-controller-host/sdk";
import { eventually } from "cloud-controller-host/sdk/testing";

import type { Cluster } from "../envtest/cluster.ts";
import { describeOnRealApiServer } from "../envtest/shared.ts";
import { describeWithHelm, type Manifest, namespace, release, theOne } from "./helm.ts";
import { allModes, modes } from "./modes.ts";
import { monitoringDefinitions } from "./monitoring-crds.ts";

const folder = join(import.meta.dir, "..", "..", "deploy", "manifests");
const strict = ["--dry-run=server", "--validate=strict"];

const administrator = (cluster: Cluster): Promise<string> => cluster.kubeconfig("deployer", ["system:masters"]);

/** As a stream for kubectl: JSON is YAML. */
const stream = (objects: readonly object[]): string => objects.map((object) => JSON.stringify(object)).join("\n---\n");

async function define(cluster: Cluster): Promise<void> {
  await cluster.kubectl(await administrator(cluster), ["apply", "-f", "-"], stream(monitoringDefinitions));
  for (const resource of ["servicemonitors", "prometheusrules"])
    await eventually(`${resource} are served`, () =>
      cluster.admin.request("GET", `/apis/monitoring.coreos.com/v1/${resource}`).then(() => true),
    );
}

describeOnRealApiServer("a real API server", (cluster) => {
  beforeAll(() => define(cluster));
  afterAll(async () => {
    await cluster.kubectl(await administrator(cluster), ["delete", "-f", "-"], stream(monitoringDefinitions));
  });

  for (const path of ["", "monitoring"])
    test(`accepts deploy/manifests/${path}, strictly validated`, async () => {
      const kubeconfig = await administrator(cluster);
      const said = await cluster.kubectl(kubeconfig, ["apply", "-k", join(folder, path), ...strict]);
      expect(said.trim().split("\n").length).toBeGreaterThan(1);
    });

  describeWithHelm("and Helm", (helm) => {
    for (const { name, values } of allModes)
      test(`accept the chart for ${name}, strictly validated`, async () => {
        const manifests = await helm().template(values);
        const kubeconfig = await administrator(cluster);
        const said = await cluster.kubectl(kubeconfig, ["create", "-f", "-", ...strict], stream(manifests));
        expect(said.trim().split("\n")).toHaveLength(manifests.length);
      });

    test("install, change, roll back and leave nothing behind", async () => {
      const kubeconfig = await administrator(cluster);
      const secretRules = async (): Promise<boolean> => JSON.stringify(await rolesOf(cluster)).includes("secrets");
      await helm().install(kubeconfig, modes.reloadedFile.values);
      expect(await secretRules()).toBe(false);
      await helm().install(kubeconfig, modes.secret.values);
      expect(await secretRules()).toBe(true);
      await helm().run(["rollback", release, "1", `--namespace=${namespace}`, `--kubeconfig=${kubeconfig}`]);
      expect(await secretRules()).toBe(false);
      await helm().uninstall(kubeconfig);
      expect(await rolesOf(cluster)).toEqual([]);
      expect(await cluster.admin.list(kinds.ServiceAccount, { namespace })).toEqual([]);
    });

    test("accept a Pod of it where only restricted Pods may run", async () => {
      const metadata = { name: "restricted", labels: { "pod-security.kubernetes.io/enforce": "restricted" } };
      await cluster.admin.create(kinds.Namespace, { metadata });
      const kubeconfig = await administrator(cluster);
      const create = (pod: object): Promise<string> =>
        cluster.kubectl(kubeconfig, ["create", "-f", "-", ...strict], JSON.stringify(pod));
      for (const { values } of [modes.reloadedFile, modes.secret, modes.workloadIdentity, modes.plugins])
        expect(await create(podOf(await helm().template(values)))).toContain("created");
      const onTheNode = podOf(await helm().template(modes.hostNetwork.values));
      await expect(create(onTheNode)).rejects.toThrow("hostNetwork=true");
    });
  });
});

async function rolesOf({ admin }: Cluster): Promise<readonly unknown[]> {
  const lists = await Promise.all(
    ["clusterroles", "clusterrolebindings", "roles", "rolebindings"].map((resource) =>
      admin.request("GET", `/apis/rbac.authorization.k8s.io/v1/${resource}`),
    ),
  );
  return lists
    .flatMap((list): readonly Manifest[] => JSON.parse(JSON.stringify(list)).items)
    .filter(({ metadata }) => metadata.name.startsWith(release));
}

function podOf(manifests: readonly Manifest[]): object {
  const { metadata, spec } = JSON.parse(JSON.stringify(theOne(manifests, "Deployment"))).spec.template;
  return { apiVersion: "v1", kind: "Pod", metadata: { ...metadata, name: "one", namespace: "restricted" }, spec };
}

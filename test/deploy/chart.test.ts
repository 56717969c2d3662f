import { afterAll, describe, expect, test } from "bun:test";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import * as fc from "fast-check";

import { grantsOf } from "../../deploy/grants.ts";
import { readCommand } from "../../host/command.ts";
import type { HostInput } from "../../host/process-parts.ts";
import { declaredIn, grantedBy } from "./grants.ts";
import { describeWithHelm, type Manifest, release, theOne, type Values } from "./helm.ts";
import { allModes, modes } from "./modes.ts";

const folder = await mkdtemp(join(tmpdir(), "chart-test-"));
afterAll(() => rm(folder, { recursive: true }));

/** The container's flags, its plugin folders left out and its migration config in a file of this machine. */
async function argsOf(manifests: readonly Manifest[]): Promise<readonly string[]> {
  const deployment = JSON.parse(JSON.stringify(theOne(manifests, "Deployment")));
  const args: readonly string[] = deployment.spec.template.spec.containers[0].args;
  const config = manifests.find(({ kind }) => kind === "ConfigMap");
  const file = join(folder, "migration.yaml");
  if (config !== undefined) await writeFile(file, JSON.parse(JSON.stringify(config)).data["config.yaml"]);
  return args
    .filter((arg) => !arg.startsWith("--plugin-dir="))
    .map((arg) => arg.replace("/etc/cloud-controller-host/leader-migration/config.yaml", file));
}

/** What the host reads of its flags; whatever it complains of fails the test. */
async function hostInput(manifests: readonly Manifest[]): Promise<HostInput> {
  let complaint = "";
  const read = await readCommand(await argsOf(manifests), {
    environment: {},
    stdout: () => undefined,
    stderr: (text) => void (complaint += text),
    width: 100,
  });
  if ("status" in read) throw new Error(complaint);
  return read;
}

describeWithHelm("the chart", (helm) => {
  for (const { name, values } of allModes)
    test(`renders flags that the host takes, and roles for exactly what it then needs, for ${name}`, async () => {
      const manifests = await helm().template({ ...values, ...(name === modes.plugins.name ? withoutRules : {}) });
      const input = await hostInput(manifests);
      expect(input.notices).toEqual([]);
      expect(grantedBy(manifests, release)).toEqual(declaredIn(grantsOf(input)));
    });

  test("enables the same controllers as the host does, whatever the list", async () => {
    const words = [
      "*",
      "cloud-node",
      "-cloud-node",
      "cloud-node-lifecycle-controller",
      "-service",
      "service-lb-controller",
    ];
    const list = fc.array(fc.constantFrom(...words), { minLength: 1, maxLength: 4 });
    const property = fc.asyncProperty(list, async (controllers) => {
      const manifests = await helm().template({ controllers });
      expect(grantedBy(manifests, release)).toEqual(declaredIn(grantsOf(await hostInput(manifests))));
    });
    await fc.assert(property, { seed: 20261120, numRuns: 25 });
  });

  test("grants no second Lease while every migrating controller is still somebody else's", async () => {
    const controllerLeaders = [{ name: "node-ipam-controller", component: "kube-controller-manager" }];
    const manifests = await helm().template({ leaderMigration: { enabled: true, controllerLeaders } });
    expect(grantedBy(manifests, release).filter((permit) => permit.includes("migration"))).toEqual([]);
    expect(grantedBy(manifests, release)).toEqual(declaredIn(grantsOf(await hostInput(manifests))));
  });

  test("is not on the node's network unless it is asked to be", async () => {
    const pod = async (values: Values): Promise<unknown> => {
      const deployment = JSON.parse(JSON.stringify(theOne(await helm().template(values), "Deployment")));
      return deployment.spec.template.spec.hostNetwork;
    };
    expect(await pod({})).toBeUndefined();
    expect(await pod({ hostNetwork: true })).toBe(true);
  });

  test("never lets a new Pod run beside the old one without leader election", async () => {
    const deployment = JSON.parse(JSON.stringify(theOne(await helm().template(modes.alone.values), "Deployment")));
    expect(deployment.spec.strategy).toEqual({ type: "Recreate" });
  });

  test("passes helm lint", async () => {
    expect(await helm().run(["lint", "deploy/chart", "--strict", "--set=image.repository=x"])).toContain(
      "0 chart(s) failed",
    );
  });
});

const withoutRules = { plugins: { ...modes.plugins.values.plugins, rules: [] } };

interface Refusal {
  readonly values: Values;
  readonly sentence: string;
}

const both = { network: { configureCloudRoutes: true, clusterCIDR: "10.0.0.0/8" } };

/** What contradicts something or lacks something, and what is said of it. */
const refusals: readonly Refusal[] = [
  { values: { image: { repository: "" } }, sentence: "image.repository is missing: build deploy/Containerfile" },
  { values: { replica: 3 }, sentence: "additional properties 'replica' not allowed" },
  { values: { replicas: 0 }, sentence: "at '/replicas'" },
  { values: { serving: { port: 443 } }, sentence: "at '/serving/port'" },
  {
    values: { cloudConfig: { source: "secret", reload: false } },
    sentence: "cloudConfig.reload is false, but a Secret that is read over the API",
  },
  {
    values: { cloudConfig: { source: "secret", hostPath: "/etc/azure.json" } },
    sentence: "cloudConfig.hostPath names a file, but cloudConfig.source is secret",
  },
  {
    values: { cloudConfig: { hostPath: "/etc/azure.json" } },
    sentence: "cloudConfig.reload is true, but a container keeps seeing the old file of cloudConfig.hostPath",
  },
  { values: { cloudConfig: { hostPath: "azure.json", reload: false } }, sentence: "at '/cloudConfig/hostPath'" },
  {
    values: { cloudConfig: { secret: { namespace: "elsewhere" } } },
    sentence: "cloudConfig.secret.namespace is elsewhere, but a Pod can only mount Secrets of its own namespace",
  },
  { values: { workloadIdentity: { enabled: true, tenantID: "t" } }, sentence: "workloadIdentity.clientID is missing" },
  { values: { workloadIdentity: { enabled: true, clientID: "c" } }, sentence: "workloadIdentity.tenantID is missing" },
  {
    values: { workloadIdentity: { clientID: "c" } },
    sentence: "workloadIdentity.clientID is set, but workloadIdentity.enabled is false",
  },
  {
    values: { leaderElection: { enabled: false } },
    sentence: "leaderElection.enabled is false, but replicas is 2: all of them would write at once",
  },
  {
    values: { leaderElection: { renewDeadlineSeconds: 15 } },
    sentence: "leaderElection.leaseDurationSeconds must exceed leaderElection.renewDeadlineSeconds",
  },
  {
    values: { leaderElection: { retryPeriodSeconds: 9 } },
    sentence: "leaderElection.renewDeadlineSeconds must exceed 1.2 times leaderElection.retryPeriodSeconds",
  },
  {
    values: { ...modes.migration.values, replicas: 1, leaderElection: { enabled: false } },
    sentence: "leaderMigration.enabled needs leaderElection.enabled",
  },
  {
    values: { leaderMigration: { enabled: true } },
    sentence: "leaderMigration.controllerLeaders is empty: name each controller that moves",
  },
  {
    values: { leaderMigration: { controllerLeaders: [{ name: "route", component: "*" }] } },
    sentence: "leaderMigration.controllerLeaders is set, but leaderMigration.enabled is false",
  },
  {
    values: {
      leaderMigration: { ...modes.migration.values.leaderMigration, leaderName: "cloud-controller-manager" },
    },
    sentence: "leaderMigration.leaderName and leaderElection.leaseName are both cloud-controller-manager",
  },
  {
    values: { leaderMigration: { enabled: true, controllerLeaders: [{ name: "rout", component: "*" }] } },
    sentence: "leaderMigration.controllerLeaders names rout, which is no controller of this version",
  },
  {
    values: { leaderMigration: { enabled: true, controllerLeaders: [{ name: "route", component: "ccm" }] } },
    sentence: "at '/leaderMigration/controllerLeaders/0/component'",
  },
  {
    values: { controllers: ["*", "-cloud-nodes"] },
    sentence: "controllers names cloud-nodes, which is no controller of this version",
  },
  { values: { cloudProvider: "aws" }, sentence: "cloudProvider is aws, which is no cloud of this version" },
  {
    values: { controllers: ["route"] },
    sentence: "controllers names route, but network.configureCloudRoutes is false",
  },
  {
    values: { controllers: ["*", "node-ipam"] },
    sentence: "controllers names node-ipam, but network.allocateNodeCIDRs is false",
  },
  {
    values: { network: { configureCloudRoutes: true } },
    sentence: "network.configureCloudRoutes needs network.clusterCIDR",
  },
  { values: { network: { allocateNodeCIDRs: true } }, sentence: "network.allocateNodeCIDRs needs network.clusterCIDR" },
  { values: { plugins: { watch: true } }, sentence: "plugins.watch is set, but plugins.folders is empty" },
  {
    values: {
      plugins: { folders: [...modes.plugins.values.plugins.folders, ...modes.plugins.values.plugins.folders] },
    },
    sentence: "plugins.folders has two folders with the name greeter",
  },
  { values: { extraArgs: ["--v=4"] }, sentence: "extraArgs has --v=4, a flag that the chart sets itself" },
  { values: { extraArgs: ["v=4"] }, sentence: "at '/extraArgs/0'" },
  {
    values: { extraArgs: ["--use-service-account-credentials"] },
    sentence: "extraArgs has --use-service-account-credentials, but rbac.create makes roles for one service account",
  },
  {
    values: { serviceAccount: { create: false } },
    sentence: "serviceAccount.create is false and serviceAccount.name is empty",
  },
  {
    values: { metrics: { service: { enabled: false }, serviceMonitor: { enabled: true } } },
    sentence: "metrics.serviceMonitor.enabled needs metrics.service.enabled",
  },
  { values: { metrics: { reader: { name: "p" } } }, sentence: "metrics.reader needs both a name and a namespace" },
  {
    values: { rbac: { create: false }, metrics: { reader: { name: "p", namespace: "m" } } },
    sentence: "metrics.reader is given a role, but rbac.create is false",
  },
];

describeWithHelm("values that do not fit together", (helm) => {
  const complaint = (values: Values): Promise<string> =>
    helm()
      .template(values)
      .then(
        () => "they were taken",
        (error: unknown) => String(error),
      );

  describe("fail when the chart is rendered, with a sentence", () => {
    for (const { values, sentence } of refusals)
      test(sentence, async () => {
        expect(await complaint(values)).toContain(sentence);
      });
  });

  test("are all told at once", async () => {
    const told = await complaint({
      ...both,
      controllers: ["nodeipam"],
      plugins: { watch: true },
      image: { repository: "" },
    });
    for (const key of ["network.allocateNodeCIDRs", "plugins.watch", "image.repository"]) expect(told).toContain(key);
  });
});

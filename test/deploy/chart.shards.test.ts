import { expect, test } from "bun:test";

import { labelSelectorsOverlap } from "cloud-controller-host/sdk";

import { readCommand } from "../../host/cli/command.ts";
import { grantsOf } from "../../host/cli/grants.ts";
import type { HostInput } from "../../host/run/process-parts.ts";
import { declaredIn, grantedBy } from "./grants.ts";
import { describeWithHelm, type Manifest, release, type Values } from "./helm.ts";

/** What the host reads of the flags of one Deployment. */
async function inputOf(manifest: Manifest): Promise<HostInput> {
  const deployment = JSON.parse(JSON.stringify(manifest));
  let problem = "";
  const read = await readCommand(deployment.spec.template.spec.containers[0].args, {
    environment: {},
    stdout: () => undefined,
    stderr: (text) => void (problem += text),
    width: 100,
  });
  if ("status" in read) throw new Error(problem);
  return read;
}

const services = { selector: "shard notin (a,b)" };
const twoShards = [
  { name: "a", selector: "shard=a" },
  { name: "b", selector: "shard in (b)", replicas: 3, cloudConfigSecretName: "other", extraArgs: ["--v=4"] },
];

const labelOf = (manifest: Manifest): unknown =>
  JSON.parse(JSON.stringify(manifest)).spec.selector.matchLabels["app.kubernetes.io/name"];

describeWithHelm("shards of the chart", (helm) => {
  test("are one Deployment each, with flags that the host accepts and the roles that all of them need", async () => {
    const manifests = await helm().template({ services, shards: twoShards, network: { clusterCIDR: "10.244.0.0/16" } });
    const deployments = manifests.filter(({ kind }) => kind === "Deployment");
    expect(deployments.map(({ metadata }) => metadata.name)).toEqual([release, `${release}-a`, `${release}-b`]);
    expect(new Set(deployments.map(labelOf)).size).toBe(3);
    const inputs = await Promise.all(deployments.map(inputOf));
    expect(
      inputs.map(({ options }) => [options.shard, options.leaderElectResourceName, options.serviceSelector, options.v]),
    ).toEqual([
      ["", "cloud-controller-manager", "shard notin (a,b)", 2],
      ["a", "cloud-controller-manager-a", "shard=a", 2],
      ["b", "cloud-controller-manager-b", "shard in (b)", 4],
    ]);
    expect(inputs.map(({ options }) => options.controllers.includes("service-lb-controller"))).toEqual([
      false,
      true,
      true,
    ]);
    const needed = new Set(inputs.flatMap((input) => declaredIn(grantsOf(input))));
    expect(new Set(grantedBy(manifests, release))).toEqual(needed);
    expect(JSON.parse(JSON.stringify(deployments[2])).spec).toMatchObject({
      replicas: 3,
      template: { spec: { serviceAccountName: release } },
    });
    expect(JSON.stringify(deployments.map((one) => JSON.stringify(one).includes('"secretName":"other"')))).toBe(
      "[false,false,true]",
    );
    for (const kind of ["PodDisruptionBudget", "Service", "NetworkPolicy"])
      expect(manifests.filter((one) => one.kind === kind)).toHaveLength(3);
    expect(manifests.filter(({ kind }) => kind === "ServiceAccount")).toHaveLength(1);
  });

  test.each([
    ["shard=a", "shard=a"],
    ["shard=a", "shard in (a,b)"],
    ["shard=a", "team=x"],
    ["shard=a", "shard!=b"],
    ["shard=a", "shard"],
    ["!shard", "shard!=a"],
    ["shard notin (a)", "shard notin (b)"],
    ["shard in ( a , b )", "shard == b"],
    ["shard=", "shard in (,a)"],
    ["shard=a", "shard=b"],
    ["shard=a", "!shard"],
    ["shard", "! shard"],
    ["shard=a", "shard notin (a,b)"],
    ["shard!=a", "shard=a"],
    ["team=x,shard=a", "shard=b,zone"],
    ["shard in (a,b)", "shard in (c)"],
    ["example.com/shard=a", "example.com/shard!=a"],
  ])("selectors %p and %p of two shards are refused exactly if they overlap", async (one, other) => {
    const shards = [
      { name: "a", selector: one, loadBalancerClass: "example.com/x" },
      { name: "b", selector: other, loadBalancerClass: "example.com/x" },
    ];
    const refused = await helm()
      .template({ shards })
      .then(() => "", String);
    if (labelSelectorsOverlap(one, other)) expect(refused).toContain("b serves some of the same Services as shard a");
    else expect(refused).toBe("");
  });

  test("are refused beside a deployment that serves everything, and without Services, a lease or a name of their own", async () => {
    const refused = await helm()
      .template({
        leaderElection: { enabled: false },
        replicas: 1,
        shards: [{ name: "a", selector: "x=y" }, { name: "b" }, { name: "a", selector: "x=z" }],
      })
      .then(() => "", String);
    for (const problem of [
      'shards: a serves some of the same Services as the deployment without a shard: change services.selector, such as "shard notin (a)"',
      "shards: b has neither selector nor loadBalancerClass",
      "shards has two shards with the name a",
      "shards needs leaderElection.enabled",
    ])
      expect(refused).toContain(problem);
  });

  test("have the roles of the service controller where the deployment without a shard runs none, and may then serve any Services", async () => {
    const manifests = await helm().template({ controllers: ["*", "-service"], shards: twoShards });
    const inputs = await Promise.all(manifests.filter(({ kind }) => kind === "Deployment").map(inputOf));
    expect(inputs).toHaveLength(3);
    const needed = new Set(inputs.flatMap((input) => declaredIn(grantsOf(input))));
    expect(new Set(grantedBy(manifests, release))).toEqual(needed);
    const overlapping = [
      { name: "a", selector: "shard=a" },
      { name: "b", selector: "team=b" },
    ];
    const refused = await helm()
      .template({ controllers: ["cloud-node"], shards: overlapping })
      .then(() => "", String);
    expect(refused).toContain("b serves some of the same Services as shard a");
    expect(refused).not.toContain("the deployment without a shard");
  });

  test("have alerts that name the deployment, also where an expression leaves no label", async () => {
    const metrics = { prometheusRule: { enabled: true } };
    const manifests = await helm().template({ services, shards: twoShards, metrics });
    const rules = manifests.filter(({ kind }) => kind === "PrometheusRule");
    expect(rules.map(({ metadata }) => metadata.name)).toEqual([release, `${release}-a`, `${release}-b`]);
    for (const { metadata, spec } of JSON.parse(JSON.stringify(rules)))
      for (const { labels } of spec.groups.flatMap((group: { readonly rules: readonly unknown[] }) => group.rules))
        expect(labels).toEqual({ job: metadata.name, severity: expect.stringMatching(/^(?:warning|critical)$/u) });
  });

  test("are refused with unknown flags, and with those that their other objects depend on", async () => {
    const extraArgs = [
      "--concurent-node-syncs=16",
      "--leader-elect=false",
      "--secure-port=1",
      "--enable-leader-migration",
    ];
    const shards = [{ name: "a", selector: "shard=a", extraArgs: [...extraArgs, "--v=4"] }];
    const refused = await helm()
      .template({ services, shards, extraArgs: ["--concurrent=1"] })
      .then(() => "", String);
    const [unknown, election, port, migration] = extraArgs.map((flag) => `shards: extraArgs of a has ${flag}, `);
    expect(refused).toContain(`${unknown}which is not a flag of this version`);
    for (const start of [election, port]) expect(refused).toContain(`${start}a flag that the chart sets itself`);
    expect(refused).toContain(`${migration}but the chart makes the roles for it from a value: use leaderMigration`);
    expect(refused).not.toContain("--v=4");
    expect(refused).toContain("extraArgs has --concurrent=1, which is not a flag of this version");
    // Roles of one's own may be for any flag.
    expect(await helm().template({ rbac: { create: false }, extraArgs: ["--service-selector=a=b"] })).not.toEqual([]);
    expect(await helm().template({ extraArgs: ["--use-service-account-credentials=false"] })).not.toEqual([]);
  });

  test("bind to the address of their Pods where only the release itself is on the node's network", async () => {
    const network = { allocateNodeCIDRs: true, clusterCIDR: "10.244.0.0/16" };
    const bindAddresses = async (values: Values): Promise<readonly unknown[]> => {
      const manifests = await helm().template({ services, shards: twoShards, network, ...values });
      const inputs = manifests.filter(({ kind }) => kind === "Deployment").map(inputOf);
      return (await Promise.all(inputs)).map(({ options }) => options.bindAddress);
    };
    const serving = { bindAddress: "127.0.0.1" };
    expect(await bindAddresses({ serving })).toEqual(["127.0.0.1", "0.0.0.0", "0.0.0.0"]);
    expect(await bindAddresses({ serving, hostNetwork: true })).toEqual(["127.0.0.1", "127.0.0.1", "127.0.0.1"]);
  });

  test("are left to the hosts where an overlap cannot be known while rendering, and need no more than a class of their own", async () => {
    const shards = [
      { name: "a", selector: "weight>5" },
      { name: "b", selector: "weight<3" },
      { name: "c", loadBalancerClass: "example.com/c" },
    ];
    expect(await helm().template({ services: { selector: "!weight" }, shards })).not.toEqual([]);
  });
});

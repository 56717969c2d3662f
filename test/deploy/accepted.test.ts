import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { join } from "node:path";

import { kinds } from "cloud-controller-host/sdk";
import { eventually } from "cloud-controller-host/sdk/testing";

import type { Cluster } from "../envtest/cluster.ts";
import { describeOnRealApiServer } from "../envtest/shared.ts";
import { chart, describeWithHelm, type Manifest, namespace, release, theOne, type Values } from "./helm.ts";
import { allModes, modes } from "./modes.ts";
import { monitoringDefinitions } from "./monitoring-crds.ts";

setDefaultTimeout(120_000);

const folder = join(import.meta.dir, "..", "..", "deploy", "manifests");
/** The chart as it was before hostNetwork, probes and monitors became values, packaged. */
const previousChart = join(import.meta.dir, "fixtures", "previous-chart.tgz");
const strict = ["--dry-run=server", "--validate=strict"];

const administrator = (cluster: Cluster): Promise<string> => cluster.kubeconfig("deployer", ["system:masters"]);

/** As a stream for kubectl: JSON is YAML. */
const stream = (objects: readonly object[]): string => objects.map((object) => JSON.stringify(object)).join("\n---\n");

async function define(cluster: Cluster): Promise<void> {
  await cluster.kubectl(await administrator(cluster), ["apply", "-f", "-"], stream(monitoringDefinitions));
  for (const resource of ["servicemonitors", "podmonitors", "prometheusrules"])
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
      const output = await cluster.kubectl(kubeconfig, ["apply", "-k", join(folder, path), ...strict]);
      expect(output.trim().split("\n").length).toBeGreaterThan(1);
    });

  test("accepts the static Pod, strictly validated", async () => {
    const path = join(folder, "static-pod", "cloud-controller-host.yaml");
    expect(await cluster.kubectl(await administrator(cluster), ["create", "-f", path, ...strict])).toContain("created");
  });

  describeWithHelm("the chart with Helm", (helm) => {
    for (const { name, values } of allModes)
      test(`accept the chart for ${name}, strictly validated`, async () => {
        const manifests = await helm().template(values);
        const kubeconfig = await administrator(cluster);
        const output = await cluster.kubectl(kubeconfig, ["create", "-f", "-", ...strict], stream(manifests));
        expect(output.trim().split("\n")).toHaveLength(manifests.length);
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

    test("stop the Pods of another Lease, or of none, before new ones start", async () => {
      const kubeconfig = await administrator(cluster);
      await using stack = new AsyncDisposableStack();
      stack.defer(() => helm().uninstall(kubeconfig));
      const changes: readonly (readonly [values: Values, type: string])[] = [
        [{}, "RollingUpdate"],
        [{ replicas: 3 }, "RollingUpdate"],
        [{ leaderElection: { leaseName: "another" } }, "Recreate"],
        [{ leaderElection: { leaseName: "another" } }, "RollingUpdate"],
        [{ leaderElection: { leaseName: "another", leaseNamespace: "default" } }, "Recreate"],
        [modes.alone.values, "Recreate"],
        [{}, "Recreate"],
        [{}, "RollingUpdate"],
      ];
      for (const [values, type] of changes) {
        await helm().install(kubeconfig, values);
        expect([values, (await deploymentOf(cluster)).strategy]).toEqual([values, type]);
      }
    });

    test("upgrade a release of the chart before this one, with its values", async () => {
      const kubeconfig = await administrator(cluster);
      await using stack = new AsyncDisposableStack();
      stack.defer(() => helm().uninstall(kubeconfig));
      const values = { replicas: 3, hostNetwork: true, podLabels: { tier: "control-plane" } };
      await helm().install(kubeconfig, values, previousChart);
      const before = await deploymentOf(cluster);
      await helm().install(kubeconfig, values);
      expect(await deploymentOf(cluster)).toMatchObject({ uid: before.uid, replicas: 3, hostNetwork: true });
      await helm().run([
        "upgrade",
        release,
        chart,
        "--reset-then-reuse-values",
        "--set=replicas=2",
        `--namespace=${namespace}`,
        `--kubeconfig=${kubeconfig}`,
      ]);
      expect(await deploymentOf(cluster)).toMatchObject({ uid: before.uid, replicas: 2, hostNetwork: true });
    });

    test("restrict the service account to the Node fields that its controllers write", async () => {
      const kubeconfig = await administrator(cluster);
      await using stack = new AsyncDisposableStack();
      stack.defer(() => helm().uninstall(kubeconfig));
      await helm().install(kubeconfig, modes.admission.values);
      // Whatever its roles allow: the policy is what refuses.
      const account = await cluster.kubeconfig(`system:serviceaccount:${namespace}:${release}`, ["system:masters"]);
      const other = await cluster.kubeconfig("bob", ["system:masters"]);
      const name = "guarded";
      const spec = { providerID: "azure:///vm", taints: [{ key: "mine", effect: "NoSchedule" }] };
      await cluster.admin.create(kinds.Node, { metadata: { name, labels: { role: "x" } }, spec });
      stack.defer(() => cluster.admin.delete(kinds.Node, { name }).then(() => undefined));
      const patch = (as: string, change: object, ...more: readonly string[]): Promise<string> =>
        cluster
          .kubectl(as, ["patch", "node", name, "--type=merge", "-p", JSON.stringify(change), ...more])
          .then(() => "allowed", String);
      const label = (key: string): object => ({ metadata: { labels: { [key]: "a" } } });
      const taint = (...keys: readonly string[]): object => ({
        spec: { taints: keys.map((key) => ({ key, effect: "NoSchedule" })) },
      });
      const address = (text: string, type = "InternalIP"): object => ({
        status: { addresses: [{ type, address: text }] },
      });
      await eventually("the policy is in force", async () => {
        const unused = `unused-${Bun.randomUUIDv7()}`;
        return (await patch(account, label(unused))) !== "allowed";
      });
      const refused: readonly (readonly [object, string, ...string[]])[] = [
        [
          label("node-role.kubernetes.io/control-plane"),
          "may not change the labels node-role.kubernetes.io/control-plane",
        ],
        [{ metadata: { labels: { role: null } } }, "may not change the labels role"],
        [taint(), "may not change the taints mine=:NoSchedule"],
        [taint("mine", "evil"), "may not change the taints evil=:NoSchedule"],
        [{ spec: { unschedulable: true } }, "may not cordon"],
        [{ spec: { providerID: "azure:///other" } }, "providerID"],
        [{ metadata: { finalizers: ["a.test/b"] } }, "may not change a node's finalizers"],
        [
          { status: { daemonEndpoints: { kubeletEndpoint: { Port: 1 } } } },
          "port of a node's kubelet",
          "--subresource=status",
        ],
        [{ status: { capacity: { cpu: "99" } } }, "may not change a node's capacity", "--subresource=status"],
        [label("role"), "may not change the labels role", "--subresource=status"],
        [address("127.0.0.1"), "loopback, link-local or unspecified address", "--subresource=status"],
        [address("169.254.169.254", "ExternalIP"), "loopback, link-local or unspecified", "--subresource=status"],
        [address("fe80::1"), "loopback, link-local or unspecified address", "--subresource=status"],
        [address("192.168.0.1"), "outside of admissionPolicy.nodeCIDRs", "--subresource=status"],
      ];
      for (const [change, sentence, ...more] of refused)
        expect(await patch(account, change, ...more)).toContain(sentence);
      const allowed: readonly (readonly [object, ...string[]])[] = [
        [label("topology.kubernetes.io/zone")],
        [label("example.com/rack")],
        [taint("mine", "node.cloudprovider.kubernetes.io/uninitialized")],
        [taint("mine")],
        [{ spec: { podCIDR: "10.0.0.0/24", podCIDRs: ["10.0.0.0/24"] } }],
        [address("10.0.0.1"), "--subresource=status"],
        [address("fd00::1"), "--subresource=status"],
        [address("192.168.0.1", "ExternalIP"), "--subresource=status"],
        [address("0.example.com", "Hostname"), "--subresource=status"],
        [{ status: { conditions: [{ type: "NetworkUnavailable", status: "False" }] } }, "--subresource=status"],
      ];
      for (const [change, ...more] of allowed) expect(await patch(account, change, ...more)).toBe("allowed");
      expect(await patch(other, label("evil"))).toBe("allowed");
    });

    test("keep the service account from deleting ready nodes and from giving a Service a local address or another finalizer", async () => {
      const kubeconfig = await administrator(cluster);
      await using stack = new AsyncDisposableStack();
      stack.defer(() => helm().uninstall(kubeconfig));
      await helm().install(kubeconfig, modes.admission.values);
      const account = await cluster.kubeconfig(`system:serviceaccount:${namespace}:${release}`, ["system:masters"]);
      const run = (...args: readonly string[]): Promise<string> =>
        cluster.kubectl(account, args).then(() => "allowed", String);
      const name = "ready-or-not";
      const ready = (status: string): Promise<unknown> =>
        cluster.admin.patch(
          kinds.Node,
          { name },
          "merge",
          { status: { conditions: [{ type: "Ready", status }] } },
          {
            subresource: "status",
          },
        );
      await cluster.admin.create(kinds.Node, { metadata: { name } });
      await ready("True");
      await eventually("the policy is in force", async () =>
        (await run("delete", "node", name, "--dry-run=server")).includes("may not delete a node that is ready"),
      );
      await ready("Unknown");
      expect(await run("delete", "node", name)).toBe("allowed");
      const metadata = { name: "loadbalancer", namespace };
      await cluster.admin.create(kinds.Service, { metadata, spec: { type: "LoadBalancer", ports: [{ port: 80 }] } });
      stack.defer(() => cluster.admin.delete(kinds.Service, metadata).then(() => undefined));
      const write = (service: string, change: object): Promise<string> =>
        run(
          "patch",
          "service",
          service,
          `--namespace=${namespace}`,
          "--type=merge",
          "--subresource=status",
          "-p",
          JSON.stringify(change),
        );
      const ingress = (ip: string): object => ({ status: { loadBalancer: { ingress: [{ ip }] } } });
      const finalizer = (...finalizers: readonly string[]): object => ({ metadata: { finalizers } });
      const cleanup = "service.kubernetes.io/load-balancer-cleanup";
      await eventually("the policy is in force", async () =>
        (await write("loadbalancer", ingress("127.0.0.1"))).includes("loopback, link-local or unspecified"),
      );
      expect(await write("loadbalancer", ingress("169.254.169.254"))).toContain("loopback, link-local or unspecified");
      expect(await write("loadbalancer", finalizer("a.test/b"))).toContain("another's finalizers");
      expect(await write("loadbalancer", finalizer(cleanup))).toBe("allowed");
      expect(await write("loadbalancer", ingress("20.0.0.1"))).toBe("allowed");
      expect(await write("loadbalancer", { status: { loadBalancer: { ingress: null } } })).toBe("allowed");
      expect(await write("loadbalancer", { metadata: { finalizers: null } })).toBe("allowed");
    });

    test("deny the mark of a deployment to users who may not update its Lease", async () => {
      const kubeconfig = await administrator(cluster);
      await using stack = new AsyncDisposableStack();
      stack.defer(() => helm().uninstall(kubeconfig));
      await helm().install(kubeconfig, modes.secret.values);
      const accountName = `system:serviceaccount:${namespace}:${release}`;
      const account = await cluster.kubeconfig(accountName);
      const tenant = await cluster.kubeconfig("tenant");
      const rule = { apiGroups: [""], resources: ["services", "services/status"], verbs: ["*"] };
      const metadata = { name: `${release}-tenant`, namespace };
      const path = `/apis/rbac.authorization.k8s.io/v1/namespaces/${namespace}`;
      const roleRef = { apiGroup: "rbac.authorization.k8s.io", kind: "Role", name: metadata.name };
      const subjects = ["tenant", accountName].map((name) => ({ kind: "User", name }));
      await cluster.admin.request("POST", `${path}/roles`, { metadata, rules: [rule] });
      stack.defer(() => cluster.admin.request("DELETE", `${path}/roles/${metadata.name}`).then(() => undefined));
      await cluster.admin.request("POST", `${path}/rolebindings`, { metadata, roleRef, subjects });
      stack.defer(() => cluster.admin.request("DELETE", `${path}/rolebindings/${metadata.name}`).then(() => undefined));

      const key = "cloud-controller-host/served-by";
      const own = "cloud-controller-manager";
      const service = (name: string, annotations?: object): string =>
        JSON.stringify({
          apiVersion: "v1",
          kind: "Service",
          metadata: { name, annotations },
          spec: { ports: [{ port: 80 }] },
        });
      const create = (as: string, name: string, annotations?: object, ...more: readonly string[]): Promise<string> =>
        cluster
          .kubectl(as, ["create", "-f", "-", `--namespace=${namespace}`, ...more], service(name, annotations))
          .then(() => "allowed", String);
      const annotate = (as: string, annotations: object, ...more: readonly string[]): Promise<string> =>
        cluster
          .kubectl(as, [
            "patch",
            "service",
            "marked",
            `--namespace=${namespace}`,
            "--type=merge",
            "-p",
            JSON.stringify({ metadata: { annotations } }),
            ...more,
          ])
          .then(() => "allowed", String);
      const sentence = `only a deployment that serves Services may set the annotation ${key}: remove it, or ask for the permission to update the Lease ${namespace}/`;
      expect(await create(tenant, "marked")).toBe("allowed");
      stack.defer(() => cluster.admin.delete(kinds.Service, { name: "marked", namespace }).then(() => undefined));
      await eventually("the policy is in force", async () =>
        (await create(tenant, "another", { [key]: "none" }, "--dry-run=server")).includes(`${sentence}none`),
      );
      for (const more of [[], ["--subresource=status"]])
        expect(await annotate(tenant, { [key]: own }, ...more)).toContain(`${sentence}${own}`);
      // Others' annotations, an empty mark, and what is written with a mark that stays.
      expect(await annotate(tenant, { "a.test/b": "c" })).toBe("allowed");
      expect(await annotate(tenant, { [key]: "" })).toBe("allowed");
      expect(await annotate(account, { [key]: own })).toBe("allowed");
      expect(await annotate(account, { [key]: "another" })).toContain(`${sentence}another`);
      expect(await annotate(tenant, { "a.test/b": "d" })).toBe("allowed");
      expect(await annotate(tenant, { [key]: null })).toBe("allowed");
      expect(await annotate(kubeconfig, { [key]: "another" })).toBe("allowed");
    });

    test("accept a Pod of the chart in a namespace that enforces the restricted Pod Security Standard", async () => {
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

interface Deployed {
  readonly uid: string;
  readonly replicas: number;
  readonly hostNetwork: unknown;
  readonly strategy: unknown;
}

async function deploymentOf({ admin }: Cluster): Promise<Deployed> {
  const path = `/apis/apps/v1/namespaces/${namespace}/deployments/${release}`;
  const { metadata, spec } = JSON.parse(JSON.stringify(await admin.request("GET", path)));
  const { replicas, strategy, template } = spec;
  return { uid: metadata.uid, replicas, hostNetwork: template.spec.hostNetwork, strategy: strategy.type };
}

function podOf(manifests: readonly Manifest[]): object {
  const { metadata, spec } = JSON.parse(JSON.stringify(theOne(manifests, "Deployment"))).spec.template;
  return { apiVersion: "v1", kind: "Pod", metadata: { ...metadata, name: "one", namespace: "restricted" }, spec };
}

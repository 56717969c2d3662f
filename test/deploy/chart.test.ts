import { afterAll, describe, expect, test } from "bun:test";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";

import { taints } from "cloud-controller-host/sdk";
import * as fc from "fast-check";
import { parse } from "yaml";

import { readCommand } from "../../host/cli/command.ts";
import { grantsOf } from "../../host/cli/grants.ts";
import { printRoles } from "../../host/cli/rbac.ts";
import type { HostInput } from "../../host/run/process-parts.ts";
import packageJson from "../../package.json";
import { loadPluginsOnce } from "../kit/plan.ts";
import { declaredIn, grantedBy } from "./grants.ts";
import { describeWithHelm, type Manifest, manifestsOf, namespace, release, theOne, type Values } from "./helm.ts";
import { allModes, modes } from "./modes.ts";
import { askPrometheus } from "./promql.ts";

const examples = join(import.meta.dir, "../../sdk/examples");
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
  let problem = "";
  const read = await readCommand(await argsOf(manifests), {
    environment: {},
    stdout: () => undefined,
    stderr: (text) => void (problem += text),
    width: 100,
    loadPlugins: loadPluginsOnce,
  });
  if ("status" in read) throw new Error(problem);
  return read;
}

describeWithHelm("the chart", (helm) => {
  for (const { name, values } of allModes)
    test(`renders flags that the host accepts, and exactly the roles that it then needs, for ${name}`, async () => {
      const manifests = await helm().template({ ...values, ...(name === modes.plugins.name ? withoutRules : {}) });
      const input = await hostInput(manifests);
      expect(input.notices).toEqual([]);
      const rolesAreElsewhere = name === modes.hosted.name;
      expect(grantedBy(manifests, release)).toEqual(rolesAreElsewhere ? [] : declaredIn(grantsOf(input)));
    });

  test("installs a shadow as one replica that may only read, with an account and a name of its own", async () => {
    const manifests = await helm().template({
      ...modes.shadow.values,
      replicas: 3,
      metrics: { prometheusRule: { enabled: true } },
    });
    expect(theOne(manifests, "Deployment")).toMatchObject({ spec: { replicas: 1 } });
    const { options } = await hostInput(manifests);
    expect({ shadow: options.shadow, settleMs: options.shadowSettle }).toEqual({ shadow: true, settleMs: 30_000 });
    const writing = grantedBy(manifests, release).filter((permit) => !/^(?:get|list|watch) /u.test(permit));
    expect(writing).toEqual([
      "create subjectaccessreviews.authorization.k8s.io",
      "create tokenreviews.authentication.k8s.io",
    ]);
    expect(manifests.filter(({ kind }) => kind === "PrometheusRule")).toEqual([]);
  });

  test("grants a shadow no Lease but the one that names the leader, whatever else it is to compare", async () => {
    for (const values of [modes.migration.values, { services: { loadBalancerClass: "example.com/a" } }]) {
      const manifests = await helm().template({ ...values, shadow: { enabled: true } });
      expect(grantedBy(manifests, release)).toEqual(declaredIn(grantsOf(await hostInput(manifests))));
    }
  });

  test("sets the flags of the audit log, without rotation on stdout", async () => {
    const options = async (auditLog: Values): Promise<readonly unknown[]> => {
      const read = await hostInput(await helm().template({ auditLog }));
      const { auditLogPath, auditLogMaxage, auditLogMaxbackup, auditLogMaxsize } = read.options;
      return [auditLogPath, auditLogMaxage, auditLogMaxbackup, auditLogMaxsize];
    };
    const rotation = { maxAgeDays: 7, maxBackups: 3, maxSizeMegabytes: 50 };
    expect(await options({ path: "/var/log/host/audit.log", ...rotation })).toEqual([
      "/var/log/host/audit.log",
      7,
      3,
      50,
    ]);
    expect(await options({ path: "-", ...rotation })).toEqual(["-", 0, 10, 100]);
  });

  test("enables the same controllers as the host for any list", async () => {
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

  test("grants no second Lease while another component runs every migrating controller", async () => {
    const controllerLeaders = [{ name: "node-ipam-controller", component: "kube-controller-manager" }];
    const manifests = await helm().template({ leaderMigration: { enabled: true, controllerLeaders } });
    expect(grantedBy(manifests, release).filter((permit) => permit.includes("migration"))).toEqual([]);
    expect(grantedBy(manifests, release)).toEqual(declaredIn(grantsOf(await hostInput(manifests))));
  });

  test("uses the host network when configured, or when the pod network depends on its controllers", async () => {
    const pod = async (values: Values): Promise<unknown> => {
      const deployment = JSON.parse(JSON.stringify(theOne(await helm().template(values), "Deployment")));
      return deployment.spec.template.spec.hostNetwork;
    };
    expect(await pod({})).toBeUndefined();
    expect(await pod({ hostNetwork: true })).toBe(true);
    const clusterCIDR = "10.244.0.0/16";
    expect(await pod({ network: { allocateNodeCIDRs: true, clusterCIDR } })).toBe(true);
    expect(await pod({ network: { configureCloudRoutes: true, clusterCIDR } })).toBe(true);
    const network = { allocateNodeCIDRs: true, clusterCIDR, podNetworkWaitsForNodes: false };
    expect(await pod({ network })).toBeUndefined();
    expect(await pod({ network, hostNetwork: false })).toBeUndefined();
    // A shadow hands out nothing, and the port on the node is that of the manager beside it.
    const shadow = { enabled: true };
    for (const hostNetwork of ["auto", false])
      expect(await pod({ shadow, hostNetwork, network: { allocateNodeCIDRs: true, clusterCIDR } })).toBeUndefined();
    expect(await pod({ shadow, hostNetwork: true })).toBe(true);
  });

  test("probes the address that the host serves on", async () => {
    const hosts = async (bindAddress: string): Promise<unknown> => {
      const manifests = await helm().template({ hostNetwork: true, serving: { bindAddress } });
      const deployment = JSON.parse(JSON.stringify(theOne(manifests, "Deployment")));
      const [container] = deployment.spec.template.spec.containers;
      expect(container.args.filter((arg: string) => arg.startsWith("--bind-address"))).toEqual(
        bindAddress === "" ? [] : [`--bind-address=${bindAddress}`],
      );
      return ["startupProbe", "livenessProbe", "readinessProbe"].map((probe) => container[probe].httpGet.host);
    };
    expect(await hosts("127.0.0.1")).toEqual(["127.0.0.1", "127.0.0.1", "127.0.0.1"]);
    for (const all of ["", "0.0.0.0", "::"]) expect(await hosts(all)).toEqual([undefined, undefined, undefined]);
  });

  test("serves webhooks behind a Service of their own, which the network policy opens to the API server", async () => {
    const manifests: readonly Manifest[] = await helm().template(modes.webhooks.values);
    const services = manifests.filter(({ kind }) => kind === "Service");
    const [service] = services.filter(({ metadata }) => metadata.name === `${release}-webhooks`);
    const { selector, ports } = JSON.parse(JSON.stringify(service)).spec;
    const { template } = JSON.parse(JSON.stringify(theOne(manifests, "Deployment"))).spec;
    const [container] = template.spec.containers;
    expect(template.metadata.labels).toMatchObject(selector);
    expect(ports).toEqual([{ name: "webhooks", port: 443, targetPort: "webhooks" }]);
    const gate = "--feature-gates=CloudControllerManagerWebhook=true";
    const printed = manifestsOf(await printRoles([`--plugin-dir=${examples}`, "--webhooks=*", gate]));
    const { webhooks } = JSON.parse(JSON.stringify(theOne(printed, "ValidatingWebhookConfiguration")));
    expect(webhooks[0].clientConfig.service).toMatchObject({ name: `${release}-webhooks`, namespace, port: 443 });
    expect(container.ports).toContainEqual({ name: "webhooks", containerPort: 10_260 });
    expect(container.args).toContain(gate);
    expect(container.args).toContain("--webhook-secure-port=10260");
    const folders = container.volumeMounts.map(({ mountPath }: { readonly mountPath: string }) => mountPath);
    for (const file of ["cert", "private-key"]) {
      const flag = container.args.find((arg: string) => arg.startsWith(`--webhook-tls-${file}-file=`));
      expect(folders).toContain(dirname(flag.split("=")[1]));
    }
    const policy = JSON.parse(JSON.stringify(theOne(manifests, "NetworkPolicy")));
    expect(policy.spec.ingress[1]).toEqual({ ports: [{ protocol: "TCP", port: 10_260 }] });
  });

  test("tolerates every taint that its controllers remove from a running node", async () => {
    const deployment = JSON.parse(JSON.stringify(theOne(await helm().template({}), "Deployment")));
    const keys = deployment.spec.template.spec.tolerations.map(({ key }: { readonly key: string }) => key);
    for (const key of [taints.uninitialized, taints.shutdown, "node.kubernetes.io/network-unavailable"])
      expect(keys).toContain(key);
  });

  test("has the version of package.json", async () => {
    const { version } = packageJson;
    const metadata = await helm().run(["show", "chart", "deploy/chart"]);
    expect(metadata).toContain(`\nversion: ${version}\n`);
    expect(metadata).toContain(`\nappVersion: ${version}\n`);
    expect(await Bun.file(join(import.meta.dir, "..", "..", "deploy", "Containerfile")).text()).toContain(
      `ARG VERSION=${version}\n`,
    );
  });

  test("never lets a new Pod run beside the old one without leader election", async () => {
    const deployment = JSON.parse(JSON.stringify(theOne(await helm().template(modes.alone.values), "Deployment")));
    expect(deployment.spec.strategy).toEqual({ type: "Recreate" });
  });

  test("renders every value of the Pod in the field of that name", async () => {
    const values = {
      ...modes.customized.values,
      image: {
        repository: "registry.test/x",
        digest: `sha256:${"a".repeat(64)}`,
        pullPolicy: "Always",
        pullSecrets: [{ name: "pull" }],
      },
      priorityClassName: "own-priority",
      nodeSelector: { pool: "system" },
      tolerations: [{ key: "own", operator: "Exists" }],
      podSecurityContext: { fsGroup: 7 },
      drainTimeoutSeconds: 21,
      resources: { limits: { memory: "77Mi" } },
      serviceAccount: { automount: false },
    };
    const { metadata, spec } = JSON.parse(JSON.stringify(theOne(await helm().template(values), "Deployment")));
    const { template } = spec;
    const [container, second] = template.spec.containers;
    expect(metadata.labels).toMatchObject({ team: "clouds" });
    expect(spec.strategy).toEqual(values.strategy);
    expect(template.metadata.labels).toMatchObject({ team: "clouds", tier: "control-plane" });
    expect(template.metadata.annotations).toEqual({ note: "x" });
    expect(template.spec).toMatchObject({
      affinity: values.affinity,
      automountServiceAccountToken: false,
      dnsConfig: values.dnsConfig,
      dnsPolicy: "None",
      enableServiceLinks: false,
      hostAliases: values.hostAliases,
      hostNetwork: true,
      imagePullSecrets: [{ name: "pull" }],
      initContainers: values.initContainers,
      nodeSelector: values.nodeSelector,
      priorityClassName: "own-priority",
      securityContext: { fsGroup: 7 },
      terminationGracePeriodSeconds: 36,
      tolerations: values.tolerations,
      topologySpreadConstraints: values.topologySpreadConstraints,
    });
    expect(template.spec.volumes).toContainEqual(values.extraVolumes[0]);
    expect(second).toEqual(values.extraContainers[0]);
    expect(container).toMatchObject({
      envFrom: values.envFrom,
      image: `registry.test/x@${values.image.digest}`,
      imagePullPolicy: "Always",
      livenessProbe: { failureThreshold: 3, httpGet: { path: "/livez" } },
      resources: { limits: { memory: "77Mi" } },
      securityContext: { privileged: false },
    });
    expect(container.env).toContainEqual(values.extraEnv[0]);
    expect(container.volumeMounts).toContainEqual(values.extraVolumeMounts[0]);
  });

  test("changes the Pod when the migration config changes", async () => {
    const checksum = async (component: string): Promise<unknown> => {
      const controllerLeaders = [{ name: "node-ipam-controller", component }];
      const values = { ...modes.migration.values, leaderMigration: { enabled: true, controllerLeaders } };
      const deployment = JSON.parse(JSON.stringify(theOne(await helm().template(values), "Deployment")));
      return deployment.spec.template.metadata.annotations["checksum/leader-migration"];
    };
    const checksums = await Promise.all(["*", "kube-controller-manager", "*"].map(checksum));
    expect(checksums[0]).toBe(checksums[2]);
    expect(checksums[0]).not.toBe(checksums[1]);
  });

  test("spreads Pods over nodes, as a must only on the host network, and over zones", async () => {
    const spread = async (hostNetwork: boolean): Promise<unknown> => {
      const deployment = JSON.parse(JSON.stringify(theOne(await helm().template({ hostNetwork }), "Deployment")));
      const { selector, strategy, template } = deployment.spec;
      const constraints: readonly Readonly<Record<string, unknown>>[] = template.spec.topologySpreadConstraints;
      for (const constraint of constraints) {
        expect(constraint).toMatchObject({
          maxSkew: 1,
          labelSelector: selector,
          matchLabelKeys: ["pod-template-hash"],
        });
      }
      return [
        strategy.rollingUpdate,
        constraints.map(({ topologyKey, whenUnsatisfiable }) => [topologyKey, whenUnsatisfiable]),
      ];
    };
    const zones = ["topology.kubernetes.io/zone", "ScheduleAnyway"];
    const node = "kubernetes.io/hostname";
    expect(await spread(true)).toEqual([{ maxSurge: 0, maxUnavailable: 1 }, [[node, "DoNotSchedule"], zones]]);
    expect(await spread(false)).toEqual([{ maxSurge: 1, maxUnavailable: 0 }, [[node, "ScheduleAnyway"], zones]]);
  });

  test("has both metrics endpoints scraped by a monitor that verifies the peer and selects the Pods", async () => {
    for (const { values } of [modes.monitored, modes.podMonitor]) {
      const scrape = { ...values.metrics.scrape, labels: { release: "prometheus" }, interval: "17s", timeout: "9s" };
      const manifests = await helm().template({ ...values, metrics: { ...values.metrics, scrape } });
      const monitor = manifests.find(({ kind }) => kind === "ServiceMonitor" || kind === "PodMonitor");
      const { metadata, spec } = JSON.parse(JSON.stringify(monitor));
      const { template } = JSON.parse(JSON.stringify(theOne(manifests, "Deployment"))).spec;
      expect(metadata.labels).toMatchObject({ release: "prometheus" });
      expect(template.metadata.labels).toMatchObject(spec.selector.matchLabels);
      const isVerified = !("insecureSkipVerify" in scrape);
      expect(spec[isVerified ? "endpoints" : "podMetricsEndpoints"]).toEqual(
        ["/metrics", "/metrics/slis"].map((path) => ({
          port: "https",
          scheme: "https",
          path,
          interval: "17s",
          scrapeTimeout: "9s",
          relabelings: [
            { sourceLabels: ["__metrics_path__"], targetLabel: "metrics_path" },
            ...(isVerified ? [] : [{ targetLabel: "job", replacement: release }]),
          ],
          authorization: { credentials: { name: "prometheus-token", key: "token" } },
          tlsConfig: isVerified
            ? {
                serverName: `${release}.${namespace}.svc`,
                ca: { secret: { name: "serving", key: "ca.crt" } },
              }
            : { insecureSkipVerify: true },
        })),
      );
    }
  });

  test("lets the metrics reader read metrics and nothing else", async () => {
    const manifests = await helm().template(modes.monitored.values);
    const ofReader = manifests.filter(({ metadata }) => metadata.name === `${release}-metrics-reader`);
    const [role, binding] = JSON.parse(JSON.stringify(ofReader));
    expect(role.rules).toEqual([{ nonResourceURLs: ["/metrics", "/metrics/slis"], verbs: ["get"] }]);
    expect(binding.roleRef).toMatchObject({ kind: "ClusterRole", name: role.metadata.name });
    expect(binding.subjects).toEqual([{ kind: "ServiceAccount", name: "prometheus", namespace: "monitoring" }]);
  });

  test("lets readers of the console open it and nothing else, with the rules that rbac --console prints", async () => {
    const readers = [{ kind: "Group", name: "operators", apiGroup: "rbac.authorization.k8s.io" }];
    const manifests = await helm().template({ console: { readers } });
    const own = JSON.parse(JSON.stringify(manifests.filter(({ metadata }) => metadata.name === `${release}-console`)));
    const ofKind = (kind: string) => own.find((manifest: Manifest) => manifest.kind === kind);
    const printed = JSON.parse(JSON.stringify(manifestsOf(await printRoles(["--console"]))));
    const rulesOf = (kind: string) => printed.find((manifest: Manifest) => manifest.kind === kind).rules;
    expect(ofKind("ClusterRole").rules).toEqual([{ nonResourceURLs: ["/ui/*"], verbs: ["get"] }]);
    for (const kind of ["ClusterRole", "Role"]) {
      expect(ofKind(kind).rules).toEqual(rulesOf(kind));
      expect(ofKind(`${kind}Binding`)).toMatchObject({
        roleRef: { kind, name: `${release}-console` },
        subjects: readers,
      });
    }
    expect(ofKind("Role").metadata.namespace).toBe(namespace);
    expect(printed).toHaveLength(2);
    const withoutReaders = await helm().template({});
    expect(withoutReaders.some(({ metadata }) => metadata.name === `${release}-console`)).toBe(false);
  });

  test("lets readers of the console find the leader of each shard, by Leases in their own namespace", async () => {
    const readers = [{ kind: "User", name: "jo", apiGroup: "rbac.authorization.k8s.io" }];
    const values = {
      console: { readers },
      leaderElection: { leaseNamespace: "leases" },
      services: { selector: "shard notin (a)" },
      shards: [{ name: "a", selector: "shard=a" }],
    };
    const manifests = await helm().template(values);
    const own = manifests.filter(({ metadata }) => metadata.name === `${release}-console`);
    const inNamespace = (space: string | undefined, kind: string) =>
      JSON.parse(JSON.stringify(own.find((one) => one.kind === kind && one.metadata.namespace === space)));
    const resourceNames = ["cloud-controller-manager", "cloud-controller-manager-a"];
    expect(inNamespace("leases", "Role").rules).toEqual([
      { apiGroups: ["coordination.k8s.io"], resources: ["leases"], resourceNames, verbs: ["get"] },
    ]);
    expect(inNamespace(namespace, "Role").rules).toEqual([
      { apiGroups: [""], resources: ["pods"], verbs: ["list"] },
      { apiGroups: [""], resources: ["pods/portforward"], verbs: ["get", "create"] },
    ]);
    for (const space of ["leases", namespace])
      expect(inNamespace(space, "RoleBinding")).toMatchObject({
        roleRef: { kind: "Role", name: `${release}-console` },
        subjects: readers,
      });
    expect(own).toHaveLength(6);
  });

  test("has alerts for the job of its own release", async () => {
    const manifests = await helm().template({ ...modes.monitored.values, fullnameOverride: "other" });
    const text = JSON.stringify(theOne(manifests, "PrometheusRule"));
    expect(text).toContain('job=\\"other\\"');
    expect(text).not.toContain('job=\\"cloud-controller-host\\"');
  });

  test("has alerts for the job that either monitor gives its targets", async () => {
    const metrics = { prometheusRule: { enabled: true } };
    for (const { values } of [modes.monitored, modes.podMonitor]) {
      const manifests = await helm().template({
        ...values,
        metrics: { ...values.metrics, ...metrics },
        fullnameOverride: "other",
      });
      const jobs = JSON.stringify(theOne(manifests, "PrometheusRule")).match(/job=\\"[^"]+\\"/gu);
      const monitor = manifests.find(({ kind }) => kind === "ServiceMonitor" || kind === "PodMonitor");
      for (const job of jobsOf(JSON.parse(JSON.stringify(monitor))))
        expect(new Set(jobs)).toEqual(new Set([`job=\\"${job}\\"`]));
    }
  });

  test("has an alert for the one replica that runs without leader election only while it cannot be scraped", async () => {
    const values = { ...modes.alone.values, metrics: { prometheusRule: { enabled: true } } };
    const fires = withoutLeader(await helm().template(values));
    expect(await fires(`up{job="${release}",instance="a"} 1+0x10`)).toBe(false);
    expect(await fires(`up{job="${release}",instance="a"} 0+0x10`)).toBe(true);
    expect(await fires('up{job="another",instance="a"} 1+0x10')).toBe(true);
  });

  test("has alerts for its own namespace only where releases of one name serve hosted control planes", async () => {
    const { metrics } = modes.monitored.values;
    const monitored = { metrics: { ...metrics, reader: {} }, serving: modes.monitored.values.serving };
    const fires = withoutLeader(await helm().template({ ...monitored, ...modes.hosted.values }, "--namespace=b"));
    const status = (space: string, value: number): string =>
      `leader_election_master_status{job="${release}",namespace="${space}"} ${value}+0x10`;
    expect(await fires(status("a", 1), status("b", 0))).toBe(true);
    expect(await fires(status("a", 0), status("b", 1))).toBe(false);
    const hosted = await helm().template({ ...monitored, ...modes.hosted.values }, "--namespace=b");
    expect(JSON.stringify(theOne(hosted, "PrometheusRule"))).toContain(
      `"labels":{"job":"${release}","namespace":"b","severity":"critical"}`,
    );
    // Who scrapes without a monitor may have no such label.
    const unmonitored = { ...modes.hosted.values, metrics: { prometheusRule: { enabled: true } } };
    const rule = theOne(await helm().template(unmonitored), "PrometheusRule");
    expect(JSON.stringify(rule)).not.toContain("namespace=");
  });

  test("has policies by default where the cluster can apply them", async () => {
    const extraEnv = [{ name: "A", value: "b" }];
    const waiting = { network: { allocateNodeCIDRs: true, clusterCIDR: "10.244.0.0/16" } };
    const cases: readonly (readonly [
      string,
      Values,
      readonly string[],
      { admission: number; network: readonly string[] | undefined },
    ])[] = [
      ["the defaults", {}, [], { admission: 4, network: ["Ingress", "Egress"] }],
      ["the node's network", { hostNetwork: true }, [], { admission: 4, network: undefined }],
      ["a network that waits for nodes", waiting, [], { admission: 4, network: undefined }],
      ["Kubernetes 1.29", {}, ["--kube-version=v1.29.9-aks"], { admission: 0, network: ["Ingress", "Egress"] }],
      ["Kubernetes 1.30", {}, ["--kube-version=v1.30.0-aks"], { admission: 4, network: ["Ingress", "Egress"] }],
      ["a hosted control plane", modes.hosted.values, [], { admission: 0, network: ["Ingress", "Egress"] }],
      ["plugins", modes.plugins.values, [], { admission: 4, network: ["Ingress"] }],
      ["variables", { extraEnv }, [], { admission: 4, network: ["Ingress"] }],
      [
        "both, with limits",
        { ...modes.plugins.values, extraEnv, networkPolicy: { egress: { enabled: true } } },
        [],
        { admission: 4, network: ["Ingress", "Egress"] },
      ],
      [
        "none",
        { admissionPolicy: { enabled: false }, networkPolicy: { enabled: false } },
        [],
        { admission: 0, network: undefined },
      ],
    ];
    for (const [name, values, more, expected] of cases) {
      const manifests = JSON.parse(JSON.stringify(await helm().template(values, ...more)));
      const ofKind = (kind: string) => manifests.filter((one: Manifest) => one.kind === kind);
      const admission = ofKind("ValidatingAdmissionPolicy");
      expect(
        ofKind("ValidatingAdmissionPolicyBinding").map(({ spec }: { spec: { policyName: string } }) => spec.policyName),
      ).toEqual(admission.map(({ metadata }: Manifest) => metadata.name));
      const network = ofKind("NetworkPolicy")[0]?.spec.policyTypes;
      expect({ name, admission: admission.length, network }).toEqual({ name, ...expected });
    }
  });

  test("limits egress to DNS, the API server, Azure and the ports and rules of the values", async () => {
    const rules = [{ ports: [{ protocol: "TCP", port: 4318 }] }];
    const tcp = (...ports: readonly number[]) => ports.map((port) => ({ protocol: "TCP", port }));
    const policyOf = async (values: Values) =>
      JSON.parse(JSON.stringify(theOne(await helm().template({ networkPolicy: values }), "NetworkPolicy"))).spec.egress;
    const dns = { ports: [{ protocol: "UDP", port: 53 }, ...tcp(53)] };
    const identity = { ports: tcp(80), to: [{ ipBlock: { cidr: "169.254.169.254/32" } }] };
    expect(await policyOf({})).toEqual([dns, { ports: tcp(443, 6443) }, identity]);
    expect(await policyOf({ egress: { ports: [8443], rules } })).toEqual([
      dns,
      { ports: tcp(8443) },
      identity,
      ...rules,
    ]);
  });

  test("renders the network policy, the service account and the migration config as configured", async () => {
    const from = [{ namespaceSelector: { matchLabels: { name: "monitoring" } } }];
    const controllerLeaders = [{ name: "node-ipam-controller", component: "kube-controller-manager" }];
    const manifests = await helm().template({
      ...modes.migration.values,
      leaderMigration: { enabled: true, leaderName: "own-migration", controllerLeaders },
      networkPolicy: { enabled: true, from },
      serving: { port: 10_999 },
      serviceAccount: { automount: false, annotations: { note: "x" } },
    });
    const [policy, account, config] = ["NetworkPolicy", "ServiceAccount", "ConfigMap"].map((kind) =>
      JSON.parse(JSON.stringify(theOne(manifests, kind))),
    );
    expect(policy.spec.policyTypes).toEqual(["Ingress", "Egress"]);
    expect(policy.spec.ingress).toEqual([{ ports: [{ protocol: "TCP", port: 10_999 }], from }]);
    expect([account.automountServiceAccountToken, account.metadata.annotations]).toEqual([false, { note: "x" }]);
    expect(parse(config.data["config.yaml"])).toMatchObject({ leaderName: "own-migration", controllerLeaders });
  });

  test("renders names that YAML would take for numbers or booleans as the text that they are", async () => {
    const named = { secretName: "12", key: "1e3" };
    const manifests = await helm().template(
      {
        cloudConfig: { secret: { name: "2024", key: "on" } },
        leaderElection: { leaseName: "1", leaseNamespace: "0123" },
        leaderMigration: { ...modes.migration.values.leaderMigration, leaderName: "77" },
        serving: { tlsSecretName: "5" },
        serviceAccount: { name: "007" },
        priorityClassName: "1e1",
        metrics: {
          serviceMonitor: { enabled: true },
          scrape: { authorization: named, caSecret: { name: "3", key: "no" } },
          reader: { name: "6", namespace: "7" },
        },
        console: { readers: [{ kind: "User", name: "jo" }] },
      },
      "--namespace=123",
    );
    const keys =
      /"(?:name|namespace|secretName|serviceAccountName|priorityClassName|key|path|app\.kubernetes\.io\/instance)":[^",{[]+/gu;
    expect(JSON.stringify(manifests).match(keys)).toBeNull();
    const config = JSON.parse(JSON.stringify(theOne(manifests, "ConfigMap"))).data["config.yaml"];
    expect(parse(config)).toMatchObject({ leaderName: "77" });
  });

  test("refuses a value that is left without content, unless nothing is a choice too", async () => {
    const refused = await helm()
      .template({
        clusterName: null,
        network: { configureCloudRoutes: null },
        metrics: null,
        probes: { startup: null },
      })
      .then(() => "", String);
    for (const name of ["clusterName", "metrics", "configureCloudRoutes", "startup"])
      expect(refused).toMatch(new RegExp(`missing propert(?:y|ies) .*'${name}'`, "u"));
    const optional = {
      initContainers: null,
      extraContainers: null,
      podAnnotations: null,
      extraArgs: null,
      shards: null,
    };
    expect(await helm().template({ ...optional, serving: { bindAddress: null } })).toEqual(await helm().template());
  });

  test("passes helm lint", async () => {
    expect(await helm().run(["lint", "deploy/chart", "--strict", "--set=image.repository=x"])).toContain(
      "0 chart(s) failed",
    );
  });
});

/** True if the rendered alert CloudControllerHostWithoutLeader fires for these series, in the notation of rule tests. */
function withoutLeader(manifests: readonly Manifest[]): (...series: readonly string[]) => Promise<boolean> {
  const { groups } = JSON.parse(JSON.stringify(theOne(manifests, "PrometheusRule"))).spec;
  const rules: readonly { readonly alert: string; readonly expr: string }[] = groups.flatMap(
    (group: { readonly rules: readonly unknown[] }) => group.rules,
  );
  const expr = rules.find(({ alert }) => alert === "CloudControllerHostWithoutLeader")?.expr ?? "";
  return async (...series) => {
    const [found = []] = await askPrometheus({ series, queries: [expr], at: 10 });
    return found.length > 0;
  };
}

interface Monitor {
  readonly kind: string;
  readonly metadata: { readonly namespace: string; readonly name: string };
  readonly spec: Readonly<
    Record<string, readonly { readonly relabelings: readonly Readonly<Record<string, string>>[] }[]>
  >;
}

/** The job of each endpoint, by the Prometheus operator's rules: a Service's name, or `<namespace>/<name>` of a PodMonitor. */
function jobsOf({ kind, metadata, spec }: Monitor): readonly string[] {
  const isOfPods = kind === "PodMonitor";
  const derived = isOfPods ? `${metadata.namespace}/${metadata.name}` : metadata.name;
  return (spec[isOfPods ? "podMetricsEndpoints" : "endpoints"] ?? []).map(
    ({ relabelings }) => relabelings.find(({ targetLabel }) => targetLabel === "job")?.["replacement"] ?? derived,
  );
}

interface Schema {
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
}

/** Values with a default whose absence is a choice as well. */
const removable: ReadonlySet<string> = new Set([
  "nodeSelector",
  "podSecurityContext",
  "priorityClassName",
  "resources",
  "securityContext",
  "tolerations",
]);

/** Paths of values that have a default, and that the schema does not require. */
const notRequired = (schema: Schema, values: Readonly<Record<string, unknown>>, path = ""): readonly string[] =>
  Object.entries(values).flatMap(([key, value]) => {
    const own = `${path}${key}`;
    const isEmpty = value === "" || (typeof value === "object" && value !== null && Object.keys(value).length === 0);
    if (isEmpty || removable.has(own) || path.startsWith("probes.")) return [];
    const inner = schema.properties?.[key];
    const missing = schema.required?.includes(key) === true ? [] : [own];
    return isValues(value) && inner !== undefined ? [...missing, ...notRequired(inner, value, `${own}.`)] : missing;
  });

const isValues = (value: unknown): value is Values =>
  typeof value === "object" && value !== null && !Array.isArray(value);

test("the chart's schema requires each value that has a default: one without content would remove it", async () => {
  const schema: Schema = await Bun.file("deploy/chart/values.schema.json").json();
  expect(notRequired(schema, parse(await Bun.file("deploy/chart/values.yaml").text()))).toEqual([]);
});

const withoutRules = { plugins: { ...modes.plugins.values.plugins, rules: [] } };

interface Refusal {
  readonly values: Values;
  readonly sentence: string;
}

const both = { network: { configureCloudRoutes: true, clusterCIDR: "10.0.0.0/8" } };

/** Contradictory or incomplete values, and the message for each. */
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
    sentence: "leaderMigration.controllerLeaders names rout, which is not a controller of this version",
  },
  {
    values: { leaderMigration: { enabled: true, controllerLeaders: [{ name: "route", component: "ccm" }] } },
    sentence: "at '/leaderMigration/controllerLeaders/0/component'",
  },
  {
    values: { controllers: ["*", "-cloud-nodes"] },
    sentence: "controllers names cloud-nodes, which is not a controller of this version",
  },
  { values: { cloudProvider: "aws" }, sentence: "cloudProvider is aws, which is not a cloud of this version" },
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
  ...["=TRUE", "=1", "=true", "=t"].map((value) => ({
    values: { extraArgs: [`--use-service-account-credentials${value}`] },
    sentence: "extraArgs has --use-service-account-credentials, but rbac.create makes roles for one service account",
  })),
  {
    values: { extraArgs: ["--concurent-node-syncs=16"] },
    sentence: "extraArgs has --concurent-node-syncs=16, which is not a flag",
  },
  {
    values: { extraArgs: ["--leader_elect=false"] },
    sentence: "extraArgs has --leader_elect=false, a flag that the chart",
  },
  { values: { extraArgs: ["--no-leader-elect"] }, sentence: "extraArgs has --no-leader-elect, which is not a flag" },
  ...[
    ["--shard=a", "shards"],
    ["--service-selector=a=b", "services.selector"],
    ["--load-balancer-class=a", "services.loadBalancerClass"],
    ["--enable-leader-migration", "leaderMigration"],
  ].map(([flag, value]) => ({
    values: { extraArgs: [flag] },
    sentence: `extraArgs has ${flag}, but the chart makes the roles for it from a value: use ${value}`,
  })),
  { values: { network: { clusterCIDR: "999.1.1.1/99" } }, sentence: "at '/network/clusterCIDR'" },
  { values: { network: { serviceClusterIPRange: "10.0.0.0/33" } }, sentence: "at '/network/serviceClusterIPRange'" },
  {
    values: { hostNetwork: false, network: { allocateNodeCIDRs: true, clusterCIDR: "10.0.0.0/8" } },
    sentence: "hostNetwork is false, but the Pods that hand out pod CIDRs (network.allocateNodeCIDRs) would wait",
  },
  {
    values: { hostNetwork: false, network: { configureCloudRoutes: true, clusterCIDR: "10.0.0.0/8" } },
    sentence: "hostNetwork is false, but the Pods that hand out routes (network.configureCloudRoutes) would wait",
  },
  {
    values: { serving: { bindAddress: "127.0.0.1" } },
    sentence: "serving.bindAddress is 127.0.0.1, but hostNetwork is not true",
  },
  {
    values: {
      ...modes.podMonitor.values,
      hostNetwork: true,
      serving: { bindAddress: "127.0.0.1" },
    },
    sentence: "serving.bindAddress is 127.0.0.1, which Prometheus cannot reach",
  },
  {
    values: { webhooks: { names: ["*"], tlsSecretName: "a" } },
    sentence: "webhooks.names is set, but plugins.folders is empty",
  },
  {
    values: { ...modes.webhooks.values, webhooks: { names: ["*"] } },
    sentence: "webhooks.tlsSecretName is missing",
  },
  {
    values: { webhooks: { tlsSecretName: "a" } },
    sentence: "webhooks.tlsSecretName is set, but webhooks.names is empty",
  },
  {
    values: { ...modes.webhooks.values, webhooks: { names: ["*"], tlsSecretName: "a", port: 10258 } },
    sentence: "webhooks.port and serving.port are both 10258",
  },
  { values: { webhooks: { names: ["A"] } }, sentence: "at '/webhooks/names/0'" },
  {
    values: { hostNetwork: true, networkPolicy: { enabled: true } },
    sentence: "networkPolicy.enabled is true, but no NetworkPolicy applies",
  },
  {
    values: { networkPolicy: { enabled: false, from: [{}] } },
    sentence: "networkPolicy.from is set, but the network policy is disabled",
  },
  {
    values: { hostNetwork: true, networkPolicy: { from: [{}] } },
    sentence: "networkPolicy.from is set, but the network policy is disabled",
  },
  {
    values: { networkPolicy: { egress: { enabled: false, rules: [{}] } } },
    sentence: "networkPolicy.egress.rules is set, but egress is not limited",
  },
  {
    values: { ...modes.hosted.values, admissionPolicy: { enabled: true } },
    sentence: "admissionPolicy.enabled is true, but kubeconfig.secretName names another cluster",
  },
  {
    values: { podLabels: { "app.kubernetes.io/name": "x" } },
    sentence: "podLabels has app.kubernetes.io/name, a label that the chart sets itself",
  },
  {
    values: { commonLabels: { "app.kubernetes.io/instance": "x" } },
    sentence: "commonLabels has app.kubernetes.io/instance, a label that the chart sets itself",
  },
  {
    values: { commonLabels: { team: "a" }, podLabels: { team: "b" } },
    sentence: "podLabels and commonLabels both have team",
  },
  {
    values: { podAnnotations: { "checksum/leader-migration": "x" } },
    sentence: "podAnnotations has checksum/leader-migration",
  },
  {
    values: { extraVolumes: [{ name: "cloud-config", emptyDir: {} }] },
    sentence: "extraVolumes has a volume named cloud-config, a name that is in use",
  },
  {
    values: {
      extraVolumes: [{ name: "a", emptyDir: {} }],
      extraVolumeMounts: [{ name: "a", mountPath: "/etc/cloud-controller-host" }],
    },
    sentence:
      "extraVolumeMounts mounts /etc/cloud-controller-host, over or under /etc/cloud-controller-host/cloud-config",
  },
  {
    values: { extraVolumeMounts: [{ name: "none", mountPath: "/x" }] },
    sentence: "extraVolumeMounts mounts none, but no volume has that name",
  },
  {
    values: { ...modes.workloadIdentity.values, extraEnv: [{ name: "AZURE_CLIENT_ID", value: "x" }] },
    sentence: "extraEnv has AZURE_CLIENT_ID, a variable that is set already",
  },
  {
    values: { extraEnv: [{ name: "BUN_CONFIG_MAX_HTTP_REQUESTS", value: "1" }] },
    sentence: "extraEnv has BUN_CONFIG_MAX_HTTP_REQUESTS",
  },
  {
    values: { extraContainers: [{ name: "cloud-controller-host", image: "x" }] },
    sentence: "initContainers or extraContainers has one named cloud-controller-host",
  },
  {
    values: { ...modes.alone.values, strategy: { type: "RollingUpdate" } },
    sentence: "strategy.type is RollingUpdate, but leaderElection.enabled is false",
  },
  {
    values: { kubeconfig: { secretName: "x" } },
    sentence: "rbac.create is true, but kubeconfig.secretName names another cluster",
  },
  {
    values: { metrics: { serviceMonitor: { enabled: true } } },
    sentence: "metrics.scrape.authorization.secretName is missing",
  },
  {
    values: { metrics: { serviceMonitor: { enabled: true } } },
    sentence: "serving.tlsSecretName is empty, so Prometheus would send its token to a peer that it cannot verify",
  },
  {
    values: { metrics: { serviceMonitor: { enabled: true }, podMonitor: { enabled: true } } },
    sentence: "metrics.serviceMonitor and metrics.podMonitor are both enabled",
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
  {
    values: { rbac: { create: false }, console: { readers: [{ kind: "User", name: "jo" }] } },
    sentence: "console.readers are given a role, but rbac.create is false",
  },
];

describeWithHelm("inconsistent values", (helm) => {
  const problem = (values: Values): Promise<string> =>
    helm()
      .template(values)
      .then(
        () => "they were taken",
        (error: unknown) => String(error),
      );

  describe("fail at render time with a message", () => {
    for (const { values, sentence } of refusals)
      test(sentence, async () => {
        expect(await problem(values)).toContain(sentence);
      });
  });

  test("are all reported at once", async () => {
    const reported = await problem({
      ...both,
      controllers: ["nodeipam"],
      plugins: { watch: true },
      image: { repository: "" },
    });
    for (const key of ["network.allocateNodeCIDRs", "plugins.watch", "image.repository"])
      expect(reported).toContain(key);
  });
});

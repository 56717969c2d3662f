import type { Values } from "./helm.ts";

export interface Mode {
  readonly name: string;
  readonly values: Values;
}

const greeter = `
import { defineController, kinds } from "cloud-controller-host/sdk";

export default defineController({
  name: "node-greeter-controller",
  permissions: [
    { apiGroup: "", resources: ["nodes"], verbs: ["list", "watch"] },
    { apiGroup: "", resources: ["configmaps"], verbs: ["create"], namespace: "default" },
  ],
  construct: () => (context) => {
    const queue = context.workqueue("greetings");
    context.informers.of(kinds.Node).handle({ added: (node) => queue.add(node.metadata?.name ?? "") });
    const sync = async (name) => {
      const metadata = { name: "greeted-" + name, namespace: "default" };
      await context.client.create(kinds.ConfigMap, { metadata }).catch((error) => {
        if (error.reason !== "AlreadyExists") throw error;
      });
    };
    return { run: (signal) => queue.process({ workers: 1, signal, sync }) };
  },
});
`;

/** A ConfigMap with a plugin that makes a ConfigMap \`greeted-<node>\` for each node. */
export const greeterPlugin = {
  apiVersion: "v1",
  kind: "ConfigMap",
  metadata: { name: "greeter", namespace: "kube-system" },
  data: { "plugin.ts": greeter },
};

const pluginValues = {
  folders: [
    {
      name: "greeter",
      volume: { configMap: { name: "greeter", items: [{ key: "plugin.ts", path: "node-greeter/plugin.ts" }] } },
    },
  ],
  watch: true,
  rules: [
    { apiGroups: [""], resources: ["nodes"], verbs: ["list", "watch"] },
    { apiGroups: [""], resources: ["configmaps"], verbs: ["create"], namespace: "default" },
  ],
};

const migration = {
  enabled: true,
  controllerLeaders: [{ name: "node-ipam-controller", component: "*" }],
};

/** The ways in which the chart can be installed. */
export const modes = {
  file: { name: "a file that is read once", values: { cloudConfig: { reload: false } } },
  nodeFile: {
    name: "a file of the node",
    values: { cloudConfig: { reload: false, hostPath: "/etc/kubernetes/azure.json" } },
  },
  reloadedFile: { name: "a file with reload", values: {} },
  secret: { name: "a Secret with reload", values: { cloudConfig: { source: "secret" } } },
  workloadIdentity: {
    name: "workload identity",
    values: { workloadIdentity: { enabled: true, tenantID: "adfs", clientID: "simulated-client" } },
  },
  migration: {
    name: "leader migration",
    values: {
      leaderMigration: migration,
      network: { allocateNodeCIDRs: true, clusterCIDR: "10.244.0.0/16", podNetworkWaitsForNodes: false },
    },
  },
  shadow: {
    name: "a release that only compares",
    values: {
      shadow: { enabled: true, settleSeconds: 30 },
      cloudConfig: { source: "secret" },
      network: { allocateNodeCIDRs: true, clusterCIDR: "10.244.0.0/16", podNetworkWaitsForNodes: false },
    },
  },
  plugins: { name: "plugins from a mounted folder", values: { plugins: pluginValues } },
  network: {
    name: "routes and node CIDRs",
    values: {
      network: {
        allocateNodeCIDRs: true,
        configureCloudRoutes: true,
        clusterCIDR: "10.244.0.0/16,fd01::/48",
        podNetworkWaitsForNodes: false,
      },
    },
  },
  hostNetwork: { name: "the node's network", values: { hostNetwork: true } },
  admission: {
    name: "an admission policy and a network policy",
    values: {
      admissionPolicy: { enabled: true, labelPrefixes: ["example.com/"], nodeCIDRs: ["10.0.0.0/8", "fd00::/64"] },
      networkPolicy: { enabled: true, from: [{ namespaceSelector: {} }] },
    },
  },
  customized: {
    name: "every value of the Pod",
    values: {
      commonLabels: { team: "clouds" },
      podLabels: { tier: "control-plane" },
      podAnnotations: { note: "x" },
      affinity: { podAntiAffinity: { preferredDuringSchedulingIgnoredDuringExecution: [] } },
      topologySpreadConstraints: [
        { topologyKey: "kubernetes.io/hostname", maxSkew: 1, whenUnsatisfiable: "ScheduleAnyway" },
      ],
      strategy: { type: "RollingUpdate", rollingUpdate: { maxSurge: 0, maxUnavailable: 1 } },
      dnsPolicy: "None",
      dnsConfig: { nameservers: ["10.0.0.10"] },
      hostAliases: [{ ip: "127.0.0.1", hostnames: ["a.test"] }],
      hostNetwork: true,
      serving: { bindAddress: "127.0.0.1" },
      initContainers: [{ name: "first", image: "registry.test/first" }],
      extraContainers: [{ name: "second", image: "registry.test/second" }],
      extraEnv: [{ name: "HTTPS_PROXY", value: "http://proxy.test" }],
      envFrom: [{ configMapRef: { name: "more", optional: true } }],
      extraVolumes: [{ name: "more", emptyDir: {} }],
      extraVolumeMounts: [{ name: "more", mountPath: "/more", readOnly: true }],
      podSecurityContext: { runAsUser: null, runAsGroup: null, fsGroup: null },
      securityContext: { privileged: false },
      probes: { liveness: { failureThreshold: 3 } },
    },
  },
  webhooks: {
    name: "admission webhooks of plugins",
    values: {
      plugins: { folders: pluginValues.folders },
      webhooks: { names: ["*"], tlsSecretName: "webhooks" },
      networkPolicy: { enabled: true },
    },
  },
  hosted: {
    name: "a hosted control plane",
    values: {
      kubeconfig: { secretName: "workload-cluster" },
      rbac: { create: false },
      serviceAccount: { automount: false },
    },
  },
  podMonitor: {
    name: "a PodMonitor",
    values: {
      metrics: {
        podMonitor: { enabled: true },
        scrape: { authorization: { secretName: "prometheus-token" }, insecureSkipVerify: true },
      },
    },
  },
  alone: { name: "one replica without leader election", values: { replicas: 1, leaderElection: { enabled: false } } },
  monitored: {
    name: "monitoring",
    values: {
      serving: { tlsSecretName: "serving" },
      metrics: {
        serviceMonitor: { enabled: true },
        scrape: { authorization: { secretName: "prometheus-token" } },
        prometheusRule: { enabled: true },
        reader: { name: "prometheus", namespace: "monitoring" },
      },
    },
  },
} as const satisfies Readonly<Record<string, Mode>>;

export const allModes: readonly Mode[] = Object.values(modes);

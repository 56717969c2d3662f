import { join } from "node:path";

import { eventually } from "cloud-controller-host/sdk/testing";
import { type Metric, Registry } from "prom-client";

import { freePort } from "../envtest/free-port.ts";
import { SandboxLab } from "../host/sandbox-lab.ts";
import { joinNodes } from "../kit/azure.ts";
import { code, heading, table } from "./markdown.ts";

interface Described {
  readonly name: string;
  readonly help: string;
  readonly labelNames: readonly string[];
}

/** True if a metric has the properties that prom-client's types omit. */
const isDescribed = (metric: object): metric is Described =>
  "name" in metric && "help" in metric && "labelNames" in metric;

const typeOf = (metric: object): string => metric.constructor.name.toLowerCase();

/** Flags with which every part of the host and of its plugins runs. */
const everything = [
  "--controllers=*,-zone-labeler-controller,-node-pools-controller,-job-cleanup-controller",
  "--cluster-cidr=10.244.0.0/16",
  "--allocate-node-cidrs=true",
  "--cidr-allocator-type=RangeAllocator",
  `--plugin-dir=${join(import.meta.dir, "../../sdk/examples")}`,
  "--webhooks=internal-load-balancers",
  "--feature-gates=CloudControllerManagerWebhook=true",
  "--webhook-bind-address=127.0.0.1",
];

/** Metrics that are registered when work begins. */
const late = ["node_ipam_controller_cidrset_usage_cidrs", "cloudprovider_azure_limit_used_ratio"];

/** The last metric that a host with `--shadow` registers. */
const lastOfShadow = "host_shadow_plans_total";

/** Every metric that a host registers before it runs with all of its controllers, and those of one that only compares. */
async function registered(): Promise<readonly Described[]> {
  const found = new Map<string, Described>();
  const { registerMetric } = Object.getOwnPropertyDescriptors(Registry.prototype);
  Registry.prototype.registerMetric = function record<T extends string>(this: Registry, metric: Metric<T>): void {
    if (isDescribed(metric)) found.set(metric.name, metric);
    registerMetric.value?.call(this, metric);
  };
  try {
    await using lab = await SandboxLab.open();
    await joinNodes(lab.admin, lab.azure, 1);
    const audit = `--audit-log-path=${join(lab.azure.folder, "audit.log")}`;
    const ports = [`--secure-port=${freePort()}`, `--webhook-secure-port=${freePort()}`];
    const { host } = await lab.host([...everything, ...ports, audit, `--webhook-cert-dir=${lab.azure.folder}`]);
    host.unhandled(new Error("an error for the metric that counts them"));
    await eventually("all controllers work", () => {
      const running = host.status.locks.flatMap(({ controllers }) => controllers);
      return running.length >= 5 && late.every((name) => found.has(name));
    });
    await lab.host(["--shadow"]);
    await eventually("the shadow compares", () => found.has(lastOfShadow));
  } finally {
    Object.defineProperty(Registry.prototype, "registerMetric", registerMetric);
  }
  return [...found.values()].filter(({ name }) => !runtime.test(name)).toSorted((a, b) => (a.name < b.name ? -1 : 1));
}

/** Metrics of the runtime, which prom-client describes. */
const runtime = /^(nodejs|process)_/;

/** Every metric. */
export async function metrics(): Promise<string> {
  const rows = (await registered()).map((metric) => [
    code(metric.name),
    typeOf(metric),
    metric.labelNames.map(code).join(", "),
    metric.help,
  ]);
  return `${heading("Metrics", "what a running host registers")}
\`/metrics\` serves them, and \`nodejs_*\` and \`process_*\` of the runtime. Metrics of the Go binaries have their names,
labels and buckets.

${table(["Metric", "Type", "Labels", "Meaning"], rows)}
`;
}

import { describe, expect, setDefaultTimeout, test } from "bun:test";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { kinds, labels, type Service } from "cloud-controller-host/sdk";

import { planDocumentOf, runCommand } from "../kit/plan.ts";
import { balancedService, deleteService, patchService } from "../kit/services.ts";
import { type LabOptions, openOnSandbox, type ServiceLab } from "./service-lab.ts";

setDefaultTimeout(120_000);

const prefix = "service.beta.kubernetes.io/azure";
const annotated = (annotations: Readonly<Record<string, string>>, spec: Service["spec"] = {}): Service => {
  const { metadata, ...service } = balancedService("web", spec);
  return { ...service, metadata: { ...metadata, annotations: { ...annotations } } };
};
const internal = { [`${prefix}-load-balancer-internal`]: "true" };

const exclude = async ({ admin, nodes }: ServiceLab): Promise<void> => {
  const metadata = { labels: { [labels.excludeFromLoadBalancers]: "" } };
  await admin.patch(kinds.Node, { name: nodes[0]?.metadata?.name ?? "" }, "merge", { metadata });
};

interface Row extends LabOptions {
  readonly what: string;
  readonly service?: Service;
  readonly change: (lab: ServiceLab) => Promise<unknown>;
  /** One of each, in any order. */
  readonly marks: readonly RegExp[];
  /** The end of the last line. */
  readonly count: string;
}

const rows: readonly Row[] = [
  {
    what: "a deleted Service",
    change: ({ admin }) => deleteService(admin, "web"),
    marks: [/^frontend \S+ is removed$/u, /^rule \S+-TCP-80 is removed$/u, /^address 20\.\S+ is released$/u],
    // The load balancer, its address, the security group, the scale set and its three instances.
    count: "; 7 interrupt traffic",
  },
  {
    what: "a port that is given up",
    change: ({ admin }) => patchService(admin, "web", { spec: { ports: [{ port: 81, protocol: "TCP" }] } }),
    marks: [/^rule \S+-TCP-80 is removed$/u, /^security rule \S+ is removed$/u],
    count: "; 2 interrupt traffic",
  },
  {
    what: "another internal address",
    service: annotated(internal, { loadBalancerIP: "10.240.0.100" }),
    change: ({ admin }) => patchService(admin, "web", { spec: { loadBalancerIP: "10.240.0.101" } }),
    marks: [/^frontend \S+ gets another address$/u],
    count: " traffic",
  },
  {
    what: "an excluded node, by its instance",
    change: exclude,
    marks: [/^leaves pool kubernetes$/u],
    count: "; 1 interrupts traffic",
  },
  {
    what: "an excluded node, by its network interface",
    machines: "standalone",
    change: exclude,
    marks: [/^leaves pool kubernetes$/u],
    count: "; 1 interrupts traffic",
  },
  {
    what: "an excluded node, by its address",
    config: { loadBalancerBackendPoolConfigurationType: "nodeIP" },
    change: exclude,
    marks: [/^pool kubernetes loses 10\.240\.0\.4$/u],
    count: "; 1 interrupts traffic",
  },
  {
    what: "a private link service that goes",
    service: annotated({ ...internal, [`${prefix}-pls-create`]: "true" }),
    change: ({ admin }) => deleteService(admin, "web"),
    marks: [/^the private link service is deleted$/u, /^frontend \S+ is removed$/u],
    count: " traffic",
  },
];

describe("a plan marks and counts what interrupts traffic", () => {
  for (const { what, service = balancedService("web"), change, marks, count, ...options } of rows)
    test.concurrent(`${what} is marked on each resource and counted in the last line`, async () => {
      const { lab, api } = await openOnSandbox(options);
      await using _ = lab;
      await lab.start();
      await lab.create(service);
      await lab.served("web");
      await lab.restart(1);
      await lab.stop();
      await using stack = new AsyncDisposableStack();
      const folder = await mkdtemp(join(tmpdir(), "service-interruptions-"));
      stack.defer(() => rm(folder, { recursive: true }));
      const [kubeconfig, config] = [join(folder, "kubeconfig"), join(folder, "cloud-config.json")];
      await writeFile(kubeconfig, api.kubeconfig("admin"));
      await writeFile(config, JSON.stringify(lab.cloudConfig()));
      const flags = [
        `--kubeconfig=${kubeconfig}`,
        `--cloud-config=${config}`,
        "--controllers=service-lb-controller",
        "--configure-cloud-routes=false",
      ];
      expect((await planDocumentOf(flags)).changes).toEqual([]);
      await change(lab);
      const { changes } = await planDocumentOf(flags);
      const marked = changes.flatMap(({ interruptions }) => interruptions);
      for (const mark of marks) expect(marked).toContainEqual(expect.stringMatching(mark));
      const { stdout } = await runCommand("plan", flags);
      expect(stdout.match(/^ {4}! interrupts traffic: /gmu) ?? []).toHaveLength(marked.length);
      expect(stdout.trimEnd()).toEndWith(count);
    });
});

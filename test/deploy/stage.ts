import { afterAll, afterEach, beforeAll, beforeEach, expect } from "bun:test";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";

import { kinds, type Node, taints, taintsOf } from "cloud-controller-host/sdk";
import { eventually } from "cloud-controller-host/sdk/testing";

import type { HostStatus } from "../../host/run/status.ts";
import { freshNode } from "../../host/sandbox/kubelet.ts";
import { type AzureSimulator, startSimulator } from "../../plugins/azure-cloud/simulator/simulator.ts";
import type { AuditedRequest, AuditMark } from "../envtest/audit.ts";
import type { Cluster } from "../envtest/cluster.ts";
import { describeOnRealApiServer } from "../envtest/shared.ts";
import { createNode } from "../kit/azure.ts";
import { noContainers, statusOf } from "./container.ts";
import { describeWithHelm, type Helm, type Manifest, namespace, release, theOne, type Values } from "./helm.ts";
import { assembleImage, type Image, imageTimeoutMs } from "./image.ts";
import { Kubelet, type RunningPod, tokenOf } from "./kubelet.ts";
import { describeUnlessMissing } from "./needs.ts";

/** The user that the Pods are to the API server. */
const account = `system:serviceaccount:${namespace}:${release}`;

/** Where the Pods find the certificate authority of the simulated Azure. */
const azureAuthority = {
  extraVolumes: [{ name: "azure-ca", secret: { secretName: "azure-ca" } }],
  extraVolumeMounts: [{ name: "azure-ca", mountPath: "/etc/azure-ca", readOnly: true }],
};

/** All that one test of a deployment runs on; it ends with the test. */
export class Stage {
  readonly cluster: Cluster;
  readonly helm: Helm;
  readonly azure: AzureSimulator;
  readonly #image: Image;
  readonly #stack: AsyncDisposableStack;
  readonly #begun: AuditMark;
  #kubelet: Kubelet | undefined;

  private constructor(
    parts: Pick<Stage, "cluster" | "helm" | "azure">,
    image: Image,
    begun: AuditMark,
    stack: AsyncDisposableStack,
  ) {
    this.cluster = parts.cluster;
    this.helm = parts.helm;
    this.azure = parts.azure;
    this.#image = image;
    this.#begun = begun;
    this.#stack = stack;
  }

  static async open(cluster: Cluster, helm: Helm, image: Image): Promise<Stage> {
    await using opening = new AsyncDisposableStack();
    await cluster.cleanSlate();
    const directory = await mkdtemp(join(tmpdir(), "stage-"));
    opening.defer(() => rm(directory, { recursive: true, force: true }));
    const azure = opening.use(await startSimulator({ directory }));
    await cluster.admin.create(kinds.Secret, secretOf("azure-ca", { "ca.pem": await Bun.file(azure.caFile).text() }));
    return new Stage({ cluster, helm, azure }, image, await cluster.audit.mark(), opening.move());
  }

  /** The cloud config, with some keys changed, as the Pods are to read it. */
  configText(changes: Readonly<Record<string, unknown>> = {}): string {
    const config: Record<string, unknown> = JSON.parse(this.azure.configWith({}));
    return JSON.stringify({ ...config, resourceManagerCAFile: "/etc/azure-ca/ca.pem", ...changes });
  }

  /** Writes the Secret with the cloud config. */
  configure(changes: Readonly<Record<string, unknown>> = {}): Promise<void> {
    return this.writeConfig(this.configText(changes));
  }

  /** The same with the config of some other cloud. */
  async writeConfig(text: string): Promise<void> {
    const { admin } = this.cluster;
    const secret = secretOf("azure-cloud-provider", { "cloud-config": text });
    const known = await admin.list(kinds.Secret, { namespace });
    if (known.some(({ metadata }) => metadata?.name === secret.metadata.name))
      await admin.replace(kinds.Secret, secret);
    else await admin.create(kinds.Secret, secret);
  }

  /** A file of this machine, which is the node; it is world-readable. Resolves with its path. */
  async nodeFile(content: string): Promise<string> {
    const file = join(dirname(this.azure.caFile), "azure.json");
    await writeFile(file, content, { mode: 0o644 });
    return file;
  }

  /** Applies manifests; they are gone after the test. */
  async apply(text: string): Promise<void> {
    const kubeconfig = await this.cluster.kubeconfig("deployer", ["system:masters"]);
    await this.cluster.kubectl(kubeconfig, ["apply", "-f", "-"], text);
    this.#stack.defer(async () => {
      await this.cluster.kubectl(kubeconfig, ["delete", "--ignore-not-found", "-f", "-"], text);
    });
  }

  /** Installs the chart; what it is made of is gone after the test. Resolves with its objects. */
  async install(values: Values): Promise<readonly Manifest[]> {
    const kubeconfig = await this.cluster.kubeconfig("helm", ["system:masters"]);
    const all = { ...azureAuthority, ...values };
    const manifests = await this.helm.template(all);
    if (this.#kubelet === undefined) this.#stack.defer(() => this.helm.uninstall(kubeconfig));
    await this.helm.install(kubeconfig, all);
    return manifests;
  }

  /** Starts a Pod of the chart's Deployment. */
  async start(manifests: readonly Manifest[], flags: readonly string[] = []): Promise<RunningPod> {
    const federated = await Bun.file(this.azure.federatedTokenFile).text();
    const known = new Map([["api://AzureADTokenExchange", federated]]);
    this.#kubelet ??= this.#stack.use(new Kubelet(this.cluster, this.#image, known));
    return this.#kubelet.start(theOne(manifests, "Deployment"), flags);
  }

  /** What a replica says of itself, asked by an administrator's service account. */
  async status({ container }: RunningPod): Promise<HostStatus> {
    return statusOf(container, await this.#adminToken());
  }

  async until(pod: RunningPod, awaited: string, holds: (status: HostStatus) => boolean): Promise<HostStatus> {
    return pod.container.eventually(awaited, async () => {
      const status = await this.status(pod);
      return holds(status) ? status : undefined;
    });
  }

  async metrics({ container }: RunningPod): Promise<Response> {
    return container.get("/metrics", { authorization: `Bearer ${await this.#adminToken()}` });
  }

  async #adminToken(): Promise<string> {
    const name = "deploy-test-admin";
    const { admin } = this.cluster;
    const accounts = await admin.list(kinds.ServiceAccount, { namespace });
    if (!accounts.some(({ metadata }) => metadata?.name === name)) {
      await admin.create(kinds.ServiceAccount, { metadata: { name, namespace } });
      const binding = {
        apiVersion: "rbac.authorization.k8s.io/v1",
        kind: "ClusterRoleBinding",
        metadata: { name },
        roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "ClusterRole", name: "cluster-admin" },
        subjects: [{ kind: "ServiceAccount", name, namespace }],
      };
      const path = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
      await admin.request("POST", path, binding);
      this.#stack.defer(async () => void (await admin.request("DELETE", `${path}/${name}`)));
    }
    return tokenOf(this.cluster, { namespace, account: name });
  }

  /** Makes machines and registers their nodes; resolves with their names. */
  async join(count: number, change: (node: Node) => Node = (node) => node): Promise<readonly string[]> {
    const machines = await this.azure.addInstances(count);
    for (const { nodeName } of machines) await createNode(this.cluster.admin, change(freshNode(nodeName, new Date())));
    return machines.map(({ nodeName }) => nodeName);
  }

  async initialized(names: readonly string[]): Promise<void> {
    await eventually(
      `${names.length} nodes are initialized`,
      async () => {
        const nodes = await this.cluster.admin.list(kinds.Node);
        const waiting = nodes.filter(
          (node) =>
            node.spec?.providerID === undefined || taintsOf(node).some(({ key }) => key === taints.uninitialized),
        );
        return names.every((name) => nodes.some(({ metadata }) => metadata?.name === name)) && waiting.length === 0;
      },
      60_000,
    );
  }

  /** What the Pods asked of the API server, since a mark or the beginning of the test. */
  async requested(since?: AuditMark): Promise<readonly AuditedRequest[]> {
    return this.cluster.audit.requests({ user: account, since: since ?? this.#begun });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#stack.disposeAsync();
  }
}

/** Requests that were refused for want of a rule. */
const denied = (requests: readonly AuditedRequest[]): readonly string[] =>
  requests
    .filter(({ code }) => code === 403 || code === 401)
    .map(({ verb, resource, uri }) => `${verb} ${resource} ${uri}`);

function secretOf(name: string, files: Readonly<Record<string, string>>) {
  const data = Object.fromEntries(Object.entries(files).map(([key, value]) => [key, btoa(value)]));
  return { metadata: { name, namespace }, data };
}

let image: Promise<Image> | undefined;

/** Each file that has assembled the image removes it; a later suite of the same run would assemble the next. */
async function removeImage(): Promise<void> {
  const ending = image;
  image = undefined;
  await (await ending)?.[Symbol.asyncDispose]();
}

/**
 * A suite of Pods of the chart that run on this machine, on a real API server. It needs Helm, and root on Linux for
 * what a container is made of; `lacking` says what else is not there. No request of theirs may have been denied when a
 * test ends.
 */
export function describeDeployment(name: string, body: (stage: () => Stage) => void, lacking?: string): void {
  const missing = noContainers ?? lacking;
  if (missing !== undefined) return describeUnlessMissing(missing, name, () => body(unready));
  describeOnRealApiServer(name, (cluster) =>
    describeWithHelm("with the chart", (helm) => {
      let stage: Stage | undefined;
      beforeAll(async () => void (await (image ??= assembleImage())), imageTimeoutMs);
      beforeEach(async () => {
        stage = await Stage.open(cluster, helm(), await (image ?? unready()));
      });
      afterEach(async () => {
        const ending = stage;
        stage = undefined;
        await ending?.[Symbol.asyncDispose]();
        expect(denied((await ending?.requested()) ?? [])).toEqual([]);
      });
      body(() => stage ?? unready());
    }),
  );
  afterAll(removeImage);
}

function unready(): never {
  throw new Error("a stage is there only in a test");
}

import { chmod, mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import type { V1Container, V1Deployment, V1PodSpec, V1Volume } from "@kubernetes/client-node";
import { type ConfigMap, kinds, type Secret } from "cloud-controller-host/sdk";

import type { Cluster } from "../envtest/cluster.ts";
import { freePort } from "../envtest/free-port.ts";
import { Container, type Mount } from "./container.ts";
import type { Manifest } from "./helm.ts";
import type { Image } from "./image.ts";
import { type VolumeFiles, writeVolume } from "./volumes.ts";

const accountFolder = "/var/run/secrets/kubernetes.io/serviceaccount";

/** A Pod that runs on this machine. */
export interface RunningPod extends AsyncDisposable {
  readonly container: Container;
  readonly graceSeconds: number;
  /** Brings its Secrets and ConfigMaps up to date, as the kubelet does now and then. */
  sync(): Promise<void>;
}

/**
 * Runs the Pods of a Deployment on this machine, as far as a host is concerned: volumes out of the API server's
 * Secrets and ConfigMaps, tokens of the service account, the address of the API server in the environment. It
 * refuses a Pod that asks for more than a restricted one may have, since it gives it nothing of the kind.
 */
export class Kubelet implements AsyncDisposable {
  readonly #cluster: Cluster;
  readonly #image: Image;
  readonly #known: ReadonlyMap<string, string>;
  readonly #stack = new AsyncDisposableStack();
  #count = 0;

  /** `known` holds, by audience, the one token that its audience knows: it takes the place of what was issued for it. */
  constructor(cluster: Cluster, image: Image, known: ReadonlyMap<string, string> = new Map()) {
    this.#cluster = cluster;
    this.#image = image;
    this.#known = known;
  }

  /** Starts one Pod of the Deployment. The flags that are given come after its own. */
  async start(manifest: Manifest, flags: readonly string[] = []): Promise<RunningPod> {
    const deployment: V1Deployment = JSON.parse(JSON.stringify(manifest));
    const spec = deployment.spec?.template.spec;
    const namespace = manifest.metadata.namespace ?? "default";
    const [container] = spec?.containers ?? [];
    if (spec === undefined || container === undefined) throw new Error(`${manifest.metadata.name}: no container`);
    const { user, group } = restrictedUser(spec, container);
    const name = `${manifest.metadata.name}-${this.#count++}`;
    const folder = await mkdtemp(join(tmpdir(), `pod-${name}-`));
    this.#stack.defer(() => rm(folder, { recursive: true, force: true }));
    const pod = { spec, namespace, folder };
    const volumes = await this.#volumes(pod);
    const port = freePort();
    const running = await Container.start({
      name,
      folder,
      image: this.#image,
      args: [...(container.args ?? []), "--bind-address=127.0.0.1", `--secure-port=${port}`, ...flags],
      environment: await this.#environment(container),
      user,
      group,
      mounts: mountsOf(container, scratchOf(spec), volumes, folder),
      port,
    });
    this.#stack.use(running);
    return {
      container: running,
      graceSeconds: spec.terminationGracePeriodSeconds ?? 30,
      sync: async () => void (await this.#volumes(pod)),
      [Symbol.asyncDispose]: () => running[Symbol.asyncDispose](),
    };
  }

  async #environment({ env = [] }: V1Container): Promise<ReadonlyMap<string, string>> {
    const { hostname, port } = new URL((await this.#cluster.endpoint()).server);
    const own = env.map(({ name, value = "" }) => [name, value] as const);
    return new Map([["KUBERNETES_SERVICE_HOST", hostname], ["KUBERNETES_SERVICE_PORT", port], ...own]);
  }

  /** Writes all volumes; resolves with the folder or file that stands for each. */
  async #volumes({ spec, namespace, folder }: Pod): Promise<ReadonlyMap<string, string>> {
    const account = spec.serviceAccountName ?? "default";
    const { caPem } = await this.#cluster.endpoint();
    const token = await tokenOf(this.#cluster, { namespace, account });
    const accountFiles = new Map([
      ["token", token],
      ["ca.crt", caPem],
      ["namespace", namespace],
    ]);
    await writeVolume(join(folder, "account"), accountFiles);
    const places = new Map<string, string>();
    for (const volume of spec.volumes ?? []) {
      if (volume.hostPath !== undefined) {
        places.set(volume.name, volume.hostPath.path);
        continue;
      }
      const place = join(folder, "volumes", volume.name);
      await mkdir(place, { recursive: true });
      if (volume.emptyDir !== undefined) {
        await chmod(place, 0o777);
        places.set(volume.name, place);
        continue;
      }
      await writeVolume(place, await this.#filesOf(volume, { namespace, account }));
      places.set(volume.name, place);
    }
    return places;
  }

  async #filesOf(volume: V1Volume, owner: Owner): Promise<VolumeFiles> {
    const { namespace } = owner;
    const { admin } = this.#cluster;
    if (volume.secret !== undefined) {
      const name = volume.secret.secretName ?? "";
      const { data = {} }: Secret = await admin.get(kinds.Secret, { namespace, name });
      const entries = Object.entries(data).map(([key, value]) => [key, Buffer.from(value, "base64")] as const);
      return picked(new Map(entries), volume.secret.items);
    }
    if (volume.configMap !== undefined) {
      const name = volume.configMap.name ?? "";
      const { data = {} }: ConfigMap = await admin.get(kinds.ConfigMap, { namespace, name });
      return picked(new Map(Object.entries(data)), volume.configMap.items);
    }
    const files = new Map<string, string>();
    for (const { serviceAccountToken, ...others } of volume.projected?.sources ?? []) {
      if (serviceAccountToken === undefined)
        throw new Error(`volume ${volume.name}: ${Object.keys(others).join(", ")}`);
      const { audience = "", path } = serviceAccountToken;
      const issued = await tokenOf(this.#cluster, owner, [audience]);
      files.set(path, this.#known.get(audience) ?? issued);
    }
    if (files.size === 0) throw new Error(`volume ${volume.name} is of no kind that is known here`);
    return files;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#stack.disposeAsync();
  }
}

interface Pod {
  readonly spec: V1PodSpec;
  readonly namespace: string;
  readonly folder: string;
}

interface Owner {
  readonly namespace: string;
  readonly account: string;
}

/** A token of a service account, for the API server itself where no audience is named. */
export async function tokenOf(
  { admin }: Pick<Cluster, "admin">,
  { namespace, account }: Owner,
  audiences: readonly string[] = [],
): Promise<string> {
  const answer = await admin.request("POST", `/api/v1/namespaces/${namespace}/serviceaccounts/${account}/token`, {
    apiVersion: "authentication.k8s.io/v1",
    kind: "TokenRequest",
    spec: { audiences, expirationSeconds: 3600 },
  });
  const { status }: { readonly status: { readonly token: string } } = JSON.parse(JSON.stringify(answer));
  return status.token;
}

const scratchOf = ({ volumes = [] }: V1PodSpec): ReadonlySet<string> =>
  new Set(volumes.filter(({ emptyDir }) => emptyDir !== undefined).map(({ name }) => name));

function picked(
  files: VolumeFiles,
  items: readonly { readonly key: string; readonly path: string }[] | undefined,
): VolumeFiles {
  if (items === undefined) return files;
  return new Map(
    items.map(({ key, path }) => {
      const content = files.get(key);
      if (content === undefined) throw new Error(`no key ${key}`);
      return [path, content] as const;
    }),
  );
}

function mountsOf(
  { volumeMounts = [] }: V1Container,
  scratch: ReadonlySet<string>,
  volumes: ReadonlyMap<string, string>,
  folder: string,
): readonly Mount[] {
  const own = volumeMounts.map(({ name, mountPath, readOnly }) => {
    const source = volumes.get(name);
    if (source === undefined) throw new Error(`the mount ${mountPath} is of no volume`);
    if (readOnly !== true && !scratch.has(name)) throw new Error(`the mount ${mountPath} can be written to`);
    return { source, target: mountPath, writable: readOnly !== true };
  });
  return [{ source: join(folder, "account"), target: accountFolder }, ...own];
}

/** Whom the container runs as. What a container here does not give, its Pod must not ask for. */
function restrictedUser(
  { securityContext: pod, hostNetwork }: V1PodSpec,
  { securityContext: own }: V1Container,
): { readonly user: number; readonly group: number } {
  const user = own?.runAsUser ?? pod?.runAsUser;
  const group = own?.runAsGroup ?? pod?.runAsGroup;
  const isRestricted =
    pod?.runAsNonRoot === true &&
    pod.seccompProfile?.type === "RuntimeDefault" &&
    own?.readOnlyRootFilesystem === true &&
    own.allowPrivilegeEscalation === false &&
    own.privileged !== true &&
    own.capabilities?.drop?.includes("ALL") === true &&
    own.capabilities.add === undefined &&
    hostNetwork !== true;
  if (!isRestricted || !user || !group) throw new Error("the Pod asks for more than is run here");
  return { user, group };
}

import { writeFile } from "node:fs/promises";
import { join } from "node:path";

import type { Permission } from "cloud-controller-host/sdk";

import type { KeyPair } from "../../host/process/serving/self-signed.ts";
import { type Audit, openAudit } from "./audit.ts";
import { openCertificateAuthority } from "./certificate-authority.ts";
import { cleanSlate } from "./clean-slate.ts";
import { createTestClient, type TestClient } from "./client.ts";
import { grant } from "./grant.ts";
import type { Handover } from "./handover.ts";
import {
  type KubeControllerManager,
  type KubeControllerManagerOptions,
  startKubeControllerManager,
} from "./kube-controller-manager.ts";

/** A running control plane as a test sees it. */
export interface Cluster {
  /** Acts as a member of `system:masters`. */
  readonly admin: TestClient;
  readonly audit: Audit;
  /** Acts as any user. */
  client(user: string, groups?: readonly string[]): TestClient;
  /** Writes a kubeconfig with a client certificate for any user; resolves with its path. It lasts as long as the cluster. */
  kubeconfig(user: string, groups?: readonly string[]): Promise<string>;
  /** Runs `kubectl` with a kubeconfig; resolves with its stdout and rejects with its stderr. */
  kubectl(kubeconfig: string, args: readonly string[], input?: string): Promise<string>;
  /** A client certificate; `front-proxy-client` is the user whose `X-Remote-*` headers the API server believes. */
  certificate(user: string, groups?: readonly string[]): Promise<KeyPair>;
  /** Grants the user exactly these permissions; resolves when the API server's authorizer applies them. */
  grant(user: string, permissions: readonly Permission[]): Promise<void>;
  /** Deletes all objects except the system's own: nodes, Services, leases, events and everything else from tests. */
  cleanSlate(): Promise<void>;
  startKubeControllerManager(options: KubeControllerManagerOptions): Promise<KubeControllerManager>;
  /** Address and CA of the API server. */
  endpoint(): Promise<{ readonly server: string; readonly caPem: string }>;
}

/** `open` is called on first use, so that a suite can refer to its cluster before it exists. */
export function openCluster(open: () => Promise<Handover>): Cluster {
  const certificates = new Map<string, Promise<KeyPair>>();

  const certificate = (user: string, groups: readonly string[] = []): Promise<KeyPair> => {
    const key = JSON.stringify([user, groups]);
    const known = certificates.get(key);
    if (known !== undefined) return known;
    const issued = open()
      .then(({ authority }) => openCertificateAuthority(authority))
      .then((authority) => authority.issueClient(user, groups));
    certificates.set(key, issued);
    return issued;
  };
  const client = (user: string, groups?: readonly string[]): TestClient =>
    createTestClient(async () => {
      const [{ server, authority }, pair] = await Promise.all([open(), certificate(user, groups)]);
      return { server, tls: { ca: authority.certPem, cert: pair.certPem, key: pair.keyPem } };
    });
  const kubeconfig = async (user: string, groups?: readonly string[]): Promise<string> => {
    const [{ server, authority, directory }, pair] = await Promise.all([open(), certificate(user, groups)]);
    const path = join(directory, `${Bun.randomUUIDv7()}.kubeconfig`);
    await writeFile(path, kubeconfigText(server, authority.certPem, pair), { mode: 0o600 });
    return path;
  };
  const admin = client("envtest", ["system:masters"]);
  return {
    admin,
    audit: openAudit(async () => (await open()).auditLog),
    client,
    kubeconfig,
    kubectl: async (path, args, input) => kubectl(join((await open()).assets, "kubectl"), path, args, input),
    certificate,
    grant: (user, permissions) => grant(admin, user, permissions),
    cleanSlate: () => cleanSlate(admin),
    startKubeControllerManager: async (options) =>
      startKubeControllerManager(
        await open(),
        await kubeconfig("system:kube-controller-manager", ["system:masters"]),
        options,
      ),
    async endpoint() {
      const { server, authority } = await open();
      return { server, caPem: authority.certPem };
    },
  };
}

async function kubectl(program: string, kubeconfig: string, args: readonly string[], input?: string): Promise<string> {
  const child = Bun.spawn([program, `--kubeconfig=${kubeconfig}`, ...args], {
    // Its discovery cache would otherwise go to the home of the user who runs the tests.
    env: { PATH: process.env["PATH"], KUBECACHEDIR: `${kubeconfig}.cache` },
    stdin: input === undefined ? "ignore" : Buffer.from(input),
    stderr: "pipe",
  });
  const [stdout, stderr, code] = await Promise.all([child.stdout.text(), child.stderr.text(), child.exited]);
  if (code !== 0) throw new Error(`kubectl ${args.join(" ")}: ${stderr.trim()}`);
  return stdout;
}

/** JSON is YAML: no writer of YAML is needed. */
function kubeconfigText(server: string, caPem: string, pair: KeyPair): string {
  const name = "envtest";
  return JSON.stringify({
    apiVersion: "v1",
    kind: "Config",
    clusters: [{ name, cluster: { server, "certificate-authority-data": btoa(caPem) } }],
    users: [{ name, user: { "client-certificate-data": btoa(pair.certPem), "client-key-data": btoa(pair.keyPem) } }],
    contexts: [{ name, context: { cluster: name, user: name } }],
    "current-context": name,
  });
}

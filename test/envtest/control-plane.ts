import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";

import { messageOf } from "cloud-controller-host/sdk";

import { auditPolicy } from "./audit.ts";
import { type CertificateAuthority, createCertificateAuthority } from "./certificate-authority.ts";
import { freePort } from "./free-port.ts";
import type { Handover } from "./handover.ts";
import { createKeeper, type Keeper, type KeptProgram } from "./keeper.ts";

export interface ControlPlane extends AsyncDisposable {
  readonly handover: Handover;
  /** A file with the handover as JSON; it exists as long as the control plane. */
  readonly handoverFile: string;
}

const startMs = 120_000;
/** Go's collector takes a quarter of the processor time of what tests ask of a small cluster. */
const rareCollections = { GOGC: "400", GOMEMLIMIT: "700MiB" } as const;
const portTries = 5;

/**
 * Starts etcd and kube-apiserver on loopback: TLS, client certificates, RBAC with the bootstrap roles, dual stack,
 * audit log (unless `audited` is false: it costs a bench two lines per request). Resolves when `/readyz` returns ok
 * and the first namespaces exist. Both end with this process. `collectsRarely` is for tests: a bench measures what an
 * operator's API server takes.
 */
export async function startControlPlane(
  assets: string,
  { audited = true, collectsRarely = true }: { readonly audited?: boolean; readonly collectsRarely?: boolean } = {},
): Promise<ControlPlane> {
  const keeper = await createKeeper("envtest");
  try {
    const files = await writeFiles(keeper.directory);
    const environment = collectsRarely ? rareCollections : {};
    const etcd = keeper.start("etcd", [join(assets, "etcd"), ...etcdFlags(files)], environment);
    const server = await startApiServer({ keeper, assets, files, etcd, audited, environment });
    const { certPem, keyPem } = files.authority;
    const handover: Handover = {
      server,
      directory: keeper.directory,
      authority: { certPem, keyPem },
      auditLog: files.auditLog,
      assets,
      tokenKey: files.tokenKey,
    };
    const handoverFile = join(keeper.directory, "handover.json");
    await writeFile(handoverFile, JSON.stringify(handover), { mode: 0o600 });
    return { handover, handoverFile, [Symbol.asyncDispose]: () => keeper[Symbol.asyncDispose]() };
  } catch (error) {
    await keeper[Symbol.asyncDispose]();
    throw error;
  }
}

interface Files {
  readonly authority: CertificateAuthority;
  readonly socket: string;
  readonly data: string;
  readonly authorityCert: string;
  readonly servingCert: string;
  readonly servingKey: string;
  readonly tokenCert: string;
  readonly tokenKey: string;
  readonly auditPolicy: string;
  readonly auditLog: string;
}

async function writeFiles(directory: string): Promise<Files> {
  const authority = await createCertificateAuthority();
  const [serving, token] = await Promise.all([
    authority.issueServer(["127.0.0.1", "localhost"]),
    authority.issueServer(["service-account-tokens"]),
  ]);
  const files = {
    authority,
    socket: join(directory, "etcd.sock"),
    data: join(directory, "etcd"),
    authorityCert: join(directory, "ca.crt"),
    servingCert: join(directory, "apiserver.crt"),
    servingKey: join(directory, "apiserver.key"),
    tokenCert: join(directory, "tokens.crt"),
    tokenKey: join(directory, "tokens.key"),
    auditPolicy: join(directory, "audit-policy.json"),
    auditLog: join(directory, "audit.log"),
  };
  await mkdir(files.data, { mode: 0o700 });
  const contents: readonly (readonly [string, string])[] = [
    [files.authorityCert, authority.certPem],
    [files.servingCert, serving.certPem],
    [files.servingKey, serving.keyPem],
    [files.tokenCert, token.certPem],
    [files.tokenKey, token.keyPem],
    [files.auditPolicy, JSON.stringify(auditPolicy)],
  ];
  await Promise.all(contents.map(([path, content]) => writeFile(path, content, { mode: 0o600 })));
  return files;
}

/** Clients meet etcd on a socket in the private folder: no port to race for, and no access for other users. */
const etcdFlags = (files: Files): readonly string[] => [
  `--data-dir=${files.data}`,
  `--listen-client-urls=unix://${files.socket}`,
  "--advertise-client-urls=http://127.0.0.1:0",
  "--listen-peer-urls=http://127.0.0.1:0",
  "--unsafe-no-fsync",
  // With the revisions of five minutes, 50,000 nodes of 15 KB are more than the default of 2 GiB.
  `--quota-backend-bytes=${8 * 1024 ** 3}`,
];

const apiServerFlags = (files: Files, port: number): readonly string[] => [
  `--etcd-servers=unix://${files.socket}`,
  "--bind-address=127.0.0.1",
  `--secure-port=${port}`,
  // Nothing uses it, since the endpoint reconciler is off, but without one a machine must have a default route.
  "--advertise-address=192.0.2.1",
  "--endpoint-reconciler-type=none",
  `--tls-cert-file=${files.servingCert}`,
  `--tls-private-key-file=${files.servingKey}`,
  `--client-ca-file=${files.authorityCert}`,
  `--requestheader-client-ca-file=${files.authorityCert}`,
  "--requestheader-allowed-names=front-proxy-client",
  "--requestheader-username-headers=X-Remote-User",
  "--requestheader-group-headers=X-Remote-Group",
  "--requestheader-extra-headers-prefix=X-Remote-Extra-",
  "--service-account-issuer=https://kubernetes.default.svc",
  `--service-account-key-file=${files.tokenCert}`,
  `--service-account-signing-key-file=${files.tokenKey}`,
  "--authorization-mode=RBAC",
  "--service-cluster-ip-range=10.0.0.0/16,fd00::/108",
  // The first needs a controller that creates service accounts, the second one that removes its taint.
  "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",
  `--audit-policy-file=${files.auditPolicy}`,
  `--audit-log-path=${files.auditLog}`,
  // A request is logged before it is processed, so a count taken after the reply misses nothing.
  "--audit-log-mode=blocking",
  "--profiling=false",
];

interface ApiServerParts {
  readonly keeper: Keeper;
  readonly assets: string;
  readonly files: Files;
  readonly etcd: KeptProgram;
  readonly audited: boolean;
  readonly environment: Readonly<Record<string, string>>;
}

/** kube-apiserver cannot be asked to choose a port itself; when another process is faster, the next one is tried. */
async function startApiServer(parts: ApiServerParts): Promise<string> {
  const { keeper, assets, files, etcd, audited, environment } = parts;
  const admin = await files.authority.issueClient("envtest", ["system:masters"]);
  const tls = { ca: files.authority.certPem, cert: admin.certPem, key: admin.keyPem };
  for (let attempt = 1; ; attempt++) {
    const port = freePort();
    const server = `https://127.0.0.1:${port}`;
    const flags = apiServerFlags(files, port).filter((flag) => audited || !flag.startsWith("--audit-"));
    const command = [join(assets, "kube-apiserver"), ...flags];
    const program = keeper.start("kube-apiserver", command, environment);
    try {
      await ready(server, tls, [etcd, program]);
      return server;
    } catch (error) {
      await program.kill();
      const lostTheRace = (await program.lastWords()).includes("address already in use");
      if (!lostTheRace || attempt === portTries) throw error;
    }
  }
}

const readyPaths = ["/readyz", "/api/v1/namespaces/default", "/api/v1/namespaces/kube-system"];

async function ready(server: string, tls: Bun.TLSOptions, programs: readonly KeptProgram[]): Promise<void> {
  const deadline = performance.now() + startMs;
  let last = "";
  for (const path of readyPaths) {
    while (true) {
      const answer = await fetch(server + path, { tls }).catch((error: unknown) => messageOf(error));
      if (typeof answer !== "string") {
        last = `${path}: ${answer.status} ${await answer.text()}`;
        if (answer.ok) break;
      }
      for (const program of programs)
        if (program.exitCode() !== undefined)
          throw new Error(`the control plane did not start:\n${await program.lastWords()}`);
      if (performance.now() > deadline) throw new Error(`the control plane is not ready: ${last}`);
      await Bun.sleep(50);
    }
  }
}

import { afterEach, beforeEach, describe } from "bun:test";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { type KubeClient, type Permission } from "cloud-controller-host/sdk";

import { createClient } from "../../host/kube/connection/client.ts";
import { createTransport } from "../../host/kube/connection/transport.ts";
import { SandboxApiServer } from "../../sdk/testing/api-server/index.ts";
import { type AuditMark, writeVerbs } from "../envtest/audit.ts";
import type { Cluster } from "../envtest/cluster.ts";
import { describeOnRealApiServer } from "../envtest/shared.ts";
import { hostUser } from "./host-roles.ts";

/** One request that a host sent, as the API server saw it. */
export interface SeenRequest {
  readonly verb: string;
  readonly resource: string;
  readonly name: string;
  /** Status of the reply; undefined before it is sent. */
  readonly code: number | undefined;
}

/** An API server to run hosts against: the sandbox's, or a real one with RBAC. The tests are the same. */
export interface Platform {
  readonly admin: KubeClient;
  /** Kubeconfig of the host's user, who gets exactly these permissions. */
  kubeconfig(permissions: readonly Permission[]): Promise<string>;
  /** Requests of hosts since the mark, or since the test began. */
  requests(since?: Mark): Promise<readonly SeenRequest[]>;
  mark(): Promise<Mark>;
}

export type Mark = AuditMark | { readonly index: number };

/** A suite that runs on the sandbox and on a real API server alike. `platform()` is a clean one in each test. */
export function describeOnBoth(name: string, body: (platform: () => Platform) => void): void {
  describeOnSandbox(name, body);
  describeOnReal(name, body);
}

/** For behavior that does not depend on the API server: the sandbox's is enough. */
export function describeOnSandbox(name: string, body: (platform: () => Platform) => void): void {
  describe(`${name}, on the sandbox`, () => body(useSandbox()));
}

/** For behavior that only a real API server can prove. */
export function describeOnReal(name: string, body: (platform: () => Platform, cluster: Cluster) => void): void {
  describeOnRealApiServer(`${name}, on a real API server`, (cluster) => {
    let begun: AuditMark = { offset: 0 };
    beforeEach(async () => {
      await cluster.cleanSlate();
      begun = await cluster.audit.mark();
    });
    body(
      () => ({
        admin: cluster.admin,
        async kubeconfig(permissions) {
          await cluster.grant(hostUser, permissions);
          return cluster.kubeconfig(hostUser);
        },
        mark: () => cluster.audit.mark(),
        requests: (since) =>
          cluster.audit.requests({ user: hostUser, since: since !== undefined && "offset" in since ? since : begun }),
      }),
      cluster,
    );
  });
}

function useSandbox(): () => Platform {
  let stack: AsyncDisposableStack | undefined;
  let platform: Platform | undefined;
  beforeEach(async () => {
    stack = new AsyncDisposableStack();
    platform = await sandboxPlatform(stack);
  });
  afterEach(() => stack?.disposeAsync());
  return () => {
    if (platform === undefined) throw new Error("a platform is there only in a test");
    return platform;
  };
}

async function sandboxPlatform(stack: AsyncDisposableStack): Promise<Platform> {
  const api = stack.use(await SandboxApiServer.start());
  const folder = await mkdtemp(join(tmpdir(), "sandbox-platform-"));
  stack.defer(() => rm(folder, { recursive: true, force: true }));
  const credentials = { tls: { ca: api.ca }, headers: { Authorization: `Bearer ${api.tokens.of("admin")}` } };
  const server = { url: api.url, proxy: undefined, credentials: async () => credentials };
  const transport = createTransport(server, { userAgent: "test", qps: -1 });
  stack.defer(() => transport.close());
  return {
    admin: createClient(transport),
    async kubeconfig() {
      const path = join(folder, "kubeconfig");
      await writeFile(path, api.kubeconfig(hostUser));
      return path;
    },
    mark: async () => ({ index: api.requests.count() }),
    async requests(since) {
      const from = since !== undefined && "index" in since ? since.index : 0;
      const seen = api.requests.list().slice(from);
      return seen
        .filter(({ username }) => username === hostUser)
        .map(({ verb, resource, subresource, name, status }) => ({
          verb,
          resource: subresource === "" ? resource : `${resource}/${subresource}`,
          name,
          code: status,
        }));
    },
  };
}

const bookkeeping = new Set(["leases", "events"]);

/** Writes to anything but the lease and events. */
export const writesAmong = (requests: readonly SeenRequest[]): readonly SeenRequest[] =>
  requests.filter(({ verb, resource }) => writeVerbs.some((write) => write === verb) && !bookkeeping.has(resource));

export const listsAmong = (requests: readonly SeenRequest[]): readonly SeenRequest[] =>
  requests.filter(({ verb }) => verb === "list");

import { afterAll, beforeAll, describe } from "bun:test";

import type { KindRef } from "cloud-controller-host/sdk";
import { eventually } from "cloud-controller-host/sdk/testing";

import { SandboxApiServer } from "../../../../sdk/testing/api-server/index.ts";
import { describeOnRealApiServer } from "../../../envtest/shared.ts";
import { ApiClient } from "./api-client.ts";

/** What a test of the protocol has: a client, and names that no other test uses. */
export interface Protocol {
  readonly api: ApiClient;
  /** Makes a namespace and gives its name. */
  namespace(): Promise<string>;
  /** A name that is not in use. */
  name(prefix?: string): string;
}

/** Promises that the sandbox's API server keeps as the real one does: each test runs on both. They serve these kinds, too. */
export function describeProtocol(
  name: string,
  body: (protocol: Protocol) => void,
  customKinds: readonly KindRef[] = [],
): void {
  describe(`${name}, on the sandbox`, () => {
    let server: SandboxApiServer | undefined;
    beforeAll(async () => void (server = await SandboxApiServer.start({ kinds: customKinds })));
    afterAll(() => server?.close());
    body(protocolOf(() => connectTo(server)));
  });
  describeOnRealApiServer(`${name}, on a real API server`, (cluster) => {
    let api: ApiClient | undefined;
    beforeAll(async () => {
      const [{ server, caPem }, pair] = await Promise.all([
        cluster.endpoint(),
        cluster.certificate("protocol", ["system:masters"]),
      ]);
      api = new ApiClient({ url: server, tls: { ca: caPem, cert: pair.certPem, key: pair.keyPem } });
      for (const kind of customKinds) await define(api, kind);
    });
    body(protocolOf(() => api ?? missing()));
  });
}

/** Creates the definition of a kind that is not served, with a status and any fields; resolves once it is served. */
async function define(api: ApiClient, { group, version, kind, plural, namespaced }: KindRef): Promise<void> {
  const isServed = async (): Promise<boolean> => (await api.fetch(`/apis/${group}/${version}/${plural}`)).ok;
  if (await isServed()) return;
  const schema = { openAPIV3Schema: { type: "object", "x-kubernetes-preserve-unknown-fields": true } };
  await api.done("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", {
    apiVersion: "apiextensions.k8s.io/v1",
    kind: "CustomResourceDefinition",
    metadata: { name: `${plural}.${group}` },
    spec: {
      group,
      scope: namespaced ? "Namespaced" : "Cluster",
      names: { plural, singular: kind.toLowerCase(), kind },
      versions: [{ name: version, served: true, storage: true, schema, subresources: { status: {} } }],
    },
  });
  await eventually(`${plural} are served`, isServed);
}

/** A client of the sandbox's server, as one of its users. */
export function connectTo(server: SandboxApiServer | undefined, user = "admin"): ApiClient {
  if (server === undefined) return missing();
  return new ApiClient({ url: server.url, tls: { ca: server.ca }, token: server.tokens.of(user) });
}

function missing(): never {
  throw new Error("a server is there only in a test");
}

function protocolOf(api: () => ApiClient): Protocol {
  const name = (prefix = "t"): string => `${prefix}-${crypto.randomUUID().slice(0, 13)}`;
  return {
    get api() {
      return api();
    },
    name,
    async namespace() {
      const namespace = name("ns");
      await api().done("POST", "/api/v1/namespaces", { metadata: { name: namespace } });
      return namespace;
    },
  };
}

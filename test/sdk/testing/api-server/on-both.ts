import { afterAll, beforeAll, describe } from "bun:test";

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

/** Promises that the sandbox's API server keeps as the real one does: each test runs on both. */
export function describeProtocol(name: string, body: (protocol: Protocol) => void): void {
  describe(`${name}, on the sandbox`, () => {
    let server: SandboxApiServer | undefined;
    beforeAll(async () => void (server = await SandboxApiServer.start()));
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
    });
    body(protocolOf(() => api ?? missing()));
  });
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

import { kinds } from "cloud-controller-host/sdk";
import { eventually } from "cloud-controller-host/sdk/testing";

import type { Sandbox } from "../../host/sandbox-host.ts";

/** Sends a request of the sandbox's administrator. Throws when it is refused. */
async function send(sandbox: Sandbox, method: string, path: string, body?: object): Promise<void> {
  const reply = await fetch(`${sandbox.api.url}${path}`, {
    method,
    headers: { Authorization: `Bearer ${sandbox.api.tokens.of("admin")}`, "Content-Type": "application/json" },
    ...(body !== undefined && { body: JSON.stringify(body) }),
    tls: { rejectUnauthorized: false },
  });
  if (!reply.ok) throw new Error(`${method} ${path} failed with ${reply.status}: ${await reply.text()}`);
}

const services = "/api/v1/namespaces/default/services";

/** Creates a load balancer Service in `default`. */
export const createService = (
  sandbox: Sandbox,
  name: string,
  annotations: Readonly<Record<string, string>> = {},
): Promise<void> =>
  send(sandbox, "POST", services, {
    apiVersion: "v1",
    kind: "Service",
    metadata: { name, annotations },
    spec: { type: "LoadBalancer", ports: [{ port: 80 }], selector: { app: name } },
  });

export const deleteService = (sandbox: Sandbox, name: string): Promise<void> =>
  send(sandbox, "DELETE", `${services}/${name}`);

/** Waits until a Service has an address. */
export const untilReady = (sandbox: Sandbox, name: string): Promise<unknown> =>
  eventually(
    `Service ${name} has an address`,
    () => {
      const service = sandbox.api.get(kinds.Service, { namespace: "default", name });
      return (service?.status?.loadBalancer?.ingress ?? []).length > 0;
    },
    60_000,
  );

import { writeFile } from "node:fs/promises";
import { join } from "node:path";

import { makeCertificate } from "../../plugins/azure-cloud/simulator/http/certificate.ts";
import type { AzureSimulator } from "../../plugins/azure-cloud/simulator/simulator.ts";
import type { SandboxApiServer } from "../../sdk/testing/api-server/index.ts";
import { kubeconfigOf } from "./wiretap.ts";

type System = "arm" | "kubernetes";

/** Requests other than GET that a plan may send. It sends no list POST of Compute: one would be named here. */
const allowed: Readonly<Record<System, readonly RegExp[]>> = {
  arm: [/^POST \/[^/]+\/oauth2\/(?:v2\.0\/)?token$/u],
  kubernetes: [
    /^POST \/apis\/authentication\.k8s\.io\/v1\/tokenreviews$/u,
    /^POST \/apis\/authorization\.k8s\.io\/v1\/(?:self)?subjectaccessreviews$/u,
    /^POST \/api\/v1\/namespaces\/[^/]+\/serviceaccounts\/[^/]+\/token$/u,
  ],
};

/** Recording proxies before the API server and ARM: a plan that uses them sends nothing past them. */
export interface PlanWires extends AsyncDisposable {
  readonly kubeconfig: string;
  /** Keys of the cloud config. */
  readonly arm: { readonly resourceManagerEndpoint: string; readonly resourceManagerCAFile: string };
  /** `METHOD /path` of each request since the last call, and of these the ones that a plan may not send. */
  drain(): Readonly<Record<System | "refused", readonly string[]>>;
}

export async function tapPlan(
  { api, simulator }: { readonly api: SandboxApiServer; readonly simulator: AzureSimulator },
  folder: string,
): Promise<PlanWires> {
  await using opening = new AsyncDisposableStack();
  const sent: Record<System, string[]> = { arm: [], kubernetes: [] };
  const { ca, certificate, key } = await makeCertificate();
  const armCA = await Bun.file(simulator.caFile).text();
  const arm = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    idleTimeout: 0,
    tls: { cert: certificate, key },
    async fetch(request): Promise<Response> {
      const { origin } = new URL(request.url);
      const response = await pass(request, simulator.origin, { ca: armCA }, sent.arm);
      const headers = withoutEncoding(response);
      for (const [name, value] of headers) headers.set(name, value.replaceAll(simulator.origin, origin));
      // Replies name the next page and the login service.
      const text = (await response.text()).replaceAll(simulator.origin, origin);
      return new Response(text === "" ? undefined : text, { status: response.status, headers });
    },
  });
  opening.defer(() => arm.stop(true));
  const kubernetes = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    idleTimeout: 0,
    async fetch(request) {
      request.headers.set("Authorization", `Bearer ${api.tokens.of("admin")}`);
      const response = await pass(request, api.url, { ca: api.ca }, sent.kubernetes);
      return new Response(response.body, { status: response.status, headers: withoutEncoding(response) });
    },
  });
  opening.defer(() => kubernetes.stop(true));
  const [kubeconfig, caFile] = [join(folder, "tapped.kubeconfig"), join(folder, "tapped-ca.pem")];
  await Promise.all([writeFile(kubeconfig, kubeconfigOf(kubernetes.url.origin)), writeFile(caFile, ca)]);
  const stack = opening.move();
  return {
    kubeconfig,
    arm: { resourceManagerEndpoint: arm.url.origin, resourceManagerCAFile: caFile },
    drain() {
      const requests = { arm: sent.arm.splice(0), kubernetes: sent.kubernetes.splice(0) };
      const refused = (["arm", "kubernetes"] as const).flatMap((system) =>
        requests[system].filter((line) => !line.startsWith("GET ") && !allowed[system].some((one) => one.test(line))),
      );
      return { ...requests, refused };
    },
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  };
}

async function pass(request: Request, target: string, tls: { ca: string }, sent: string[]): Promise<Response> {
  const { pathname, search } = new URL(request.url);
  sent.push(`${request.method} ${pathname}`);
  const headers = new Headers(request.headers);
  headers.delete("host");
  const text = await request.text();
  return fetch(target + pathname + search, {
    method: request.method,
    headers,
    tls,
    redirect: "manual",
    signal: request.signal,
    ...(text !== "" && { body: text }),
  });
}

/** The reply has been decoded. */
function withoutEncoding({ headers }: Response): Headers {
  const kept = new Headers(headers);
  for (const name of ["content-encoding", "content-length", "transfer-encoding"]) kept.delete(name);
  return kept;
}

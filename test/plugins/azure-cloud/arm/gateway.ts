import { join } from "node:path";

import type { ArmClients } from "../../../../plugins/azure-cloud/arm/clients.ts";
import { makeCertificate } from "../../../../plugins/azure-cloud/simulator/http/certificate.ts";
import { openWorld } from "../world.ts";

/** The reply to a request in place of the simulator's; `undefined`: the simulator's own. */
export type Answer = (url: URL, method: string) => Response | undefined;

/** ARM and its login service behind a server whose replies a test decides, and another host beside it. */
export interface Gateway extends AsyncDisposable {
  readonly origin: string;
  /** Another host, with a certificate that is trusted. */
  readonly elsewhere: string;
  /** Requests that another host got, with their tokens. */
  readonly leaked: readonly string[];
  /** Requests that the gateway got. */
  readonly requests: readonly string[];
  answer(how: Answer): void;
  clients(changes?: Readonly<Record<string, unknown>>): Promise<ArmClients>;
}

export async function openGateway(): Promise<Gateway> {
  const world = await openWorld();
  const { simulator } = world;
  const [{ ca, certificate, key }, simulatorCA] = await Promise.all([
    makeCertificate(),
    Bun.file(simulator.caFile).text(),
  ]);
  const caFile = join(world.directory, "gateway-ca.pem");
  await Bun.write(caFile, ca);
  const tls = { cert: certificate, key };
  const leaked: string[] = [];
  const requests: string[] = [];
  let answer: Answer = () => undefined;
  const other = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    tls,
    async fetch(request) {
      const { pathname } = new URL(request.url);
      leaked.push(`${pathname} ${request.headers.get("authorization") ?? ""} ${await request.text()}`);
      return Response.json({ status: "Succeeded", value: [] });
    },
  });
  const server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    tls,
    async fetch(request): Promise<Response> {
      const { pathname, search, origin } = new URL(request.url);
      requests.push(`${request.method} ${pathname}`);
      const own = answer(new URL(request.url), request.method);
      if (own !== undefined) return own;
      const headers = new Headers(request.headers);
      headers.delete("host");
      const body = await request.text();
      const reply = await fetch(simulator.origin + pathname + search, {
        method: request.method,
        headers,
        tls: { ca: simulatorCA },
        ...(body === "" ? {} : { body }),
      });
      const text = (await reply.text()).replaceAll(simulator.origin, origin);
      return new Response(text, { status: reply.status, headers: reply.headers });
    },
  });
  const { origin } = server.url;
  return {
    origin,
    elsewhere: other.url.origin,
    leaked,
    requests,
    answer: (how) => void (answer = how),
    clients: (changes = {}) =>
      world.clients({ ...changes, resourceManagerEndpoint: origin, resourceManagerCAFile: caFile }),
    async [Symbol.asyncDispose]() {
      await Promise.all([server.stop(true), other.stop(true)]);
      await world[Symbol.asyncDispose]();
    },
  };
}

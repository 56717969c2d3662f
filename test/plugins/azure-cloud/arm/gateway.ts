import { join } from "node:path";

import type { ArmClients } from "../../../../plugins/azure-cloud/arm/clients.ts";
import { parseJson } from "../../../../plugins/azure-cloud/json.ts";
import { makeCertificate } from "../../../../plugins/azure-cloud/simulator/http/certificate.ts";
import { openWorld, type World } from "../world.ts";

/** The reply to a request in place of the simulator's; `undefined`: the simulator's own. */
export type Answer = (url: URL, method: string) => Response | undefined;

/** The body of a reply in place of the simulator's; `undefined`: the simulator's own. */
export type Rewrite = (url: URL, method: string, body: unknown) => unknown;

/** ARM and its login service behind a server whose replies a test decides, and another host beside it. */
export interface Gateway extends AsyncDisposable {
  readonly origin: string;
  /** Another host, with a certificate that is trusted. */
  readonly elsewhere: string;
  /** Requests that another host got, with their tokens. */
  readonly leaked: readonly string[];
  /** Requests that the gateway got. */
  readonly requests: readonly string[];
  /** The config that leads a cloud to the gateway. */
  readonly changes: Readonly<Record<string, unknown>>;
  answer(how: Answer): void;
  rewrite(how: Rewrite): void;
  clients(changes?: Readonly<Record<string, unknown>>): Promise<ArmClients>;
}

export async function openGateway(): Promise<Gateway> {
  const world = await openWorld();
  const gateway = await openGatewayTo(world);
  return {
    ...gateway,
    async [Symbol.asyncDispose]() {
      await gateway[Symbol.asyncDispose]();
      await world[Symbol.asyncDispose]();
    },
  };
}

/** A gateway in front of the simulator of a world, which stays open. */
export async function openGatewayTo(world: World): Promise<Gateway> {
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
  let rewrite: Rewrite = () => undefined;
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
      const answered = answer(new URL(request.url), request.method);
      if (answered !== undefined) return answered;
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
      const rewritten = rewrite(new URL(request.url), request.method, parseJson(text));
      const own = new Headers(
        [...reply.headers].map(([name, value]) => [name, value.replaceAll(simulator.origin, origin)]),
      );
      return new Response(rewritten === undefined ? text : JSON.stringify(rewritten), {
        status: reply.status,
        headers: own,
      });
    },
  });
  const { origin } = server.url;
  const changes = { resourceManagerEndpoint: origin, resourceManagerCAFile: caFile };
  return {
    origin,
    changes,
    elsewhere: other.url.origin,
    leaked,
    requests,
    answer: (how) => void (answer = how),
    rewrite: (how) => void (rewrite = how),
    clients: (more = {}) => world.clients({ ...more, ...changes }),
    async [Symbol.asyncDispose]() {
      await Promise.all([server.stop(true), other.stop(true)]);
    },
  };
}

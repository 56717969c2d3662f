import { decode, type Decoded, type Static, type TSchema, Type } from "cloud-controller-host/sdk";

import { parseJson } from "../json.ts";
import type { AzureSimulator } from "./simulator.ts";
import type { PowerState } from "./state/scale-set-instances.ts";

/** A failure to inject: the fields of `RequestMatcher` and `Failure` in one object. */
const faultSchema = Type.Object(
  {
    method: Type.Optional(Type.String()),
    /** Part of the path, case-insensitive. */
    path: Type.Optional(Type.String()),
    status: Type.Integer({ minimum: 200, maximum: 599 }),
    code: Type.Optional(Type.String()),
    message: Type.Optional(Type.String()),
    headers: Type.Optional(Type.Record(Type.String(), Type.String())),
    times: Type.Optional(Type.Integer({ minimum: 1, maximum: 1_000_000 })),
    stage: Type.Optional(
      Type.Union([
        Type.Literal("request"),
        Type.Literal("operation"),
        Type.Literal("response"),
        Type.Literal("connection"),
      ]),
    ),
  },
  { additionalProperties: false },
);

const instancesSchema = Type.Object(
  {
    action: Type.Union(["add", "remove", "start", "powerOff", "deallocate"].map((action) => Type.Literal(action))),
    /** Number of VMs to add to `vmss0`. */
    count: Type.Optional(Type.Integer({ minimum: 1, maximum: 5_000 })),
    /** The VM for any other action. */
    nodeName: Type.Optional(Type.String()),
  },
  { additionalProperties: false },
);

const powerStates: Readonly<Record<string, PowerState>> = {
  start: "running",
  powerOff: "stopped",
  deallocate: "deallocated",
};

/** More than any request needs. */
const maxBodyBytes = 1_048_576;

const problem = (status: number, ...problems: readonly string[]): Response => Response.json({ problems }, { status });

/** Decodes a JSON body by a schema; with an invalid one, replies with what is wrong. */
async function bodyOf<S extends TSchema>(schema: S, request: Request): Promise<Decoded<Static<S>>> {
  const text = await request.text();
  if (text.length > maxBodyBytes) return { ok: false, problems: [`the body exceeds ${maxBodyBytes} bytes`] };
  const body = parseJson(text);
  return body === undefined ? { ok: false, problems: ["the body is not JSON"] } : decode(schema, body);
}

type Handler = (simulator: AzureSimulator, request: Request) => Response | Promise<Response>;

async function planFault(simulator: AzureSimulator, request: Request): Promise<Response> {
  const read = await bodyOf(faultSchema, request);
  if (!read.ok) return problem(400, ...read.problems);
  const { method, path, ...failure } = read.value;
  const matcher = { ...(method === undefined ? {} : { method }), ...(path === undefined ? {} : { path }) };
  simulator.failNext(matcher, failure);
  return Response.json({ pending: simulator.pendingFailures() });
}

async function changeInstances(simulator: AzureSimulator, request: Request): Promise<Response> {
  const read = await bodyOf(instancesSchema, request);
  if (!read.ok) return problem(400, ...read.problems);
  const { action, count = 1, nodeName = "" } = read.value;
  if (action === "add") return Response.json({ instances: await simulator.addInstances(count) });
  if (!simulator.hasInstance(nodeName)) return problem(404, `instance "${nodeName}" does not exist`);
  const powerState = powerStates[action];
  if (powerState === undefined) await simulator.removeInstance(nodeName);
  else simulator.changeInstance(nodeName, { powerState });
  return Response.json({ instances: [{ nodeName, ...(powerState === undefined ? {} : { powerState }) }] });
}

/** Paths of the control interface; none of them is a path of ARM or of the login service. */
const routes: Readonly<Record<string, Readonly<Record<string, Handler>>>> = {
  "/__faults": {
    GET: (simulator) => Response.json({ pending: simulator.pendingFailures() }),
    POST: planFault,
    DELETE(simulator) {
      simulator.clearFailures();
      return Response.json({ pending: 0 });
    },
  },
  "/__requests": {
    GET: (simulator) => Response.json({ requests: simulator.log }),
    DELETE(simulator) {
      simulator.clearLog();
      return Response.json({ requests: [] });
    },
  },
  "/__resources": { GET: (simulator) => Response.json({ resources: simulator.resources() }) },
  "/__instances": { POST: changeInstances },
};

/**
 * Handles a request of the control interface; undefined for every other path. Only programs on this machine are
 * served: a request from a web page, or under another host name, is refused.
 */
export async function answerControl(simulator: AzureSimulator, request: Request): Promise<Response | undefined> {
  const url = new URL(request.url);
  const methods = routes[url.pathname];
  if (methods === undefined) return undefined;
  if (request.headers.has("origin") || !["127.0.0.1", "localhost"].includes(url.hostname))
    return problem(403, "only programs on this machine are served");
  const handler = methods[request.method];
  if (handler === undefined) return problem(405, `${url.pathname} offers ${Object.keys(methods).join(", ")}`);
  return handler(simulator, request);
}

import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { CodedError, keyOf, messageOf, RetryAfterError, type Route } from "cloud-controller-host/sdk";
import {
  type CloudArguments,
  type CloudMethod,
  type CloudResult,
  type MemoryCloud,
  memoryCloud,
} from "cloud-controller-host/sdk/testing";

/** A creation or deletion in the cloud. `target` is a Service's key, or a route's node and CIDR. */
export interface CloudChange {
  readonly what: "balancer made" | "balancer removed" | "route made" | "route removed";
  readonly target: string;
}

/** Latency of a call before its effect, and from its effect to its reply. Both in milliseconds. */
export interface CallDelay {
  readonly beforeMs: number;
  readonly afterMs: number;
}

/** A cloud in the test's process that hosts in processes of their own use over loopback: it remembers when they die. */
export interface ServedCloud extends AsyncDisposable {
  /** Its state, its calls, and what a test puts before its methods. */
  readonly memory: MemoryCloud;
  readonly changes: readonly CloudChange[];
  /** Writes that arrived while another one to the same resource was in flight: method and resource. */
  readonly overlaps: readonly string[];
  /** Calls in flight. */
  readonly underWay: number;
  /** A folder for the test's own files, removed with the cloud. */
  readonly folder: string;
  /** The path of the cloud config. A change of `revision` in it is a reason to reload. */
  readonly config: string;
  /** Flags of a host that uses this cloud. */
  readonly flags: readonly string[];
  /** Writes the config again, with other content. */
  touchConfig(): Promise<void>;
}

export interface ServedCloudOptions {
  /** Asked at each call; default: no delay. */
  readonly delay?: () => CallDelay;
}

/** The folder of plugin folders with the cloud's client side. */
const pluginFolder = join(import.meta.dir, "fixtures");

export async function serveCloud({ delay }: ServedCloudOptions = {}): Promise<ServedCloud> {
  await using opening = new AsyncDisposableStack();
  const folder = await mkdtemp(join(tmpdir(), "served-cloud-"));
  opening.defer(() => rm(folder, { recursive: true, force: true }));
  const memory = memoryCloud({ name: "test-cloud" });
  const changes: CloudChange[] = [];
  noteChanges(memory, changes);
  const overlaps: string[] = [];
  const answer = answering(memory, delay, overlaps);
  let underWay = 0;
  const server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    // A call may be held by a test for any time.
    idleTimeout: 0,
    async fetch(request) {
      underWay++;
      try {
        const requested: CloudRequest = JSON.parse(await request.text());
        return Response.json(await answer(requested));
      } finally {
        underWay--;
      }
    },
  });
  opening.defer(() => server.stop(true));
  const config = join(folder, "cloud-config.yaml");
  let revision = 0;
  const touchConfig = (): Promise<void> =>
    writeFile(config, JSON.stringify({ url: server.url.href, revision: ++revision }));
  await touchConfig();
  const stack = opening.move();
  return {
    memory,
    changes,
    overlaps,
    get underWay() {
      return underWay;
    },
    folder,
    config,
    flags: ["--cloud-provider=test-cloud", `--plugin-dir=${pluginFolder}`, `--cloud-config=${config}`],
    touchConfig,
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  };
}

type CloudRequest = { [M in CloudMethod]: { readonly method: M; readonly args: CloudArguments<M> } }[CloudMethod];
type Methods = { readonly [M in CloudMethod]: (...args: CloudArguments<M>) => Promise<CloudResult<M>> };

/**
 * As in a real cloud, a request that has arrived is processed even if its client disconnects before the reply, and
 * requests for one resource are processed one at a time, in order of arrival.
 */
function answering(
  { cloud: { instances, loadBalancers, routes, nodeMasks } }: MemoryCloud,
  delay: (() => CallDelay) | undefined,
  overlaps: string[],
): (request: CloudRequest) => Promise<object> {
  if (!instances || !loadBalancers || !routes || !nodeMasks) throw new Error("the cloud in memory lacks a capability");
  const methods: Methods = { ...instances, ...loadBalancers, ...routes, ...nodeMasks };
  const lines = new Map<string, Promise<object>>();
  const invoke = async <M extends CloudMethod>(method: M, args: CloudArguments<M>): Promise<object> => {
    const { beforeMs, afterMs } = delay?.() ?? { beforeMs: 0, afterMs: 0 };
    if (beforeMs > 0) await Bun.sleep(beforeMs);
    const answer = await methods[method](...args).then((value) => ({ value }), failureOf);
    if (afterMs > 0) await Bun.sleep(afterMs);
    return answer;
  };
  return (request) => {
    const resource = resourceOf(request);
    if (resource === undefined) return invoke(request.method, request.args);
    const before = lines.get(resource);
    if (before !== undefined) overlaps.push(`${request.method} ${resource}`);
    const turn = (before ?? Promise.resolve()).then(() => invoke(request.method, request.args));
    lines.set(resource, turn);
    void turn.then(() => lines.get(resource) === turn && lines.delete(resource));
    return turn;
  };
}

/** Identifies a route by its node and CIDR: the cloud chooses the name. */
const nameOf = ({ targetNode, destinationCIDR }: Route): string => `${targetNode} ${destinationCIDR}`;

/** The resource that a request writes; undefined for a read. */
function resourceOf({ method, args }: CloudRequest): string | undefined {
  switch (method) {
    case "ensureLoadBalancer":
    case "updateLoadBalancer":
    case "ensureLoadBalancerDeleted":
      return `balancer ${keyOf(args[1])}`;
    case "createRoute":
      return `route ${nameOf(args[2])}`;
    case "deleteRoute":
      return `route ${nameOf(args[1])}`;
    default:
      return undefined;
  }
}

function failureOf(error: unknown): object {
  const code = error instanceof CodedError ? error.code : "Unknown";
  const delayMs = error instanceof RetryAfterError ? { delayMs: error.delayMs } : {};
  return { error: { code, message: messageOf(error), ...delayMs } };
}

/** The last interceptor before the state: those of tests run earlier. */
function noteChanges({ intercept, balancers, routes }: MemoryCloud, changes: CloudChange[]): void {
  intercept("ensureLoadBalancer", async ({ target, proceed }) => {
    const had = balancers.has(target);
    const status = await proceed();
    if (!had) changes.push({ what: "balancer made", target });
    return status;
  });
  intercept("ensureLoadBalancerDeleted", async ({ target, proceed }) => {
    const had = balancers.has(target);
    await proceed();
    if (had) changes.push({ what: "balancer removed", target });
  });
  intercept("createRoute", async ({ args: [, , route], proceed }) => {
    await proceed();
    changes.push({ what: "route made", target: nameOf(route) });
  });
  intercept("deleteRoute", async ({ args: [, route], proceed }) => {
    const had = routes.has(route.name);
    await proceed();
    if (had) changes.push({ what: "route removed", target: nameOf(route) });
  });
}
